// Passes over a function, each one file, in the order in which compile() runs them.
#pragma once

#include "graph/module.h"

namespace opentrn::compiler {

// The entry with every call, and every composite that no kernel takes as one op, replaced by its body.
// After it the function has no call_ and no composite_. Input fault for recursion and unknown callees.
graph::Function inline_calls(const graph::Module& module, const graph::Function& entry);

// Values that are known without running: iota becomes a constant. After it no op has a result that depends
// on no operand, but constants.
void fold_constants(graph::Function& function);

// Drops ops whose results nobody reads and that do nothing else. Ops stay in the tables, not in blocks.
void remove_dead_ops(graph::Function& function);

}  // namespace opentrn::compiler
