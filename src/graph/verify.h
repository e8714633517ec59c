// The rules of a well-formed module, beside the constraints of single ops: definitions dominate uses,
// blocks end in return_, counts and kinds of operands and attributes follow op_definitions.h, and the
// stated result types agree with shape_rules.h (a static dimension agrees with a dynamic one).
#pragma once

#include "graph/module.h"

namespace opentrn::graph {

// Throws Fault{kInput, label} at the first broken rule, with the op's location.
void verify(const Module& module);

}  // namespace opentrn::graph
