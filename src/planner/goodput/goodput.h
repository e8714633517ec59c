// Goodput: the share of a job's time that ends up in the model, where hosts fail, checkpoints are written and
// hosts are slow. In closed form; monte_carlo.h plays the same job through and is its reference.
//
// Failures of every cause come at constant rates, whatever the job is doing. After one the job goes back to
// the last checkpoint that was whole, and works again after the cause's restart, which a failure may
// interrupt too. With one rate and one restart this is the model of J. T. Daly (2006); the derivation is in
// docs/goodput.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace opentrn::planner {

struct Cause {
  std::string name;
  double per_hour = 0;    // of the whole job
  double takes_host = 0;  // share of these failures that take a host out until it is repaired
  double restart_s = 0;   // until work goes on, where a host is there to go on with
};

struct Reliability {
  std::vector<Cause> causes;
  double interval_s = 0;  // of work between two checkpoints
  double write_s = 0;     // that work stands still for a checkpoint
  double commit_s = 0;    // after that, until it is whole: written while work goes on; at most an interval
  std::optional<int> spares = std::nullopt;  // hosts that stand by; none: there is always another one
  double repair_h = 0;                       // mean time until a host that failed stands by again
  double slow_chance = 0;                    // that at least one host of the job is slow, and all wait for it
  double slowdown = 0;                       // by how much: 0.1 for a tenth

  double per_hour() const;
};

// Shares of the time, which sum to one.
struct Goodput {
  double mttf_h = 0;  // between interruptions
  double useful = 0;
  double checkpoints = 0;  // standing still while they are written
  double lost = 0;         // work that is done again
  double restarts = 0;
  double waiting = 0;  // for a host to be repaired
  double slow = 0;     // for slow hosts
};

// Input faults: an interval or a time that is not positive, a commit longer than the interval.
Goodput goodput_of(const Reliability& job);

// The interval with the largest goodput, to a thousandth; at least the time of a commit.
double best_interval_s(Reliability job);

}  // namespace opentrn::planner
