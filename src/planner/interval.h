// How far a predicted step time may be from a measured one.
#pragma once

#include "planner/stack.h"

namespace opentrn::planner {

struct Interval {
  double low = 0, high = 0;  // four in five measurements lie between
  bool measured = false;     // from this program's own residuals; else from other programs', widened
};

Interval interval_of(const arch::Tables& tables, const Stack& stack, const Machine& machine, double step_s);

}  // namespace opentrn::planner
