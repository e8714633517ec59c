// Collectives of clusters whose ranks write straight to their targets, as plans of one unit (symmetric.h).
#pragma once

#include "collectives/symmetric.h"

namespace opentrn::collectives {

// Whether every step is written, or one for all that are alike in time: towards the same rank of all other
// units of the pod, and of all other pods.
enum class Written : uint8_t { kAll, kAlike };

// Every rank sends to every other at once, as all_to_all does on one machine. An input fault for a hierarchy
// that is none, and for bytes that do not divide by all ranks.
SymmetricPlan symmetric_all_to_all(const Request& request, const Hierarchy& hierarchy, int ranks_per_unit,
                                   Written written);

// Every rank sends to the rank at its place in the next unit of the only level, the last unit to the first.
// `bytes`: of a rank.
SymmetricPlan symmetric_shift(int64_t bytes, const Level& level, int ranks_per_unit);

}  // namespace opentrn::collectives
