#include "runtime/timing.h"

#include <algorithm>

#include "arch/stated.h"
#include "backend/compile.h"
#include "base/fault.h"
#include "isa/roles.h"

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

// Keeps the first and the last read and the last write of each tensor, and no events.
class TouchSink final : public trace::TraceSink {
 public:
  // Instructions and tensors are those of `program`, through `parts` where there are several.
  TouchSink(const isa::Program& program, std::span<const backend::CorePart> parts)
      : program_(program), parts_(parts), touches_(program.tensor_count()) {}

  struct Touch {
    std::optional<double> first_read_ns;
    double last_read_ns = 0, last_write_ns = 0;
    uint16_t reader_core = 0, writer_core = 0;
  };
  const Touch& of(isa::TensorId tensor) const { return touches_[tensor]; }

  trace::StringTable& strings() override { return strings_; }
  uint32_t add_track(const trace::Track& track) override {
    tracks_.push_back(track);
    return static_cast<uint32_t>(tracks_.size() - 1);
  }
  void add_event(const trace::Event& event) override {
    const trace::Track& track = tracks_[event.track];
    if (track.kind == trace::TrackKind::kDmaEngine) return;
    uint32_t index = event.instruction;
    if (parts_.size() > 1 && index < parts_[track.core].merged.size())
      index = parts_[track.core].merged[index];
    if (index >= program_.size()) return;
    const isa::Instruction& in = program_.instruction(index);
    if (in.opcode == isa::Opcode::kCoreBarrier) return;
    for (int slot = 0; slot < in.operand_count; ++slot) {
      const isa::Operand& operand = program_.operand(in, slot);
      if (!operand.is_access()) continue;
      const isa::Role role = isa::role_of(program_, in, slot);
      if (role != isa::Role::kOut) reads(operand, event.start_ns, event.end_ns, track.core);
      if (role != isa::Role::kIn) writes(operand.tensor, event.end_ns, track.core);
      if (operand.indirect != isa::kNoIndirect)
        reads(program_.indirect(operand).index, event.start_ns, event.end_ns, track.core);
    }
  }
  void add_iteration(const trace::Iteration& iteration) override {
    if (iteration.skipped == 0) return;
    for (Touch& touch : touches_) {
      if (touch.writer_core == iteration.core && touch.last_write_ns > iteration.start_ns)
        touch.last_write_ns = std::max(touch.last_write_ns, iteration.skipped_end_ns());
      if (touch.reader_core == iteration.core && touch.last_read_ns > iteration.start_ns)
        touch.last_read_ns = std::max(touch.last_read_ns, iteration.skipped_end_ns());
    }
  }
  void finish(const trace::Summary&, std::vector<trace::CriticalSegment>) override {}

 private:
  void reads(const isa::Operand& operand, double start_ns, double end_ns, uint16_t core) {
    if (!operand.is_access()) return;  // an index in a register
    Touch& touch = touches_[operand.tensor];
    touch.first_read_ns = touch.first_read_ns ? std::min(*touch.first_read_ns, start_ns) : start_ns;
    if (end_ns < touch.last_read_ns) return;
    touch.last_read_ns = end_ns;
    touch.reader_core = core;
  }
  void writes(isa::TensorId tensor, double at_ns, uint16_t core) {
    Touch& touch = touches_[tensor];
    if (at_ns < touch.last_write_ns) return;
    touch.last_write_ns = at_ns;
    touch.writer_core = core;
  }

  const isa::Program& program_;
  const std::span<const backend::CorePart> parts_;
  trace::StringTable strings_;
  std::vector<trace::Track> tracks_;
  std::vector<Touch> touches_;
};

trace::Summary simulate(const Model& model, const LoopTrips& trips,
                        const std::vector<backend::CorePart>& parts, trace::TraceSink* sink, int copies = 1) {
  std::vector<isa::Executable> executables;
  std::vector<const isa::Executable*> cores;
  for (const backend::CorePart& part : parts)
    executables.push_back(backend::compile(
        part.program, {.generation = model.generation, .look_ahead = backend::usual_look_ahead(false)}));
  for (const isa::Executable& executable : executables) cores.push_back(&executable);
  if (parts.size() == 1) cores.resize(static_cast<size_t>(copies), cores.front());
  sim::timing::SimulateOptions options;
  options.observed_trips = observed_trips(trips, *model.program, *executables[0].program);
  return sim::timing::simulate(cores, arch::timing(model.generation), sink, options);
}

}  // namespace

trace::Summary timed(const Model& model, const LoopTrips& trips) {
  return simulate(model, trips, backend::core_parts(model.program), nullptr);
}

PortTimes port_times(const Model& model, const LoopTrips& trips, int copies) {
  const std::vector<backend::CorePart> parts = backend::core_parts(model.program);
  TouchSink sink(*model.program, parts);
  PortTimes times;
  times.summary = simulate(model, trips, parts, &sink, copies);
  if (copies > 1 && parts.size() == 1) {
    const double together_ns = times.summary.total_ns;
    times.summary = simulate(model, trips, parts, nullptr);
    times.summary.total_ns = together_ns;
  }
  for (const Port& port : model.inputs) {
    times.first_read_ns.push_back(sink.of(port.tensor).first_read_ns);
    times.last_read_ns.push_back(sink.of(port.tensor).last_read_ns);
  }
  for (const Port& port : model.outputs) times.last_write_ns.push_back(sink.of(port.tensor).last_write_ns);
  return times;
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
