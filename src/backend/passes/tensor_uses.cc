#include "backend/passes/tensor_uses.h"

#include "backend/access.h"
#include "isa/definitions.h"

namespace opentrn::backend {

namespace {

// Calls visit(tensor, reads, writes) for each tensor operand, indices of indirect ones included.
template <typename Visit>
void for_each_access(const isa::Program& program, const isa::Instruction& in, Visit visit) {
  int slot = 0;
  for (const isa::Operand& operand : program.operands(in)) {
    if (operand.is_access()) {
      const isa::Role role = role_of(program, in, slot);
      visit(operand.tensor, role != isa::Role::kOut, role != isa::Role::kIn);
      if (operand.indirect != isa::kNoIndirect && program.indirect(operand).index.is_access())
        visit(program.indirect(operand).index.tensor, true, false);
    }
    ++slot;
  }
}

}  // namespace

TensorUses::TensorUses(const isa::Program& program)
    : program_(program), begin_(program.tensor_count() + 1), written_(isa::written_tensors(program)) {
  constexpr isa::InstructionIndex kNone = ~0u;
  std::vector<isa::InstructionIndex> last(program.tensor_count(), kNone);
  for (isa::InstructionIndex i = 0; i < program.size(); ++i)
    for_each_access(program, program.instruction(i), [&](isa::TensorId tensor, bool, bool) {
      if (last[tensor] != i) ++begin_[tensor + 1];
      last[tensor] = i;
    });
  for (size_t t = 0; t + 1 < begin_.size(); ++t) begin_[t + 1] += begin_[t];
  uses_.resize(begin_.back());
  std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
  std::ranges::fill(last, kNone);
  for (isa::InstructionIndex i = 0; i < program.size(); ++i)
    for_each_access(program, program.instruction(i), [&](isa::TensorId tensor, bool reads, bool writes) {
      if (last[tensor] != i) uses_[next[tensor]++] = {i, false, false};
      last[tensor] = i;
      TensorUse& use = uses_[next[tensor] - 1];
      use.reads |= reads;
      use.writes |= writes;
    });
}

std::vector<isa::InstructionIndex> TensorUses::loads_of(isa::TensorId tensor) const {
  std::vector<isa::InstructionIndex> loads;
  bool read = false;
  for (const TensorUse& use : of(tensor)) {
    read |= use.reads;
    if (!use.writes) continue;
    const isa::Instruction& in = program_.instruction(use.instruction);
    if (read || in.opcode != isa::Opcode::kDmaCopy) return {};
    const isa::Operand& src = program_.operand(in, isa::slot::dma_copy::kSrc);
    const isa::Operand& dst = program_.operand(in, isa::slot::dma_copy::kDst);
    if (!src.is_access() || !isa::is_hbm(program_.tensor(src.tensor).space) || written_[src.tensor] ||
        src.indirect != isa::kNoIndirect || dst.indirect != isa::kNoIndirect)
      return {};
    loads.push_back(use.instruction);
  }
  return loads;
}

}  // namespace opentrn::backend
