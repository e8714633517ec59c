// Which inputs a plan's step rests on, and how far the step goes with each alone.
#pragma once

#include <string>
#include <vector>

#include "planner/interval.h"
#include "planner/layer_times.h"
#include "planner/step.h"

namespace opentrn::planner {

struct Contributor {
  std::string what;              // "rate of large products"
  std::string key;               // of the table's value that it rests on; empty: of the whole prediction
  std::string confidence;        // of that value: "assumed", "measured", ...
  double low = 1, high = 1;      // the input's own interval, of its value; four in five are expected between
  double low_s = 0, high_s = 0;  // the plan's step at either end of it, everything else being what it is
  double width_s() const { return high_s - low_s; }
};

// Of a plan's step, widest first. Every input is moved to both ends of its interval and the whole plan is
// evaluated again. An input without a published interval has one by its confidence (planner.uncertainty);
// layers that were compiled have the timing model's band. What these inputs together do not explain of
// interval_of()'s width, as if they were independent, is one more contributor: the program's own
// residuals. `layers`: of a plan whose layers are not of the curves.
std::vector<Contributor> contributors(const arch::Tables& tables, const Job& job, const Machine& machine,
                                      const Stack& stack, const Estimate& plan,
                                      const LayerTimes* layers = nullptr);

}  // namespace opentrn::planner
