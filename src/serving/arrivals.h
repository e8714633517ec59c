// Requests that nobody recorded: arrivals and lengths drawn from distributions, the same for one seed on
// every host.
#pragma once

#include <cstdint>

#include "serving/trace.h"

namespace opentrn::serving {

enum class ArrivalProcess : uint8_t { kPoisson, kGamma, kUniform, kBurst };

struct SyntheticLoad {
  ArrivalProcess process = ArrivalProcess::kPoisson;
  double per_second = 1;  // mean rate; of kBurst all come at 0
  // Of the times between arrivals, for kGamma: standard deviation over mean. 1 is Poisson, more is bursty.
  double variation = 1;
  int64_t requests = 1000;
  int32_t prompt_tokens = 512, output_tokens = 128;  // means
  // Lengths are uniform between mean * (1 - spread) and mean * (1 + spread), at least 1; 0: all the mean.
  double spread = 0;
  uint64_t seed = 0;
};

// Input fault `serving.load` for a load that is none.
Trace synthetic_trace(const SyntheticLoad& load);

}  // namespace opentrn::serving
