#include "backend/lifetime.h"

#include <algorithm>

#include "backend/access.h"
#include "base/interrupt.h"

namespace opentrn::backend {

std::vector<Loop> find_loops(const isa::Program& program) {
  std::vector<Loop> loops;
  std::vector<int32_t> open;
  for (isa::InstructionIndex i = 0; i < program.size(); ++i) {
    const isa::Opcode opcode = program.instruction(i).opcode;
    if (opcode == isa::Opcode::kLoopBegin || opcode == isa::Opcode::kWhileBegin) {
      loops.push_back({i, 0, open.empty() ? -1 : open.back(), static_cast<int32_t>(open.size())});
      open.push_back(static_cast<int32_t>(loops.size() - 1));
    } else if (opcode == isa::Opcode::kLoopEnd || opcode == isa::Opcode::kWhileEnd) {
      if (open.empty()) throw Fault(FaultKind::kProgram, "loop.match", "a loop ends that was never begun");
      loops[static_cast<size_t>(open.back())].end = i;
      open.pop_back();
    }
  }
  if (!open.empty()) throw Fault(FaultKind::kProgram, "loop.match", "a loop is never ended");
  return loops;
}

namespace {

// Calls `touch(tensor, i)` for each tensor that instruction i reads or writes, or finds its places in.
template <typename Touch>
void for_tensors(const isa::Program& program, isa::InstructionIndex i, Touch&& touch) {
  for (const isa::Operand& operand : program.operands(program.instruction(i))) {
    if (!operand.is_access()) continue;
    touch(operand.tensor, i);
    if (operand.indirect == isa::kNoIndirect) continue;
    const isa::Operand& index = program.indirect(operand).index;
    if (index.is_access()) touch(index.tensor, i);
  }
}

// Where there are no loops, a tensor lives from its first access to its last.
std::vector<Lifetime> lifetimes_without_loops(const isa::Program& program) {
  std::vector<Lifetime> lifetimes(program.tensor_count());
  const auto touch = [&](isa::TensorId tensor, isa::InstructionIndex i) {
    Lifetime& life = lifetimes[tensor];
    if (!life.used) life.first = i, life.used = true;
    life.last = i;
  };
  for (isa::InstructionIndex i = 0; i < program.size(); ++i) {
    interrupt::poll();
    for_tensors(program, i, touch);
  }
  return lifetimes;
}

}  // namespace

std::vector<Lifetime> find_lifetimes(const isa::Program& program, const std::vector<Loop>& loops) {
  if (loops.empty()) return lifetimes_without_loops(program);
  std::vector<Lifetime> lifetimes(program.tensor_count());
  size_t next_loop = 0;
  std::vector<Loop> around;  // the loops around instruction i, outermost first
  const auto touch = [&](isa::TensorId tensor, isa::InstructionIndex i) {
    size_t level = 0;  // of the outermost loop whose iterations the tensor outlives
    if (const auto made = program.tensor(tensor).loop)
      for (size_t k = 0; k < around.size(); ++k)
        if (around[k].begin == *made) level = k + 1;
    const isa::InstructionIndex first = level < around.size() ? around[level].begin : i;
    const isa::InstructionIndex last = level < around.size() ? around[level].end : i;
    Lifetime& life = lifetimes[tensor];
    if (!life.used) life = {first, last, true};
    life.first = std::min(life.first, first);
    life.last = std::max(life.last, last);
  };
  for (isa::InstructionIndex i = 0; i < program.size(); ++i) {
    interrupt::poll();
    while (next_loop < loops.size() && loops[next_loop].begin == i) {
      around.push_back(loops[next_loop]);
      ++next_loop;
    }
    for_tensors(program, i, touch);
    while (!around.empty() && around.back().end == i) around.pop_back();
  }
  return lifetimes;
}

}  // namespace opentrn::backend
