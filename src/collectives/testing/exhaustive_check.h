// The slow reference of verify(), for small plans: byte by byte, pair by pair, on values.
#pragma once

#include <string>

#include "base/random.h"
#include "collectives/plan.h"

namespace opentrn::collectives {

// "" when the plan is right: everything that steps refer to exists, no circle of waits, each two steps that
// touch a byte one of them writes are ordered by paths of waits and channels (the whole closure is computed),
// nothing unwritten is read, and runs on several random inputs give what the request asks, and nothing else
// is written. Shares no code with the verifier but the request's.
std::string exhaustive_check(const Plan& plan, uint64_t seed);

// The outputs of one run, in an order of steps that waits and channels allow, chosen at random; by the
// order's own arithmetic on bytes (reduce_elements()). The plan is right.
std::vector<std::vector<std::byte>> run_in_some_order(const Plan& plan,
                                                      const std::vector<std::vector<std::byte>>& inputs,
                                                      SplitMix64& random);

}  // namespace opentrn::collectives
