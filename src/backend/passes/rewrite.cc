#include "backend/passes/rewrite.h"

#include <array>
#include <limits>
#include <numeric>

#include "base/interrupt.h"
#include "isa/definitions.h"

namespace opentrn::backend {

namespace {

constexpr isa::InstructionIndex kGone = std::numeric_limits<isa::InstructionIndex>::max();

}  // namespace

bool has_control_flow(const isa::Program& program) {
  for (const isa::Instruction& in : program.instructions())
    if (isa::is_control(in.opcode)) return true;
  return false;
}

Rewrite::Rewrite(const isa::Program& from)
    : from_(from), to_(from.without_instructions()), now_(from.tensor_count()), place_(from.size(), kGone) {
  std::iota(now_.begin(), now_.end(), 0u);
}

isa::TensorId Rewrite::clone(isa::TensorId tensor, isa::MemorySpace space) {
  isa::Tensor copy = from_.tensor(tensor);
  copy.space = space;
  copy.address.reset();
  copy.is_input = copy.is_output = false;
  if (isa::is_hbm(space)) {
    copy.row_elements *= copy.rows;
    copy.rows = 1;
    copy.shape = {copy.row_elements};
  }
  return to_.add_tensor(std::move(copy));
}

isa::Operand Rewrite::renamed(isa::Operand operand) {
  if (!operand.is_access()) return operand;
  operand.tensor = now_[operand.tensor];
  if (operand.indirect == isa::kNoIndirect) return operand;
  isa::Indirect indirect = from_.indirect(operand);
  if (indirect.index.is_access() && now_[indirect.index.tensor] != indirect.index.tensor) {
    indirect.index.tensor = now_[indirect.index.tensor];
    operand.indirect = to_.add_indirect(indirect);
  }
  return operand;
}

void Rewrite::keep(isa::InstructionIndex index) { keep_on(index, from_.instruction(index).engine); }

void Rewrite::keep_on(isa::InstructionIndex index, isa::Engine engine) {
  interrupt::poll();
  isa::Instruction in = from_.instruction(index);
  in.engine = engine;
  operands_.clear();
  for (const isa::Operand& operand : from_.operands(in)) operands_.push_back(renamed(operand));
  place_[index] = to_.append_like(in, operands_);
}

void Rewrite::keep_as(std::span<const isa::InstructionIndex> indices,
                      std::span<const isa::Operand> operands) {
  const isa::InstructionIndex now = to_.append_like(from_.instruction(indices[0]), operands);
  for (const isa::InstructionIndex index : indices) place_[index] = now;
}

void Rewrite::repeat(isa::InstructionIndex index, int slot, const isa::Operand& operand) {
  const isa::Instruction& in = from_.instruction(index);
  operands_.clear();
  for (const isa::Operand& old : from_.operands(in)) operands_.push_back(renamed(old));
  operands_[static_cast<size_t>(slot)] = operand;
  to_.append_like(in, operands_);
}

void Rewrite::copy(isa::Opcode opcode, const isa::Operand& dst, const isa::Operand& src,
                   isa::InstructionIndex like, std::string_view name) {
  const bool dma = opcode == isa::Opcode::kDmaCopy;
  std::array<isa::AttributeWord, 3> attributes{};
  attributes[isa::slot::dma_copy::kAPriority].integer = -1;
  to_.append(opcode, dma ? isa::Engine::kDma : isa::Engine::kUnknown, std::array{dst, src},
             dma ? std::span<const isa::AttributeWord>(attributes) : std::span<const isa::AttributeWord>(),
             from_.instruction(like).location, to_.intern_string(name));
}

isa::Program Rewrite::take() {
  for (const isa::DependencyEdge& edge : from_.edges())
    if (place_[edge.consumer] != kGone && place_[edge.producer] != kGone)
      to_.add_edge({place_[edge.consumer], place_[edge.producer]});
  return std::move(to_);
}

}  // namespace opentrn::backend
