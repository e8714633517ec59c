// The types of an op's results from the types of its operands, its attributes and its regions.
// Source: stablehlo/docs/spec.md, the constraints of each op; labels in messages are "op.C3" after its
// numbering. Where the spec leaves a result's shape to the program (broadcast_in_dim, iota, reshape,
// dynamic_*, custom_call), `stated` carries what the program says.
#pragma once

#include <span>
#include <vector>

#include "graph/module.h"

namespace opentrn::graph {

// Checks operand and attribute constraints of `op` on the way and throws Fault{kInput, "op.Cn"} with the
// op's location when one is broken. `stated` may be empty where the rule needs none.
std::vector<Type> infer_types(const Module& module, const Function& function, const Op& op,
                              std::span<const Type> stated);

}  // namespace opentrn::graph
