#include "backend/access.h"

#include <algorithm>

namespace opentrn::backend {

void AccessReader::read(const isa::Instruction& in) {
  accesses_.clear();
  registers_.clear();
  current_ = &accesses_;
  bases_ = nullptr;
  int slot = 0;
  for (const isa::Operand& operand : program_.operands(in)) {
    if (operand.kind == isa::OperandKind::kAccess || operand.kind == isa::OperandKind::kRegister)
      add(operand, role_of(program_, in, slot));
    ++slot;
  }
}

void AccessReader::read_first(OfKind& kind, const isa::Instruction& in) {
  if (kind.known) return read(in);
  kind.known = true;
  for (int slot = 0; slot < in.operand_count; ++slot) {
    isa::Operand operand = program_.operand(in, slot);
    if (operand.kind == isa::OperandKind::kRegister) return read(in);
    if (!operand.is_access()) continue;
    if (operand.indirect != isa::kNoIndirect) return read(in);
    operand.offset = 0;
    const isa::Tensor& tensor = program_.tensor(operand.tensor);
    const int64_t element = size_bytes(operand.dtype);
    const int64_t row_elements =
        isa::is_on_chip(tensor.space) ? std::max<int64_t>(1, tensor.row_bytes() / element) : 0;
    const isa::Role role = role_of(program_, in, slot);
    const Footprint f = footprints_.read(operand);
    kind.accesses.push_back({operand.tensor, role != isa::Role::kOut, role != isa::Role::kIn, f, nullptr});
    kind.bases.push_back({slot, row_elements, element});
  }
  kind.is_plain = true;
  registers_.clear();
  current_ = &kind.accesses;
  bases_ = kind.bases.data();
  operands_ = program_.operands(in).data();
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
