#include "isa/kinds.h"

namespace opentrn::isa {

std::vector<uint32_t> KindFinder::classes_of_tensors(const Program& program) {
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

uint32_t KindFinder::look_up(const Instruction& in, bool* fresh) {
  constexpr uint32_t kFarClass = (1u << 19) - 1;
  table_.begin();
  table_.add(static_cast<uint64_t>(in.opcode) | static_cast<uint64_t>(in.engine) << 8 |
             uint64_t{in.operand_count} << 16 | uint64_t{in.attributes} << 32);
  for (const Operand& operand : program_.operands(in)) {
    const uint64_t word = static_cast<uint64_t>(operand.kind) | static_cast<uint64_t>(operand.dtype) << 4;
    if (operand.is_access()) {
      const uint32_t tensors = classes_[operand.tensor];
      const bool indirect = operand.indirect != kNoIndirect;
      const bool is_far = tensors >= kFarClass;  // of so many that they have a word of their own
      table_.add(word | uint64_t{indirect} << 12 | uint64_t{is_far ? kFarClass : tensors} << 13 |
                 uint64_t{operand.pattern} << 32);
      if (is_far) table_.add(tensors);
      if (indirect) table_.add(operand.indirect);
      continue;
    }
    table_.add(word);
    if (operand.kind == OperandKind::kImmediate) table_.add(std::bit_cast<uint64_t>(operand.immediate));
  }
  const uint32_t found = table_.number(fresh);
  if (*fresh) kinds_.push_back({&in});
  // One that comes behind another one but now and then is not expected there.
  OfKind& last = kinds_[last_];
  if (last.in_doubt) last.next = found;
  last.in_doubt = !last.in_doubt;
  return found;
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
