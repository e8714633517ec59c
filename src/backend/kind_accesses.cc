#include "backend/kind_accesses.h"

#include <algorithm>

namespace opentrn::backend {

namespace {

bool is_plain_kind(const isa::Program& program, const isa::Instruction& in) {
  return std::ranges::none_of(program.operands(in), [](const isa::Operand& operand) {
    return operand.kind == isa::OperandKind::kRegister ||
           (operand.is_access() && operand.indirect != isa::kNoIndirect);
  });
}

}  // namespace

KindAccesses::KindAccesses(const isa::Program& program, const isa::Kinds& kinds, FootprintReader& footprints)
    : of_kind_(kinds.count()) {
  for (uint32_t kind = 0; kind < kinds.count(); ++kind) {
    const isa::Instruction& in = program.instruction(kinds.first(kind));
    OfKind& found = of_kind_[kind];
    found.begin = static_cast<uint32_t>(accesses_.size());
    found.is_plain = is_plain_kind(program, in);
    if (found.is_plain) add(program, in, footprints);
    found.count = static_cast<uint32_t>(accesses_.size()) - found.begin;
  }
}

void KindAccesses::add(const isa::Program& program, const isa::Instruction& in, FootprintReader& footprints) {
  const auto first = static_cast<ptrdiff_t>(accesses_.size());
  for (int slot = 0; slot < in.operand_count; ++slot) {
    isa::Operand operand = program.operand(in, slot);
    if (!operand.is_access()) continue;
    operand.offset = 0;
    const isa::Tensor& tensor = program.tensor(operand.tensor);
    const isa::Role role = role_of(program, in, slot);
    KindAccess access;
    access.footprint = footprints.read(operand);
    access.element_bytes = size_bytes(operand.dtype);
    if (isa::is_on_chip(tensor.space))
      access.row_elements = std::max<int64_t>(1, tensor.row_bytes() / access.element_bytes);
    access.slot = static_cast<uint8_t>(slot);
    access.space = tensor.space;
    access.reads = role != isa::Role::kOut;
    access.writes = role != isa::Role::kIn;
    accesses_.push_back(access);
  }
  std::stable_partition(accesses_.begin() + first, accesses_.end(),
                        [](const KindAccess& access) { return !access.writes; });
  for (size_t at = static_cast<size_t>(first); at < accesses_.size(); ++at)
    accesses_[at].number = static_cast<uint32_t>(at);
}

}  // namespace opentrn::backend
