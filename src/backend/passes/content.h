// What each tensor holds, as a number: two tensors with one number hold the same bits.
//
// Value numbering over memory: the content of a tensor after an instruction is named by its content before,
// the operation, and the contents and patterns it reads. Two tensors that go through the same history from
// the same inputs get one number. Random numbers, registers, user code and other cores' data are all
// distinct.
#pragma once

#include <cstdint>
#include <vector>

#include "isa/program.h"

namespace opentrn::backend {

using ContentId = uint32_t;

// The final content of every tensor, by TensorId. For programs without control flow.
std::vector<ContentId> final_contents(const isa::Program& program);

// Whether the result of an instruction follows from its operands alone and nothing else happens.
bool is_pure(const isa::Program& program, const isa::Instruction& instruction);

}  // namespace opentrn::backend
