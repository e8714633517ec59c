// A job played through, failure by failure: what the closed form of goodput.h is held to, and how far one run
// may be from it.
#pragma once

#include <cstdint>

#include "planner/goodput/goodput.h"

namespace opentrn::planner {

struct MonteCarloOptions {
  double days = 30;
  int runs = 1000;
  uint64_t seed = 1;  // a run's own seed is made of it and the run's number
};

struct MonteCarlo {
  double useful = 0;          // mean of the runs
  double standard_error = 0;  // of that mean
  double low = 0, high = 0;   // four runs in five lie between
  double failures = 0;        // mean of the runs
};

// The same for the same options on every host. Input faults: as goodput_of(); no run, no time.
MonteCarlo simulate_goodput(const Reliability& job, const MonteCarloOptions& options);

}  // namespace opentrn::planner
