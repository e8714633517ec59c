#include "backend/access.h"

namespace opentrn::backend {

bool keeps_engine_state(const isa::Program& program, const isa::Instruction& in) {
  using O = isa::Opcode;
  switch (in.opcode) {
    case O::kActivation:  // most only compute, and leave the accumulators alone
      return static_cast<isa::ReduceCmd>(program.attribute_int(in, isa::slot::activation::kAReduceCmd)) !=
             isa::ReduceCmd::kIdle;
    case O::kActivationReduce:
    case O::kActivate2:
    case O::kExponential:
    case O::kSelectReduce:
    case O::kRangeSelect:
    case O::kTensorScalarReduce:
    case O::kTensorScalarCumulative:
    case O::kDropout:
    case O::kRng:
    case O::kSetRngSeed:
    case O::kRandSetState:
    case O::kRandGetState:
    case O::kRand2: return true;
    default: return false;
  }
}

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
  accesses_.push_back(
      {operand.tensor, role != isa::Role::kOut, role != isa::Role::kIn, footprints_.read(operand)});
}

}  // namespace opentrn::backend
