#include "sim/timing/simulate.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "base/activity.h"
#include "base/interrupt.h"
#include "sim/timing/core_run.h"
#include "sim/timing/trip_count.h"

namespace opentrn::sim::timing {

namespace {

using isa::Opcode;

bool opens(Opcode opcode) { return opcode == Opcode::kLoopBegin || opcode == Opcode::kWhileBegin; }
bool is_marker(Opcode opcode) { return opcode >= Opcode::kLoopBegin && opcode <= Opcode::kWhileEnd; }

// The cores of one logical core, from loop marker to loop marker.
class Run {
 public:
  Run(std::span<const isa::Executable* const> cores, const arch::TimingTable& table, trace::TraceSink* sink,
      const SimulateOptions& options)
      : machine_(table),
        hbm_(table),
        meetings_(cores.size()),
        options_(options),
        registers_(*cores[0]->program) {
    for (size_t c = 0; c < cores.size(); ++c) {
      cores_.push_back(std::make_unique<CoreRun>(machine_, table, *cores[c], c, hbm_, dma_active_, meetings_,
                                                 sink, options));
      markers_.push_back(find_markers(*cores[c]));
      if (markers_[c].size() != markers_[0].size())
        throw Fault(FaultKind::kNotModelled, "timing.loops",
                    "the cores of a logical core have different loops", "time each core on its own");
    }
  }

  void run() {
    std::vector<uint32_t> end;
    for (const auto& core : cores_) end.push_back(static_cast<uint32_t>(core->executable().schedule.size()));
    run_block(0, markers_[0].size(), std::vector<uint32_t>(cores_.size(), 0), end, 0);
  }

  const Machine& machine() const { return machine_; }
  const std::vector<std::unique_ptr<CoreRun>>& cores() const { return cores_; }
  Ps extrapolated() const { return extrapolated_; }

 private:
  static std::vector<uint32_t> find_markers(const isa::Executable& executable) {
    std::vector<uint32_t> markers;
    for (uint32_t at = 0; at < executable.schedule.size(); ++at)
      if (is_marker(executable.program->instruction(executable.schedule[at].instruction).opcode))
        markers.push_back(at);
    return markers;
  }
  const isa::Instruction& instruction_at(size_t core, uint32_t at) const {
    const isa::Executable& executable = cores_[core]->executable();
    return executable.program->instruction(executable.schedule[at].instruction);
  }

  // Schedule entries [begin, end) of each core, which hold the markers [first, last).
  void run_block(size_t first, size_t last, std::vector<uint32_t> begin, const std::vector<uint32_t>& end,
                 uint32_t iteration) {
    size_t m = first;
    while (m < last) {
      const size_t close = matching(m, last);
      run_stretch(begin, at_marker(m), iteration);
      run_loop(m, close);
      begin = at_marker(close);
      for (uint32_t& at : begin) ++at;
      m = close + 1;
    }
    run_stretch(begin, end, iteration);
  }

  std::vector<uint32_t> at_marker(size_t m) const {
    std::vector<uint32_t> at;
    for (const auto& markers : markers_) at.push_back(markers[m]);
    return at;
  }

  size_t matching(size_t open, size_t last) const {
    int depth = 0;
    for (size_t m = open; m < last; ++m) {
      depth += opens(instruction_at(0, markers_[0][m]).opcode) ? 1 : -1;
      if (depth == 0) return m;
    }
    throw Fault(FaultKind::kProgram, "loop.match", "a loop is never ended");
  }

  void run_loop(size_t open, size_t close) {
    const isa::InstructionIndex begin_instruction =
        cores_[0]->executable().schedule[markers_[0][open]].instruction;
    const int64_t rounds = trip_count(*cores_[0]->executable().program, begin_instruction,
                                      entered_[begin_instruction]++, registers_, options_);
    const isa::Instruction& in = instruction_at(0, markers_[0][open]);
    std::optional<int64_t> counter, step;
    if (in.opcode == Opcode::kLoopBegin) {
      counter = registers_.value(cores_[0]->executable().program->operand(in, isa::slot::loop::kLower));
      step = cores_[0]->executable().program->attribute_int(in, isa::slot::loop::kAStep);
    }
    for (size_t c = 0; c < cores_.size(); ++c) cores_[c]->pass_marker(markers_[c][open]);
    std::vector<uint32_t> begin = at_marker(open);
    for (uint32_t& at : begin) ++at;
    if (rounds == 0)
      for (size_t c = 0; c < cores_.size(); ++c) cores_[c]->skip(begin[c], markers_[c][close] + 1);
    std::vector<Ps> length;  // of the rounds stepped, on core 0
    std::vector<Totals> before(cores_.size());
    std::vector<Ps> start(cores_.size());
    for (int64_t round = 0; round < rounds; ++round) {
      if (counter)
        registers_.set(cores_[0]->executable().program->operand(in, isa::slot::loop::kRegister).tensor,
                       *counter + round * *step);
      for (size_t c = 0; c < cores_.size(); ++c) before[c] = cores_[c]->totals(), start[c] = cores_[c]->now();
      run_block(open + 1, close, begin, at_marker(close), static_cast<uint32_t>(round));
      for (size_t c = 0; c < cores_.size(); ++c) cores_[c]->pass_marker(markers_[c][close]);
      length.push_back(cores_[0]->now() - start[0]);
      const int64_t left = rounds - round - 1;
      const bool skip = left > 0 && steady(length);
      for (size_t c = 0; c < cores_.size(); ++c)
        cores_[c]->trace_round(markers_[c][open], start[c], skip ? left : 0);
      if (!skip) continue;
      expect_representable(begin_instruction, rounds, length.back());
      for (size_t c = 0; c < cores_.size(); ++c)
        cores_[c]->extrapolate(cores_[c]->now() - start[c], cores_[c]->totals().minus(before[c]), left);
      hbm_.shift(length.back() * left);
      dma_active_.shift(length.back() * left);
      extrapolated_ += length.back() * left;
      break;
    }
  }

  // Times are counted in picoseconds of 64 bits; what 16 DMA engines did in them is summed, too.
  void expect_representable(isa::InstructionIndex loop, int64_t rounds, Ps round) const {
    constexpr Ps kLongest = Ps{1} << 57;
    Ps now = 0;
    for (const auto& core : cores_) now = std::max(now, core->now());
    if (round == 0 || rounds <= (kLongest - now) / round) return;
    const isa::Program& program = *cores_[0]->executable().program;
    Fault fault(
        FaultKind::kCapacity, "timing.too_long",
        fmt::format("the loop at instruction {} runs {} times of {:.1f} us each; a predicted time ends "
                    "with {:.0f} hours",
                    loop, rounds, to_ns(round) / 1e3, to_ns(kLongest) / 3.6e12),
        "fewer iterations: --loop-iterations N (in Python: loop_iterations=N), or a smaller bound");
    fault.set_location(program.location(program.instruction(loop).location));
    throw fault;
  }

  // The last three rounds took the same time within a thousandth; or enough has been stepped.
  bool steady(const std::vector<Ps>& length) const {
    if (static_cast<int64_t>(length.size()) >= options_.iterations_stepped_max) return true;
    if (length.size() < 4) return false;
    const auto [low, high] = std::minmax_element(length.end() - 3, length.end());
    return (*high - *low) * 1000 <= *high;
  }

  void run_stretch(const std::vector<uint32_t>& begin, const std::vector<uint32_t>& end, uint32_t iteration) {
    uint64_t left = 0;
    for (size_t c = 0; c < cores_.size(); ++c) {
      cores_[c]->begin_stretch(begin[c], end[c], iteration);
      left += cores_[c]->left();
    }
    for (; left > 0; --left) {
      interrupt::poll();
      next_core().step();
    }
    for (const auto& core : cores_) core->end_stretch();
    follow_registers(begin[0], end[0]);
  }

  CoreRun& next_core() {
    CoreRun* best = nullptr;
    Ps best_start = 0;
    for (const auto& core : cores_) {
      const Ps start = core->find_next();
      if (start >= 0 && (best == nullptr || start < best_start)) best = core.get(), best_start = start;
    }
    if (best == nullptr)
      throw Fault(FaultKind::kProgram, "timing.deadlock",
                  "no core can go on: each waits for the other at a different sendrecv or core_barrier",
                  "call them in the same order on every core");
    return *best;
  }

  void follow_registers(uint32_t begin, uint32_t end) {
    for (uint32_t at = begin; at < end; ++at) {
      const isa::Instruction& in = instruction_at(0, at);
      if (isa::is_control(in.opcode)) registers_.follow(in);
    }
  }

  Machine machine_;
  HbmStack hbm_;
  ActiveTime dma_active_;
  Meetings meetings_;
  const SimulateOptions& options_;
  RegisterTracker registers_;
  std::vector<std::unique_ptr<CoreRun>> cores_;
  std::vector<std::vector<uint32_t>> markers_;        // by core: schedule indices
  std::map<isa::InstructionIndex, int64_t> entered_;  // how often each loop was
  Ps extrapolated_ = 0;
};

void fill_summary(const Run& run, TimingResult& result) {
  Totals sum;
  const CoreRun* slowest = run.cores()[0].get();
  for (const auto& core : run.cores()) {
    sum.add(core->totals(), 1);
    if (core->now() > slowest->now()) slowest = core.get();
  }
  const Machine& machine = run.machine();
  result.program = slowest->executable().program->name;
  result.generation = slowest->executable().generation;
  result.cores = static_cast<int>(run.cores().size());
  result.total_ns = to_ns(slowest->now());
  result.launch_ns = to_ns(machine.launch);
  result.timed_extra_ns = to_ns(machine.timed_extra);
  for (size_t e = 0; e < sum.busy.size(); ++e) {
    result.engines[e] = {to_ns(sum.busy[e]), to_ns(sum.stall_engine[e]), to_ns(sum.stall_dma[e]),
                         to_ns(sum.stall_other[e]), sum.instructions[e]};
    result.instructions += sum.instructions[e];
  }
  result.dma = {sum.transfers,   sum.descriptors,       sum.dma_bytes,       sum.hbm_read,
                sum.hbm_written, to_ns(sum.dma_active), to_ns(sum.dma_busy), 0};
  if (sum.dma_busy > 0)
    result.dma.efficiency =
        static_cast<double>(sum.dma_bytes) / (to_ns(sum.dma_busy) * machine.dma_engine_bytes_per_ns);
  result.flops = sum.flops;
  result.vector_flops = sum.operations;
  result.tensor_peak_flops_per_ns = machine.tensor_peak_flops_per_ns;
  result.hbm_peak_bytes_per_ns = machine.hbm_peak_bytes_per_ns;
  result.sbuf_bytes_moved = sum.sbuf_bytes;
  for (size_t r = 0; r < result.bound_by_ns.size(); ++r)
    result.bound_by_ns[r] = to_ns(slowest->totals().bound_by[r]);
  result.extrapolated_ns = to_ns(run.extrapolated());
  result.critical_path = slowest->critical_path();
  // Each stretch between loop markers wrote its own part.
  const auto latest_first = [](const trace::CriticalSegment& a, const trace::CriticalSegment& b) {
    return a.end_ns > b.end_ns;
  };
  if (!std::ranges::is_sorted(result.critical_path, latest_first))
    std::ranges::stable_sort(result.critical_path, latest_first);
}

InstructionTimes times_of(const CoreRun& core) {
  InstructionTimes times;
  for (const InstructionRecord& record : core.records()) {
    times.start_ns.push_back(to_ns(record.start));
    times.end_ns.push_back(to_ns(record.visible));
    times.stall.push_back(record.stall);
    times.waited_for.push_back(record.waited_for);
  }
  return times;
}

}  // namespace

TimingResult simulate(std::span<const isa::Executable* const> cores, const arch::TimingTable& table,
                      trace::TraceSink* sink, const SimulateOptions& options) {
  if (cores.empty())
    throw Fault(FaultKind::kInput, "timing.cores", "there is nothing to time",
                "give at least one executable");
  for (const isa::Executable* executable : cores)
    if (executable->generation != table.generation())
      throw Fault(FaultKind::kInput, "timing.generation",
                  fmt::format("the program is compiled for NeuronCore-v{}, the table is of v{}",
                              version(executable->generation), version(table.generation())),
                  "use the timing table of the same generation");
  const Activity activity("following instructions in time");
  Run run(cores, table, sink, options);
  run.run();
  TimingResult result;
  fill_summary(run, result);
  if (options.keep_instructions)
    for (const auto& core : run.cores()) result.instructions_of.push_back(times_of(*core));
  if (sink != nullptr) sink->finish(result, result.critical_path);
  return result;
}

TimingResult simulate(const isa::Executable& executable, const arch::TimingTable& table,
                      trace::TraceSink* sink, const SimulateOptions& options) {
  const isa::Executable* const one[] = {&executable};
  return simulate(std::span<const isa::Executable* const>(one), table, sink, options);
}

}  // namespace opentrn::sim::timing
