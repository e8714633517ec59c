#include "backend/order_check.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "backend/access.h"

namespace opentrn::backend {

namespace {

// Memory (space class), row, byte.
using Byte = std::tuple<int, int64_t, int64_t>;

// Every byte of one operand, from its pattern, element by element.
void add_bytes(const isa::Executable& executable, const isa::Operand& operand, std::set<Byte>& bytes) {
  const isa::Program& program = *executable.program;
  const isa::Tensor& tensor = program.tensor(operand.tensor);
  const isa::Address at = executable.placements[operand.tensor].address;
  const bool on_chip = isa::is_on_chip(tensor.space);
  const int memory = on_chip ? static_cast<int>(tensor.space) : 100;
  const int64_t size = size_bytes(operand.dtype);
  const int64_t row = on_chip ? tensor.row_bytes() / size : tensor.bytes();
  const isa::Pattern& pattern = program.pattern(operand);
  if (operand.indirect != isa::kNoIndirect) {  // may be anywhere in the tensor
    for (int64_t r = 0; r < tensor.rows; ++r)
      for (int64_t b = 0; b < tensor.row_bytes(); ++b)
        bytes.insert({memory, at.partition + r, at.byte_offset + b});
    return;
  }
  for (int64_t n = 0; n < pattern.element_count(); ++n) {
    int64_t rest = n, element = operand.offset;
    for (int d = pattern.rank - 1; d >= 0; --d) {
      const isa::Dim& dim = pattern.dims[static_cast<size_t>(d)];
      element += rest % dim.count * dim.step;
      rest /= dim.count;
    }
    for (int64_t b = 0; b < size; ++b)
      bytes.insert({memory, at.partition + element / row, at.byte_offset + element % row * size + b});
  }
}

struct Touched {
  std::set<Byte> reads, writes;
  std::set<uint32_t> registers_read, registers_written;
};

Touched touched_by(const isa::Executable& executable, isa::InstructionIndex i) {
  const isa::Program& program = *executable.program;
  const isa::Instruction& in = program.instruction(i);
  Touched touched;
  int slot = 0;
  for (const isa::Operand& operand : program.operands(in)) {
    const isa::Role role = role_of(program, in, slot++);
    if (operand.kind == isa::OperandKind::kRegister)
      (role == isa::Role::kIn ? touched.registers_read : touched.registers_written).insert(operand.tensor);
    if (!operand.is_access()) continue;
    if (role != isa::Role::kOut) add_bytes(executable, operand, touched.reads);
    if (role != isa::Role::kIn) add_bytes(executable, operand, touched.writes);
    if (operand.indirect == isa::kNoIndirect) continue;
    const isa::Operand& index = program.indirect(operand).index;
    if (index.is_access()) add_bytes(executable, index, touched.reads);
    if (index.kind == isa::OperandKind::kRegister) touched.registers_read.insert(index.tensor);
  }
  return touched;
}

template <typename T>
bool meet(const std::set<T>& a, const std::set<T>& b) {
  return std::ranges::any_of(a, [&](const T& value) { return b.contains(value); });
}

bool conflict(const Touched& a, const Touched& b) {
  return meet(a.writes, b.writes) || meet(a.writes, b.reads) || meet(a.reads, b.writes) ||
         meet(a.registers_written, b.registers_written) || meet(a.registers_written, b.registers_read) ||
         meet(a.registers_read, b.registers_written);
}

// before[j][i]: schedule entry i is complete when entry j starts, or precedes it on an in-order engine.
std::vector<std::vector<bool>> complete_before(const isa::Executable& executable) {
  const size_t n = executable.schedule.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n, false));
  std::vector<int> last(executable.streams.size(), -1);
  const auto join = [&](size_t to, size_t from) {
    for (size_t i = 0; i < n; ++i)
      if (before[from][i]) before[to][i] = true;
  };
  for (size_t j = 0; j < n; ++j) {
    const isa::ScheduledInstruction& entry = executable.schedule[j];
    for (uint32_t wait : executable.waits_of(entry)) {
      join(j, wait);
      before[j][wait] = true;
    }
    int& previous = last[entry.stream];
    if (previous >= 0) {
      join(j, static_cast<size_t>(previous));
      if (entry.engine != isa::Engine::kDma) before[j][static_cast<size_t>(previous)] = true;
    }
    previous = static_cast<int>(j);
  }
  return before;
}

}  // namespace

std::string find_unordered_pair(const isa::Executable& executable) {
  const size_t n = executable.schedule.size();
  std::vector<Touched> touched;
  for (const isa::ScheduledInstruction& entry : executable.schedule)
    touched.push_back(touched_by(executable, entry.instruction));
  const auto before = complete_before(executable);
  for (size_t j = 0; j < n; ++j) {
    for (size_t i = 0; i < n; ++i) {
      if (executable.schedule[i].instruction >= executable.schedule[j].instruction) continue;
      if (!conflict(touched[i], touched[j]) || before[j][i]) continue;
      return fmt::format("instruction {} must come after {}, and nothing makes it",
                         executable.schedule[j].instruction, executable.schedule[i].instruction);
    }
  }
  return {};
}

std::string find_shared_bytes(const isa::Executable& executable) {
  const isa::Program& program = *executable.program;
  const size_t tensors = program.tensor_count();
  std::vector<int64_t> first(tensors, -1), last(tensors, -1);
  for (isa::InstructionIndex i = 0; i < program.size(); ++i) {
    for (const isa::Operand& operand : program.operands(program.instruction(i))) {
      if (!operand.is_access()) continue;
      if (first[operand.tensor] < 0) first[operand.tensor] = i;
      last[operand.tensor] = i;
    }
  }
  for (isa::TensorId a = 0; a < tensors; ++a) {
    for (isa::TensorId b = 0; b < a; ++b) {
      const isa::Tensor& ta = program.tensor(a);
      const isa::Tensor& tb = program.tensor(b);
      const bool on_chip = isa::is_on_chip(ta.space);
      const bool same_memory = on_chip ? ta.space == tb.space : isa::is_hbm(tb.space);
      if (first[a] < 0 || first[b] < 0 || !same_memory) continue;
      if (on_chip && (last[a] < first[b] || last[b] < first[a])) continue;
      const isa::Address pa = executable.placements[a].address, pb = executable.placements[b].address;
      const bool rows = pa.partition < pb.partition + tb.rows && pb.partition < pa.partition + ta.rows;
      const bool bytes = pa.byte_offset < pb.byte_offset + tb.row_bytes() &&
                         pb.byte_offset < pa.byte_offset + ta.row_bytes();
      if (rows && bytes) return fmt::format("tensors {} and {} share bytes while both are live", a, b);
    }
  }
  return {};
}

}  // namespace opentrn::backend
