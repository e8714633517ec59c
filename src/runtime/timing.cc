#include "runtime/timing.h"

#include "backend/compile.h"
#include "base/fault.h"

namespace opentrn::runtime {

namespace {

std::vector<isa::InstructionIndex> loops_of(const isa::Program& program) {
  std::vector<isa::InstructionIndex> loops;
  for (isa::InstructionIndex i = 0; i < program.size(); ++i) {
    const isa::Opcode opcode = program.instruction(i).opcode;
    if (opcode == isa::Opcode::kLoopBegin || opcode == isa::Opcode::kWhileBegin) loops.push_back(i);
  }
  return loops;
}

}  // namespace

std::map<isa::InstructionIndex, std::vector<std::pair<int64_t, int64_t>>> observed_trips(
    const LoopTrips& trips, const isa::Program& executed, const isa::Program& compiled) {
  const std::vector<isa::InstructionIndex> from = loops_of(executed), to = loops_of(compiled);
  OPENTRN_CHECK(from.size() == to.size(), "{} loops became {}", from.size(), to.size());
  std::map<isa::InstructionIndex, std::vector<std::pair<int64_t, int64_t>>> result;
  for (size_t i = 0; i < from.size(); ++i) {
    const auto found = trips.find(from[i]);
    if (found == trips.end()) continue;
    for (const auto& run : found->second.runs) result[to[i]].emplace_back(run.iterations, run.entries);
  }
  return result;
}

trace::Summary timed(const Model& model, const LoopTrips& trips, trace::TraceSink* sink) {
  const isa::Executable executable = backend::compile(
      model.program, {.generation = model.generation, .look_ahead = backend::usual_look_ahead(false)});
  sim::timing::SimulateOptions options;
  options.observed_trips = observed_trips(trips, *model.program, *executable.program);
  return sim::timing::simulate(executable, arch::timing(model.generation), sink, options);
}

}  // namespace opentrn::runtime
