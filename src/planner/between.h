// A figure that is known within bounds, and samples of it.
#pragma once

#include <vector>

#include "base/random.h"

namespace opentrn::planner {

struct Between {
  double value = 0, low = 0, high = 0;  // four in five lie between low and high
};

// Lognormal on either side of the value, so that four in five lie between low and high; a value that is its
// own bounds, or is not above zero, is itself.
double sample(const Between& value, SplitMix64& random);

// The value and the bounds that four in five of the samples lie between. `samples`: at least ten; sorted
// here.
Between summary_of(double value, std::vector<double>& samples);

}  // namespace opentrn::planner
