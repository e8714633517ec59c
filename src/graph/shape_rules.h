// The types of an op's results from the types of its operands, its attributes and its regions.
// Source: stablehlo/docs/spec.md, the constraints of each op; labels in messages are "op.C3" after its
// numbering. Where the spec leaves a result's shape to the program (broadcast_in_dim, iota, reshape,
// dynamic_*, custom_call), `stated` carries what the program says.
#pragma once

#include <span>
#include <vector>

#include "graph/module.h"

namespace opentrn::graph {

// Checks counts and kinds of operands and attributes, then the op's constraints, and throws
// Fault{kInput, "op.Cn"} with the op's location when one is broken; "op.In" for the element type or rank of
// operand n, "op.operands", ".results", ".regions", ".attributes", ".type" for what no constraint numbers. A
// stated type that disagrees is such a fault too. A dimension that either of stated and inferred type knows
// is static in what is returned; `stated` may be empty where the rule needs none.
std::vector<Type> infer_types(const Module& module, const Function& function, const Op& op,
                              std::span<const Type> stated);

// How many constraints the specification numbers for an op; labels run from C1 to this.
int constraint_count(OpKind kind);

}  // namespace opentrn::graph
