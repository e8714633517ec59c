#include "runtime/timing.h"

#include "arch/stated.h"
#include "backend/compile.h"
#include "base/fault.h"

namespace opentrn::runtime {

namespace {

// Those of the first core.
std::vector<isa::InstructionIndex> loops_of(const isa::Program& program) {
  std::vector<isa::InstructionIndex> loops;
  for (isa::InstructionIndex i = 0; i < program.size(); ++i) {
    const isa::Opcode opcode = program.instruction(i).opcode;
    if (program.instruction(i).flags & isa::kFlagCore1) continue;
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

void merge(trace::Trace& trace, std::span<const backend::CorePart> parts) {
  if (parts.size() == 1) return;
  for (trace::Event& event : trace.events) {
    const auto& merged = parts[trace.tracks[event.track].core].merged;
    for (uint32_t* index : {&event.instruction, &event.waited_for})
      if (*index < merged.size()) *index = merged[*index];
  }
  for (trace::Iteration& iteration : trace.iterations)
    if (const auto& merged = parts[iteration.core].merged; iteration.loop < merged.size())
      iteration.loop = merged[iteration.loop];
  for (trace::CriticalSegment& segment : trace.critical_path) {
    const auto& merged = parts[segment.core].merged;
    uint32_t at = segment.instruction;
    while (at + 1 < merged.size() && merged[at] == backend::kNotMerged) ++at;
    if (at < merged.size()) segment.instruction = merged[at];
  }
}

namespace {

trace::Summary simulate(const Model& model, const LoopTrips& trips,
                        const std::vector<backend::CorePart>& parts, trace::TraceSink* sink) {
  arch::expect_stated(arch::default_tables(), model.generation);
  std::vector<isa::Executable> executables;
  std::vector<const isa::Executable*> cores;
  for (const backend::CorePart& part : parts)
    executables.push_back(backend::compile(
        part.program, {.generation = model.generation, .look_ahead = backend::usual_look_ahead(false)}));
  for (const isa::Executable& executable : executables) cores.push_back(&executable);
  sim::timing::SimulateOptions options;
  options.observed_trips = observed_trips(trips, *model.program, *executables[0].program);
  return sim::timing::simulate(cores, arch::timing(model.generation), sink, options);
}

}  // namespace

trace::Summary timed(const Model& model, const LoopTrips& trips) {
  return simulate(model, trips, backend::core_parts(model.program), nullptr);
}

trace::Trace timeline(const Model& model, const LoopTrips& trips) {
  const std::vector<backend::CorePart> parts = backend::core_parts(model.program);
  trace::Recorder recorder;
  simulate(model, trips, parts, &recorder);
  trace::Trace trace = recorder.take();
  merge(trace, parts);
  return trace;
}

}  // namespace opentrn::runtime
