// Regions of ops as code on tiles.
#pragma once

#include <span>
#include <vector>

#include "compiler/lowering/elementwise.h"

namespace opentrn::compiler {

// True when every op of the block has an element-wise body or is a constant, and the block uses nothing from
// outside but such constants.
bool is_elementwise_region(const graph::Function& function, graph::BlockId block);

// What the block returns for these arguments: tiles of `rows` x `columns`, or splats.
std::vector<Term> emit_region(Emitter& emitter, const graph::Function& function, graph::BlockId block,
                              std::span<const Term> arguments, int64_t rows, int64_t columns);

}  // namespace opentrn::compiler
