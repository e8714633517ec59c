#include "sim/functional/access.h"

#include <algorithm>
#include <cstdlib>

#include "isa/definitions.h"

namespace opentrn::sim {

using isa::Operand;
using isa::OperandKind;

namespace {

// Steps, counts and offsets above it are somebody's mistake; below it nothing here overflows.
constexpr int64_t kSane = int64_t{1} << 40;
// Multiply-adds of the Tensor Engine per element operation of the others, for AccessList::work.
constexpr int64_t kMultiplyAddsPerWork = 8;

// Where the first byte lies and how far dimensions reach from it, rows and bytes apart.
struct Reach {
  int64_t low = 0, high = 0;
  void add(int64_t step, int64_t count) {
    const int64_t reach = step * (count - 1);
    (reach < 0 ? low : high) += reach;
  }
};

class Reader {
 public:
  Reader(const isa::Program& program, const isa::Instruction& in, AccessList& list)
      : program_(program), in_(in), list_(list) {}

  void read() {
    const auto slots = isa::definition(in_.opcode).operands;
    if (slots.empty() && in_.operand_count > 0) return fail();
    for (int i = 0; i < in_.operand_count; ++i) {
      const isa::OperandSlot& slot = slots[std::min<size_t>(static_cast<size_t>(i), slots.size() - 1)];
      add(program_.operand(in_, i), slot.role != isa::Role::kIn);
    }
    if (isa::is_matmul(in_.opcode) && in_.operand_count > 0 && contraction_ > 1)
      list_.work = std::max(list_.work, contraction_ * destination_elements_ / kMultiplyAddsPerWork);
  }

 private:
  void fail() { list_.alone = true; }

  void add(const Operand& op, bool writes) {
    if (op.kind != OperandKind::kAccess || list_.alone) return;
    const bool known = op.tensor < program_.tensor_count() && op.pattern < program_.pattern_count() &&
                       static_cast<int>(op.dtype) < kDTypeCount && op.indirect <= program_.indirect_count();
    if (!known) return fail();
    const isa::Pattern& pattern = program_.pattern(op);
    if (pattern.rank > isa::kMaxRank || std::abs(op.offset) > kSane) return fail();
    int64_t elements = 1;
    for (const isa::Dim& dim : pattern.view()) {
      if (dim.count < 1 || dim.count > kSane || std::abs(dim.step) > kSane / dim.count) return fail();
      elements = std::min(kSane, elements * std::min(dim.count, kSane / elements));
    }
    list_.work = std::max(list_.work, elements);
    if (writes) destination_elements_ = elements;
    if (!writes && contraction_ == 0 && pattern.rank > 0) contraction_ = pattern.dims[0].count;
    list_.accesses.push_back(bounds(op, pattern, writes));
    if (op.indirect != isa::kNoIndirect) add(program_.indirect(op).index, false);
  }

  // As Context::resolve walks it.
  Access bounds(const Operand& op, const isa::Pattern& pattern, bool writes) const {
    const isa::Tensor& tensor = program_.tensor(op.tensor);
    const int64_t element = size_bytes(op.dtype);
    const int64_t row_bytes = tensor.row_bytes();
    Access access{
        op.tensor, writes, 0, std::max<int64_t>(1, tensor.rows), 0, std::max(row_bytes, tensor.bytes())};
    if (op.indirect != isa::kNoIndirect || row_bytes <= 0) return access;
    const bool on_chip = isa::is_on_chip(tensor.space);
    int64_t row = 0, column = op.offset * element;
    if (on_chip) {
      row = column / row_bytes;
      column %= row_bytes;
    }
    Reach rows, columns;
    for (int d = 0; d < pattern.rank; ++d) {
      const int64_t step = pattern.dims[d].step * element;
      const bool along_row = !on_chip || (d > 0 && std::abs(step) < row_bytes);
      if (along_row) {
        columns.add(step, pattern.dims[d].count);
      } else if (step % row_bytes == 0) {
        rows.add(step / row_bytes, pattern.dims[d].count);
      } else {
        return access;
      }
    }
    access.row_begin = row + rows.low;
    access.row_end = row + rows.high + 1;
    access.byte_begin = column + columns.low;
    access.byte_end = column + columns.high + element;
    return access;
  }

  const isa::Program& program_;
  const isa::Instruction& in_;
  AccessList& list_;
  int64_t contraction_ = 0;
  int64_t destination_elements_ = 0;
};

}  // namespace

void read_accesses(const isa::Program& program, const isa::Instruction& in, AccessList& list) {
  list.accesses.clear();
  list.engine_state = 0;
  list.work = 0;
  list.alone = static_cast<int>(in.opcode) >= isa::kOpcodeCount;
  if (list.alone) return;
  const isa::InstructionDefinition& def = isa::definition(in.opcode);
  const bool repeats = !def.operands.empty() && (def.operands.back().accepts & isa::kRepeats) != 0;
  const bool complete =
      repeats ? in.operand_count >= def.operands.size() : in.operand_count == def.operands.size();
  // What stands before a launch on two cores is ordered before it.
  const bool launches = (in.flags & isa::kFlagLaunch) != 0;
  list.alone = def.traits.has(isa::kAlone) || launches || !complete ||
               in.attributes + def.attributes.size() > program.attribute_word_count();
  if (list.alone) return;
  list.engine_state = engine_state_used(program, in);
  Reader(program, in, list).read();
}

}  // namespace opentrn::sim
