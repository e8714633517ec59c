#include "isa/constraints_draft.h"

#include <array>

namespace opentrn::isa {

Draft::Draft(Opcode op) : opcode(op) {
  if (definition(op).first_generation > generation) generation = definition(op).first_generation;
  fill();
}

Operand Draft::tile(MemorySpace space, DType dtype, std::vector<int64_t> shape) {
  Tensor tensor;
  tensor.space = space;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.name = "t" + std::to_string(program.tensor_count());
  tensor.row_elements = 1;
  for (size_t i = is_on_chip(space) ? 1 : 0; i < shape.size(); ++i) tensor.row_elements *= shape[i];
  if (is_on_chip(space)) tensor.rows = shape[0];
  Pattern pattern;
  pattern.rank = static_cast<uint8_t>(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    pattern.dims[i] = {step, shape[i]};
    step *= shape[i];
  }
  Operand operand;
  operand.kind = OperandKind::kAccess;
  operand.dtype = dtype;
  operand.tensor = program.add_tensor(tensor);
  operand.pattern = program.intern_pattern(pattern);
  return operand;
}

std::vector<int64_t> Draft::shape_of(int slot) const { return tensor(slot).shape; }
void Draft::shape(int slot, std::vector<int64_t> sizes) {
  operands[static_cast<size_t>(slot)] = tile(tensor(slot).space, tensor(slot).dtype, std::move(sizes));
}
void Draft::dtype(int slot, DType type) {
  operands[static_cast<size_t>(slot)] = tile(tensor(slot).space, type, shape_of(slot));
}
void Draft::space(int slot, MemorySpace space) {
  operands[static_cast<size_t>(slot)] = tile(space, tensor(slot).dtype, shape_of(slot));
}
void Draft::place(int slot, int partition) {
  program.tensor(operands[static_cast<size_t>(slot)].tensor).address = Address{partition, 0};
}
void Draft::walk(int slot, std::vector<Dim> dims, int64_t offset) {
  Pattern pattern;
  pattern.rank = static_cast<uint8_t>(dims.size());
  std::copy(dims.begin(), dims.end(), pattern.dims.begin());
  operands[static_cast<size_t>(slot)].pattern = program.intern_pattern(pattern);
  operands[static_cast<size_t>(slot)].offset = offset;
}
void Draft::indirect(int slot, IndirectKind kind, int index_partition) {
  const int64_t rows = shape_of(slot)[0];
  Indirect indirect;
  indirect.kind = kind;
  indirect.index = tile(MemorySpace::kSbuf, DType::kUint32, {rows < 128 ? rows : 128, 1});
  program.tensor(indirect.index.tensor).address = Address{index_partition, 0};
  operands[static_cast<size_t>(slot)].indirect = program.add_indirect(indirect);
}

void Draft::run() {
  const InstructionIndex index = program.append(opcode, engine, operands, attributes, 0);
  check(program, program.instruction(index), generation);
}

void Draft::same(int count) {
  for (int i = 0; i < count; ++i) operands.push_back(sbuf(DType::kFloat32, {64, 16}));
}

void Draft::fill() {
  static constexpr auto kDrafts = [] {
    std::array<void (*)(Draft&), kOpcodeCount> all{};
#define OPENTRN_PLACE(opcode, name, number) all.at(number) = drafts::name;
    OPENTRN_INSTRUCTIONS(OPENTRN_PLACE)
#undef OPENTRN_PLACE
    return all;
  }();
  kDrafts[static_cast<size_t>(opcode)](*this);
}

}  // namespace opentrn::isa
