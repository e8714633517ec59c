#include "isa/kinds.h"

#include "base/interrupt.h"

namespace opentrn::isa {

namespace {

// What instructions of a kind know of an operand's tensor, as a number that tensors which are alike share.
std::vector<uint32_t> classes_of_tensors(const Program& program) {
  std::vector<uint32_t> classes;
  classes.reserve(program.tensor_count());
  KeyTable table;
  for (TensorId id = 0; id < program.tensor_count(); ++id) {
    const Tensor& tensor = program.tensor(id);
    table.begin();
    table.add(static_cast<uint64_t>(tensor.space) | static_cast<uint64_t>(tensor.dtype) << 8);
    table.add(is_on_chip(tensor.space) ? static_cast<uint64_t>(tensor.row_elements) : 0);
    bool fresh = false;
    classes.push_back(table.number(&fresh));
  }
  return classes;
}

}  // namespace

Kinds::Kinds(const Program& program) {
  const std::vector<uint32_t> classes = classes_of_tensors(program);
  constexpr uint32_t kFarClass = (1u << 19) - 1;
  KeyTable table;
  of_.reserve(program.size());
  for (InstructionIndex i = 0; i < program.size(); ++i) {
    interrupt::poll();
    const Instruction& in = program.instruction(i);
    table.begin();
    table.add(static_cast<uint64_t>(in.opcode) | static_cast<uint64_t>(in.engine) << 8 |
              uint64_t{in.operand_count} << 16 | uint64_t{in.attributes} << 32);
    for (const Operand& operand : program.operands(in)) {
      const uint64_t word = static_cast<uint64_t>(operand.kind) | static_cast<uint64_t>(operand.dtype) << 4;
      if (operand.is_access()) {
        const uint32_t tensors = classes[operand.tensor];
        const bool indirect = operand.indirect != kNoIndirect;
        const bool is_far = tensors >= kFarClass;  // of so many that they have a word of their own
        table.add(word | uint64_t{indirect} << 12 | uint64_t{is_far ? kFarClass : tensors} << 13 |
                  uint64_t{operand.pattern} << 32);
        if (is_far) table.add(tensors);
        if (indirect) table.add(operand.indirect);
        continue;
      }
      table.add(word);
      if (operand.kind == OperandKind::kImmediate) table.add(std::bit_cast<uint64_t>(operand.immediate));
    }
    bool fresh = false;
    of_.push_back(table.number(&fresh));
    if (fresh) first_.push_back(i);
  }
}

void KeyTable::grow() {
  std::vector<Slot> larger(2 * slots_.size());
  for (const Slot& slot : slots_) {
    if (slot.length == 0) continue;
    size_t at = slot.hash & (larger.size() - 1);
    while (larger[at].length != 0) at = (at + 1) & (larger.size() - 1);
    larger[at] = slot;
  }
  slots_ = std::move(larger);
}

}  // namespace opentrn::isa
