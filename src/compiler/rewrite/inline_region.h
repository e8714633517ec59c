// A region of scalars as ops on whole tensors, for expansions of the op that has it.
#pragma once

#include <span>
#include <vector>

#include "graph/builder.h"

namespace opentrn::compiler {

// True when the region is element-wise ops and constants of one number, and takes nothing else from outside.
bool can_inline_region(const graph::Function& function, graph::BlockId block);

// What the region of `function` returns for these tensors, all of shape `dims`; the ops are added to the
// builder's function.
std::vector<graph::ValueId> inline_region(graph::Builder& builder, const graph::Function& function,
                                          graph::BlockId block, std::span<const graph::ValueId> arguments,
                                          const std::vector<int64_t>& dims);

}  // namespace opentrn::compiler
