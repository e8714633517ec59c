#include "isa/kinds.h"

#include "base/interrupt.h"

namespace opentrn::isa {

namespace {

// What instructions of a kind know of an operand's tensor, in one word.
std::vector<uint64_t> facts_of_tensors(const Program& program) {
  std::vector<uint64_t> facts;
  facts.reserve(program.tensor_count());
  for (TensorId id = 0; id < program.tensor_count(); ++id) {
    const Tensor& tensor = program.tensor(id);
    const uint64_t row = is_on_chip(tensor.space) ? static_cast<uint64_t>(tensor.row_elements) : 0;
    facts.push_back(static_cast<uint64_t>(tensor.space) | static_cast<uint64_t>(tensor.dtype) << 8 |
                    row << 16);
  }
  return facts;
}

}  // namespace

Kinds::Kinds(const Program& program) {
  const std::vector<uint64_t> facts = facts_of_tensors(program);
  KeyTable table;
  of_.reserve(program.size());
  for (InstructionIndex i = 0; i < program.size(); ++i) {
    interrupt::poll();
    const Instruction& in = program.instruction(i);
    table.begin();
    table.add(static_cast<uint64_t>(in.opcode) | static_cast<uint64_t>(in.engine) << 8 |
              uint64_t{in.operand_count} << 16 | uint64_t{in.attributes} << 32);
    for (const Operand& operand : program.operands(in)) {
      const bool indirect = operand.is_access() && operand.indirect != kNoIndirect;
      table.add(static_cast<uint64_t>(operand.kind) | static_cast<uint64_t>(operand.dtype) << 8 |
                uint64_t{indirect} << 16 | (operand.is_access() ? uint64_t{operand.pattern} << 32 : 0));
      if (operand.is_access()) table.add(facts[operand.tensor]);
      if (operand.kind == OperandKind::kImmediate) table.add(std::bit_cast<uint64_t>(operand.immediate));
      if (indirect) table.add(operand.indirect);
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
