#include "backend/access.h"

namespace opentrn::backend {

void AccessReader::read(const isa::Instruction& in) {
  accesses_.clear();
  registers_.clear();
  int slot = 0;
  for (const isa::Operand& operand : program_.operands(in)) {
    if (operand.kind == isa::OperandKind::kAccess || operand.kind == isa::OperandKind::kRegister)
      add(operand, role_of(program_, in, slot));
    ++slot;
  }
}

void AccessReader::add(const isa::Operand& operand, isa::Role role) {
  if (operand.kind == isa::OperandKind::kRegister) {
    registers_.push_back({operand.tensor, role != isa::Role::kIn});
    return;
  }
  if (operand.indirect != isa::kNoIndirect) {
    const isa::Operand& index = program_.indirect(operand).index;
    if (index.present() && index.kind != isa::OperandKind::kImmediate) add(index, isa::Role::kIn);
  }
  accesses_.push_back({operand.tensor, role != isa::Role::kOut, role != isa::Role::kIn,
                       footprints_.read(operand),
                       operand.indirect == isa::kNoIndirect ? nullptr : &program_.indirect(operand)});
}

}  // namespace opentrn::backend
