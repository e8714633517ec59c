#include "isa/roles.h"

#include <algorithm>

namespace opentrn::isa {

Role role_of(const Program& program, const Instruction& in, int slot) {
  if (in.opcode == Opcode::kCustomOp)
    return slot < program.attribute_int(in, isa::slot::custom_op::kAOutputs) ? Role::kOut : Role::kIn;
  const auto operands = definition(in.opcode).operands;
  const size_t index = std::min<size_t>(static_cast<size_t>(slot), operands.size() - 1);
  return operands[index].role;
}

std::vector<bool> written_tensors(const Program& program) {
  std::vector<bool> written(program.tensor_count());
  for (const Instruction& in : program.instructions()) {
    if (in.opcode == Opcode::kCoreBarrier) continue;
    int slot = 0;
    for (const Operand& operand : program.operands(in)) {
      if (operand.is_access() && role_of(program, in, slot) != Role::kIn) written[operand.tensor] = true;
      ++slot;
    }
  }
  return written;
}

std::vector<bool> accessed_tensors(const Program& program) {
  std::vector<bool> accessed(program.tensor_count());
  for (const Instruction& in : program.instructions())
    for (const Operand& operand : program.operands(in)) {
      if (!operand.is_access()) continue;
      accessed[operand.tensor] = true;
      if (operand.indirect == kNoIndirect) continue;
      const Operand& index = program.indirect(operand).index;
      if (index.is_access()) accessed[index.tensor] = true;
    }
  return accessed;
}

}  // namespace opentrn::isa
