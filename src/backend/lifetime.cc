#include "backend/lifetime.h"

#include <algorithm>

#include "backend/access.h"

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

std::vector<Lifetime> find_lifetimes(const isa::Program& program, const std::vector<Loop>& loops) {
  std::vector<Lifetime> lifetimes(program.tensor_count());
  size_t next_loop = 0;
  Loop outer{1, 0, -1, 0};  // the outermost loop around instruction i; begin > end: none
  const auto touch = [&](isa::TensorId tensor, isa::InstructionIndex first, isa::InstructionIndex last) {
    Lifetime& life = lifetimes[tensor];
    if (!life.used) life = {first, last, true};
    life.first = std::min(life.first, first);
    life.last = std::max(life.last, last);
  };
  for (isa::InstructionIndex i = 0; i < program.size(); ++i) {
    while (next_loop < loops.size() && loops[next_loop].begin == i) {
      if (loops[next_loop].depth == 0) outer = loops[next_loop];
      ++next_loop;
    }
    const bool in_loop = outer.begin <= i && i <= outer.end;
    const auto first = in_loop ? outer.begin : i;
    const auto last = in_loop ? outer.end : i;
    for (const isa::Operand& operand : program.operands(program.instruction(i))) {
      if (!operand.is_access()) continue;
      touch(operand.tensor, first, last);
      if (operand.indirect == isa::kNoIndirect) continue;
      const isa::Operand& index = program.indirect(operand).index;
      if (index.is_access()) touch(index.tensor, first, last);
    }
  }
  return lifetimes;
}

}  // namespace opentrn::backend
