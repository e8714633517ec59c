#include <algorithm>
#include <map>
#include <tuple>

#include "isa/definitions.h"
#include "profile/high_water.h"
#include "profile/intervals.h"
#include "profile/profile.h"

namespace opentrn::profile {

namespace {

using trace::Event;
using trace::Stall;
using trace::Trace;
using trace::TrackKind;

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

// One pass over the events; rows are found through the location of the instruction, once per location.
class Analysis {
 public:
  Analysis(const Trace& trace, std::span<const isa::Executable* const> cores) : trace_(trace), cores_(cores) {
    for (const isa::Executable* core : cores)
      line_of_location_.emplace_back(core->program->location_count(), kUnseen);
    intervals_.resize(trace.tracks.size());
    queue_of_track_.resize(trace.tracks.size());
  }

  void run() {
    for (const Event& event : trace_.events) {
      const trace::Track& track = trace_.tracks[event.track];
      if (track.kind == TrackKind::kEngine) add_engine_event(event, track);
      if (track.kind == TrackKind::kDmaQueue) add_transfer(event, track);
    }
    for (const trace::CriticalSegment& segment : trace_.critical_path)
      if (segment.instruction != trace::kNoIndex)
        lines_[line_of(segment.core, segment.instruction)].critical_ns +=
            static_cast<double>(segment.times) * (segment.end_ns - segment.start_ns);
  }

  void finish(Profile& profile) {
    finish_lines(profile);
    for (const auto& [key, value] : stalls_)
      profile.stalls.push_back({key.first, key.second, value.first, value.second});
    std::ranges::stable_sort(profile.stalls, std::ranges::greater{}, &StallTime::ns);
    for (const auto& [key, value] : opcodes_)
      profile.opcodes.push_back({key.first, key.second, value.count, value.busy_ns});
    std::ranges::stable_sort(profile.opcodes, std::ranges::greater{}, &OpcodeTime::busy_ns);
    finish_queues(profile);
  }

 private:
  static constexpr uint32_t kUnseen = 0xFFFFFFFFu;
  using OpcodeCounts = std::array<int64_t, isa::kOpcodeCount>;
  struct CountAndTime {
    int64_t count = 0;
    double busy_ns = 0;
  };
  using WaitKey = std::tuple<uint32_t, uint32_t, isa::Engine, Stall>;

  uint32_t line_of(size_t core, uint32_t instruction) {
    const isa::Program& program = *cores_[core]->program;
    const isa::LocationId location = program.instruction(instruction).location;
    uint32_t& line = line_of_location_[core][location];
    if (line == kUnseen) line = line_at(program.location(location));
    return line;
  }

  uint32_t line_at(const SourceLocation& where) {
    const auto [it, added] =
        line_index_.try_emplace({where.file, where.line, where.file.empty() ? where.function : ""},
                                static_cast<uint32_t>(lines_.size()));
    if (added) {
      lines_.push_back({.file = where.file, .line = where.line, .function = where.function, .opcodes = {}});
      opcodes_of_line_.emplace_back();
    }
    return it->second;
  }

  void add_engine_event(const Event& event, const trace::Track& track) {
    const uint32_t row = line_of(track.core, event.instruction);
    Line& line = lines_[row];
    const auto times = static_cast<double>(event.times);
    line.busy_ns += times * event.busy_ns;
    line.stall_ns += times * event.stall_ns;
    line.flops += times * event.flops;
    line.instructions += event.times;
    opcodes_of_line_[row][static_cast<size_t>(event.opcode)] += event.times;
    CountAndTime& opcode = opcodes_[{track.engine, event.opcode}];
    opcode.count += event.times;
    opcode.busy_ns += times * event.busy_ns;
    if (event.stall == Stall::kNone || event.stall_ns <= 0) return;
    auto& [ns, count] = stalls_[{track.engine, event.stall}];
    ns += times * event.stall_ns;
    count += event.times;
    if (event.waited_for == trace::kNoIndex) return;
    Wait& wait = waits_[{row, line_of(track.core, event.waited_for), track.engine, event.stall}];
    wait.ns += times * event.stall_ns;
    wait.count += event.times;
    wait.waited_for_opcode = cores_[track.core]->program->instruction(event.waited_for).opcode;
  }

  void add_transfer(const Event& event, const trace::Track& track) {
    Line& line = lines_[line_of(track.core, event.instruction)];
    const auto times = static_cast<double>(event.times);
    const double latency_ns = event.end_ns - event.start_ns;
    line.dma_ns += times * latency_ns;
    line.dma_bytes += event.times * event.bytes;
    DmaQueue& queue = queue_of_track_[event.track];
    queue.transfers += event.times;
    queue.bytes += event.times * event.bytes;
    queue.latency_mean_ns += times * latency_ns;  // a sum until finish_queues()
    queue.latency_max_ns = std::max(queue.latency_max_ns, latency_ns);
    queue.stall_ns[static_cast<size_t>(event.stall)] += times * event.stall_ns;
    intervals_[event.track].push_back({event.start_ns, event.end_ns, event.times});
  }

  void finish_lines(Profile& profile) {
    for (size_t row = 0; row < lines_.size(); ++row) {
      for (size_t opcode = 0; opcode < isa::kOpcodeCount; ++opcode)
        if (opcodes_of_line_[row][opcode] > 0)
          lines_[row].opcodes.push_back({static_cast<isa::Opcode>(opcode), opcodes_of_line_[row][opcode]});
      std::ranges::stable_sort(lines_[row].opcodes, std::ranges::greater{}, &OpcodeCount::count);
    }
    std::vector<uint32_t> order(lines_.size()), place(lines_.size());
    for (uint32_t row = 0; row < order.size(); ++row) order[row] = row;
    std::ranges::stable_sort(order, std::ranges::greater{}, [this](uint32_t row) {
      return std::pair(lines_[row].critical_ns, lines_[row].busy_ns);
    });
    for (uint32_t to = 0; to < order.size(); ++to) {
      place[order[to]] = to;
      profile.lines.push_back(std::move(lines_[order[to]]));
    }
    for (const auto& [key, value] : waits_) {
      const auto [waiting, waited_for, engine, cause] = key;
      profile.waits.push_back(
          {place[waiting], place[waited_for], engine, value.waited_for_opcode, cause, value.ns, value.count});
    }
    std::ranges::stable_sort(profile.waits, std::ranges::greater{}, &Wait::ns);
  }

  void finish_queues(Profile& profile) {
    for (size_t t = 0; t < queue_of_track_.size(); ++t) {
      DmaQueue& queue = queue_of_track_[t];
      if (queue.transfers == 0) continue;
      queue.name = trace_.strings[trace_.tracks[t].name];
      queue.core = trace_.tracks[t].core;
      queue.latency_mean_ns /= static_cast<double>(queue.transfers);
      unite(intervals_[t]);
      queue.active_ns = length(intervals_[t]);
      queue.achieved_gb_s = queue.active_ns > 0 ? static_cast<double>(queue.bytes) / queue.active_ns : 0;
      profile.queues.push_back(queue);
    }
    std::ranges::stable_sort(profile.queues, std::ranges::greater{}, &DmaQueue::bytes);
  }

  const Trace& trace_;
  std::span<const isa::Executable* const> cores_;
  std::vector<std::vector<uint32_t>> line_of_location_;  // by core
  std::map<std::tuple<std::string, int, std::string>, uint32_t> line_index_;
  std::vector<Line> lines_;
  std::vector<OpcodeCounts> opcodes_of_line_;
  std::map<std::pair<isa::Engine, isa::Opcode>, CountAndTime> opcodes_;
  std::map<std::pair<isa::Engine, Stall>, std::pair<double, int64_t>> stalls_;
  std::map<WaitKey, Wait> waits_;
  std::vector<DmaQueue> queue_of_track_;
  std::vector<Intervals> intervals_;  // by track
};

void add_utilisation(Profile& profile) {
  const trace::Summary& s = profile.summary;
  const double core_ns = s.total_ns * s.cores;
  const double transposes = s.flops[static_cast<size_t>(trace::FlopKind::kTranspose)];
  profile.mfu_estimated_percent = 100 * s.model_flops_utilization();
  profile.hfu_estimated_percent =
      percent(s.tensor_flops() + transposes, s.tensor_peak_flops_per_ns * core_ns);
  profile.mbu_estimated_percent = 100 * s.hbm_utilization();
  const auto hbm_bytes = static_cast<double>(s.dma.hbm_bytes_read + s.dma.hbm_bytes_written);
  if (hbm_bytes > 0) profile.arithmetic_intensity = s.tensor_flops() / hbm_bytes;
  if (s.hbm_peak_bytes_per_ns > 0)
    profile.ridge_intensity = s.tensor_peak_flops_per_ns * s.cores / s.hbm_peak_bytes_per_ns;
  const auto bytes = static_cast<double>(s.dma.bytes);
  if (s.dma.descriptors > 0) profile.bytes_per_descriptor = bytes / static_cast<double>(s.dma.descriptors);
  if (s.dma.transfers > 0) profile.bytes_per_transfer = bytes / static_cast<double>(s.dma.transfers);
  for (isa::Engine engine : {isa::Engine::kTensor, isa::Engine::kVector, isa::Engine::kScalar,
                             isa::Engine::kGpSimd, isa::Engine::kSync}) {
    const trace::EngineTotals& totals = s.engines[static_cast<size_t>(engine)];
    profile.engines.push_back({engine, totals, percent(totals.busy_ns, core_ns)});
  }
  for (int r = 0; r < trace::kResourceCount; ++r)
    if (const double ns = s.bound_by_ns[static_cast<size_t>(r)]; ns > 0)
      profile.bound_by.push_back({static_cast<trace::Resource>(r), ns, percent(ns, s.total_ns)});
  std::ranges::stable_sort(profile.bound_by, std::ranges::greater{}, &Share::ns);
}

Memory memory_of(const Trace& trace, std::span<const isa::Executable* const> cores,
                 const arch::Tables& tables) {
  const arch::NeuronCore& limits = tables.neuron_core(cores[0]->generation);
  Memory memory;
  for (uint16_t core = 0; core < cores.size(); ++core) {  // each core has its own SBUF and PSUM
    const HighWater peak = high_water(trace, core, *cores[core], limits);
    memory.sbuf_bytes_per_partition_used =
        std::max(memory.sbuf_bytes_per_partition_used, peak.sbuf_bytes_per_partition);
    memory.psum_banks_used = std::max(memory.psum_banks_used, peak.psum_banks);
    memory.hbm_bytes_used += cores[core]->hbm_bytes_used;
    memory.spill_save_bytes += cores[core]->spill_save_bytes;
    memory.spill_reload_bytes += cores[core]->spill_reload_bytes;
  }
  if (limits.sbuf_bytes_per_partition.known())
    memory.sbuf_bytes_per_partition_limit = limits.sbuf_bytes_per_partition;
  if (limits.psum_banks.known()) memory.psum_banks_limit = limits.psum_banks;
  return memory;
}

}  // namespace

Profile analyse(const Trace& trace, std::span<const isa::Executable* const> cores,
                const arch::Tables& tables) {
  OPENTRN_CHECK(cores.size() == static_cast<size_t>(trace.cores), "a trace of {} cores with {} executables",
                trace.cores, cores.size());
  Profile profile;
  profile.summary = trace.summary;
  profile.events = static_cast<int64_t>(trace.events.size());
  add_utilisation(profile);
  Analysis analysis(trace, cores);
  analysis.run();
  analysis.finish(profile);
  profile.memory = memory_of(trace, cores, tables);
  return profile;
}

}  // namespace opentrn::profile
