// Operands whose address a register moves.
#include "compiler/lowering/emitter.h"
#include "compiler/lowering/residency.h"

namespace opentrn::compiler {

using isa::Engine;
using isa::Opcode;
using isa::Operand;

isa::TensorId Emitter::memory_of(isa::TensorId tensor) const {
  return is_moved(tensor) ? moved_[tensor - kFirstMoved].memory : tensor;
}

View Emitter::moved(const View& box, isa::RegisterId offset, int64_t bound) {
  OPENTRN_CHECK(!is_moved(box.tensor), "a view that a register moves was moved again");
  View view = box;
  view.tensor = kFirstMoved + static_cast<isa::TensorId>(moved_.size());
  moved_.push_back({box.tensor, offset, bound});
  return view;
}

uint32_t Emitter::by_register(isa::RegisterId offset, int64_t bound) {
  isa::Indirect indirect;
  indirect.kind = isa::IndirectKind::kScalar;
  indirect.index = Operand::reg(offset);
  indirect.stride = 1;
  indirect.bound = bound;
  return program_->add_indirect(indirect);
}

Operand Emitter::moved_operand(const View& view, isa::RegisterId offset, int64_t bound) {
  Operand operand_of_box = operand(view);
  operand_of_box.indirect = by_register(offset, bound);
  return operand_of_box;
}

void Emitter::load_at(const Tile& dst, const View& src, isa::RegisterId offset, int64_t bound) {
  if (residency_) residency_->flush(src.tensor);
  const Operand source = moved_operand(src, offset, bound);
  append(Opcode::kDmaCopy, Engine::kUnknown, {operand(dst), source}, {-1, 0, 0});
}

void Emitter::store_at(const View& dst, isa::RegisterId offset, int64_t bound, const Tile& src) {
  append(Opcode::kDmaCopy, Engine::kUnknown, {moved_operand(dst, offset, bound), operand(src)}, {-1, 0, 0});
}

void Emitter::copy_from(const View& dst, const View& src, isa::RegisterId offset, int64_t bound) {
  if (residency_) residency_->flush(src.tensor);
  append(Opcode::kDmaCopy, Engine::kUnknown, {operand(dst), moved_operand(src, offset, bound)}, {-1, 0, 0});
}

void Emitter::copy_to(const View& dst, isa::RegisterId offset, int64_t bound, const View& src) {
  const Operand source = read_operand(src);
  append(Opcode::kDmaCopy, Engine::kUnknown, {moved_operand(dst, offset, bound), source}, {-1, 0, 0});
}

void Emitter::update_at(AluOp op, const Tile& place, isa::RegisterId number, int64_t step, int64_t bound,
                        const Tile& with) {
  Operand moved = operand(place);
  moved.indirect = program_->add_indirect({.kind = isa::IndirectKind::kScalar,
                                           .dim = 0,
                                           .index = Operand::reg(number),
                                           .stride = step,
                                           .bound = bound});
  append(Opcode::kTensorTensor, Engine::kUnknown, {moved, moved, operand(with)}, {static_cast<int64_t>(op)});
}

}  // namespace opentrn::compiler
