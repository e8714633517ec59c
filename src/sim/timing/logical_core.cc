#include "sim/timing/logical_core.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "base/interrupt.h"

namespace opentrn::sim::timing {

namespace {

using isa::Opcode;

bool opens(Opcode opcode) { return opcode == Opcode::kLoopBegin || opcode == Opcode::kWhileBegin; }

InstructionTimes times_of(const CoreRun& core) {
  InstructionTimes times;
  for (const Ps end : core.visible()) times.end_ns.push_back(to_ns(end));
  for (const InstructionRecord& record : core.records()) {
    interrupt::poll();
    times.start_ns.push_back(to_ns(record.start));
    times.stall.push_back(record.stall);
    times.waited_for.push_back(record.waited_for);
  }
  return times;
}

}  // namespace

LogicalCore::LogicalCore(std::span<const isa::Executable* const> cores, const arch::TimingTable& table,
                         trace::TraceSink* sink, const SimulateOptions& options, HbmStack* hbm)
    : machine_(table),
      own_hbm_(table),
      hbm_(hbm == nullptr ? &own_hbm_ : hbm),
      rendezvous_(cores.size()),
      options_(options),
      sink_(sink),
      registers_(*cores[0]->program) {
  std::vector<uint32_t> end;
  for (size_t c = 0; c < cores.size(); ++c) {
    const bool owns_memory = cores.size() == 1 && hbm_ == &own_hbm_;
    cores_.push_back(std::make_unique<CoreRun>(machine_, table, *cores[c], c, *hbm_, owns_memory, dma_active_,
                                               rendezvous_, sink, options_));
    markers_.push_back(cores_[c]->steps().markers());
    if (markers_[c].size() != markers_[0].size())
      throw Fault(FaultKind::kNotModelled, "timing.loops", "the cores of a logical core have different loops",
                  "time each core on its own");
    end.push_back(static_cast<uint32_t>(cores[c]->schedule.size()));
  }
  frames_.push_back({{0, markers_[0].size(), std::vector<uint32_t>(cores_.size(), 0), end, 0}, {}});
}

void LogicalCore::set_collectives(size_t core, std::span<const CollectiveCopies> collectives) {
  cores_[core]->set_collectives(collectives);
}

// -- where markers are

const isa::Instruction& LogicalCore::instruction_at(size_t core, uint32_t at) const {
  const isa::Executable& executable = cores_[core]->executable();
  return executable.program->instruction(executable.schedule[at].instruction);
}

std::vector<uint32_t> LogicalCore::at_marker(size_t marker) const {
  std::vector<uint32_t> at;
  for (const auto& markers : markers_) at.push_back(markers[marker]);
  return at;
}

size_t LogicalCore::matching(size_t open, size_t last) const {
  int depth = 0;
  for (size_t m = open; m < last; ++m) {
    depth += opens(instruction_at(0, markers_[0][m]).opcode) ? 1 : -1;
    if (depth == 0) return m;
  }
  throw Fault(FaultKind::kProgram, "loop.match", "a loop is never ended");
}

// -- blocks without markers

std::vector<uint32_t> LogicalCore::block_end() const {
  const Block& block = frames_.back().block;
  return block.marker < block.last ? at_marker(block.marker) : block.end;
}

void LogicalCore::begin_block() {
  const Block& block = frames_.back().block;
  const std::vector<uint32_t> end = block_end();
  for (size_t c = 0; c < cores_.size(); ++c) cores_[c]->begin_block(block.begin[c], end[c], block.iteration);
  in_block_ = true;
}

void LogicalCore::end_block() {
  const Block& block = frames_.back().block;
  const uint32_t end = block_end()[0];
  for (const auto& core : cores_) core->end_block();
  for (const uint32_t at : cores_[0]->steps().controls(block.begin[0], end))
    registers_.follow(instruction_at(0, at));
  in_block_ = false;
}

bool LogicalCore::awaits_collectives() const {
  return std::ranges::any_of(cores_, [](const auto& core) { return core->awaits_collectives(); });
}

Ps LogicalCore::next() {
  while (true) {
    if (!in_block_) {
      if (frames_.empty()) return kDone;
      begin_block();
    }
    next_ = nullptr;
    Ps best = 0;
    bool is_left = false;
    for (const auto& core : cores_) {
      const Ps start = core->find_next();
      is_left = is_left || core->left() > 0;
      if (start >= 0 && (next_ == nullptr || start < best)) next_ = core.get(), best = start;
    }
    if (next_ != nullptr) return best;
    if (is_left) {
      if (awaits_collectives()) return kAwaitsCollective;
      throw Fault(FaultKind::kProgram, "timing.deadlock",
                  "no core can go on: each waits for the other at a different sendrecv or core_barrier",
                  "call them in the same order on every core");
    }
    if (awaits_collectives()) return kAwaitsCollective;
    end_block();
    const Block& block = frames_.back().block;
    if (block.marker < block.last)
      begin_loop(block.marker, matching(block.marker, block.last));
    else if (frames_.back().loop)
      end_round();
    else
      frames_.pop_back();
  }
}

void LogicalCore::step() {
  interrupt::poll();
  next_->step();
}

// -- loops

void LogicalCore::begin_loop(size_t open, size_t close) {
  Loop loop;
  loop.open = open;
  loop.close = close;
  loop.instruction = cores_[0]->executable().schedule[markers_[0][open]].instruction;
  const isa::Program& program = *cores_[0]->executable().program;
  loop.rounds = trip_count(program, loop.instruction, entered_[loop.instruction]++, registers_, options_);
  if (const isa::Instruction& in = instruction_at(0, markers_[0][open]); in.opcode == Opcode::kLoopBegin) {
    loop.counter = registers_.value(program.operand(in, isa::slot::loop::kLower));
    loop.step = program.attribute_int(in, isa::slot::loop::kAStep);
    loop.counter_register = program.operand(in, isa::slot::loop::kRegister).tensor;
  }
  for (size_t c = 0; c < cores_.size(); ++c) cores_[c]->pass_marker(markers_[c][open]);
  std::vector<uint32_t> begin = at_marker(open);
  for (uint32_t& at : begin) ++at;
  if (loop.rounds == 0) {
    for (size_t c = 0; c < cores_.size(); ++c) cores_[c]->skip(begin[c], markers_[c][close] + 1);
    leave_loop(close);
    return;
  }
  frames_.push_back({{open + 1, close, std::move(begin), at_marker(close), 0}, std::move(loop)});
  begin_round();
}

void LogicalCore::begin_round() {
  Frame& frame = frames_.back();
  Loop& loop = *frame.loop;
  if (loop.counter) registers_.set(loop.counter_register, *loop.counter + loop.round * *loop.step);
  loop.before.resize(cores_.size());
  loop.start.resize(cores_.size());
  for (size_t c = 0; c < cores_.size(); ++c)
    loop.before[c] = cores_[c]->totals(), loop.start[c] = cores_[c]->now();
  if (loop.round > 0)
    for (size_t c = 0; c < cores_.size(); ++c) cores_[c]->jump_back(markers_[c][loop.close]);
  frame.block.marker = loop.open + 1;
  frame.block.begin = at_marker(loop.open);
  for (uint32_t& at : frame.block.begin) ++at;
  frame.block.iteration = static_cast<uint32_t>(loop.round);
}

void LogicalCore::end_round() {
  Loop& loop = *frames_.back().loop;
  for (size_t c = 0; c < cores_.size(); ++c) cores_[c]->pass_marker(markers_[c][loop.close]);
  loop.lengths.push_back(cores_[0]->now() - loop.start[0]);
  const int64_t left = loop.rounds - loop.round - 1;
  const bool skip = left > 0 && steady(loop.lengths);
  for (size_t c = 0; c < cores_.size(); ++c)
    cores_[c]->trace_round(markers_[c][loop.open], loop.start[c], skip ? left : 0);
  if (skip) extrapolate(loop, left);
  if (left > 0 && !skip) {
    ++loop.round;
    begin_round();
    return;
  }
  const size_t close = loop.close;
  frames_.pop_back();
  leave_loop(close);
}

void LogicalCore::leave_loop(size_t close) {
  Block& block = frames_.back().block;
  block.begin = at_marker(close);
  for (uint32_t& at : block.begin) ++at;
  block.marker = close + 1;
}

void LogicalCore::extrapolate(Loop& loop, int64_t left) {
  const Ps round = loop.lengths.back();
  expect_representable(loop, round);
  for (size_t c = 0; c < cores_.size(); ++c)
    cores_[c]->extrapolate(cores_[c]->now() - loop.start[c], cores_[c]->totals().minus(loop.before[c]), left);
  // What others have reserved in a stack that is shared stays where it is.
  if (hbm_ == &own_hbm_) own_hbm_.shift(round * left);
  dma_active_.shift(round * left);
  extrapolated_ += round * left;
}

// Times are counted in picoseconds of 64 bits; what 16 DMA engines did in them is summed, too.
void LogicalCore::expect_representable(const Loop& loop, Ps round) const {
  constexpr Ps kLongest = Ps{1} << 57;
  if (round == 0 || loop.rounds <= (kLongest - now()) / round) return;
  const isa::Program& program = *cores_[0]->executable().program;
  Fault fault(FaultKind::kCapacity, "timing.too_long",
              fmt::format("the loop at instruction {} runs {} times of {:.1f} us each; a predicted time ends "
                          "with {:.0f} hours",
                          loop.instruction, loop.rounds, to_ns(round) / 1e3, to_ns(kLongest) / 3.6e12),
              "fewer iterations: --loop-iterations N (in Python: loop_iterations=N), or a smaller bound");
  fault.set_location(program.location(program.instruction(loop.instruction).location));
  throw fault;
}

// The last three rounds took the same time within a thousandth; or enough has been stepped.
bool LogicalCore::steady(const std::vector<Ps>& lengths) const {
  if (static_cast<int64_t>(lengths.size()) >= options_.iterations_stepped_max) return true;
  if (lengths.size() < 4) return false;
  const auto [low, high] = std::minmax_element(lengths.end() - 3, lengths.end());
  return (*high - *low) * 1000 <= *high;
}

// -- the end

Ps LogicalCore::now() const {
  Ps now = 0;
  for (const auto& core : cores_) now = std::max(now, core->now());
  return now;
}

TimingResult LogicalCore::finish() {
  TimingResult result;
  Totals sum;
  const CoreRun* slowest = cores_[0].get();
  for (const auto& core : cores_) {
    sum.add(core->totals(), 1);
    if (core->now() > slowest->now()) slowest = core.get();
  }
  const Machine& machine = machine_;
  result.program = slowest->executable().program->name;
  result.generation = slowest->executable().generation;
  result.cores = static_cast<int>(cores_.size());
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
  result.extrapolated_ns = to_ns(extrapolated_);
  result.critical_path = slowest->critical_path();
  // Each block between loop markers wrote its own part.
  const auto latest_first = [](const trace::CriticalSegment& a, const trace::CriticalSegment& b) {
    return a.end_ns > b.end_ns;
  };
  if (!std::ranges::is_sorted(result.critical_path, latest_first))
    std::ranges::stable_sort(result.critical_path, latest_first);
  if (options_.keep_instructions)
    for (const auto& core : cores_) result.instructions_of.push_back(times_of(*core));
  if (sink_ != nullptr) sink_->finish(result, result.critical_path);
  return result;
}

}  // namespace opentrn::sim::timing
