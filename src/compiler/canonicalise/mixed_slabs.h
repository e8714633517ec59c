// Products that mix a few slabs, such as the heads of attention: attention[b, h, q, k] with weights[h, g].
#pragma once

#include <optional>
#include <span>

#include "compiler/analysis/graph_names.h"

namespace opentrn::compiler {

// Whether the dot_general contracts over a few slabs, the second dimension of one operand, and gives as few.
bool mixes_slabs(const Function& function, const Op& op);
// What it computes, with the new slabs where those were that it mixes.
ValueId mixed_slabs(Builder& builder, const Function& function, const Op& op,
                    std::span<const ValueId> operands);
// Whether the slabs are of the left operand, whose other dimensions come first in the result.
bool mixes_left(const Function& function, const Op& op);

}  // namespace opentrn::compiler
