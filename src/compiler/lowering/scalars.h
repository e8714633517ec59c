// Arithmetic that the sequencer does in registers: single integers and booleans on the way to an address or a
// branch.
#pragma once

#include <cstddef>

#include "graph/module.h"

namespace opentrn::compiler {

// The operand is an address or decides a branch, so that it must come to a register anyway: start indices of
// dynamic slices, predicates of if, indices of case.
bool is_address(const graph::Op& op, size_t operand);

// One number in, one out, with the same bits in a 32-bit register as on the Vector engine: signed 32-bit
// integers (64-bit ones are kept as such, device_type.h) and booleans.
bool is_register_op(const graph::Function& function, const graph::Op& op);

}  // namespace opentrn::compiler
