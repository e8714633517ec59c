// Which operands an instruction reads and writes.
#pragma once

#include <vector>

#include "isa/definitions.h"
#include "isa/program.h"

namespace opentrn::isa {

// The role of operand `slot` of an instruction: that of its definition, whose last slot serves the rest of a
// repeating one. A custom operator says itself how many outputs it has.
Role role_of(const Program& program, const Instruction& instruction, int slot);

// By TensorId: whether some instruction writes the tensor. A core_barrier does not, although accesses of its
// tensor wait for it.
std::vector<bool> written_tensors(const Program& program);

// By TensorId: whether some instruction reads or writes the tensor.
std::vector<bool> accessed_tensors(const Program& program);

}  // namespace opentrn::isa
