// Instructions by when they start, where engines take theirs in the order of the program.
#pragma once

#include <vector>

#include "backend/engine_choice.h"
#include "base/large_pages.h"

namespace opentrn::backend {

// By start, then by their place in the program. Those of an engine are sorted as they are, so that only
// transfers have to be, and what is left is to merge.
std::vector<isa::InstructionIndex> by_start(const LargeVector<double>& start,
                                            const std::vector<EngineChoice>& choices);

}  // namespace opentrn::backend
