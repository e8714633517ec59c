// The cores of one logical core while they run, an instruction at a time: what simulate() runs to the end,
// and what several ranks run beside each other (sim/ranks).
//
//   LogicalCore core(executables, table, sink, options);
//   while (core.next() != LogicalCore::kDone) core.step();
//   const TimingResult result = core.finish();
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sim/timing/core_run.h"
#include "sim/timing/simulate.h"
#include "sim/timing/trip_count.h"

namespace opentrn::sim::timing {

class LogicalCore {
 public:
  // Neither is a time.
  static constexpr Ps kDone = -1;
  static constexpr Ps kAwaitsCollective = -2;  // nothing can start before a collective ends

  // `hbm`: a stack that other logical cores use, too; null: the cores have one of their own.
  LogicalCore(std::span<const isa::Executable* const> cores, const arch::TimingTable& table,
              trace::TraceSink* sink, const SimulateOptions& options, HbmStack* hbm = nullptr);
  LogicalCore(const LogicalCore&) = delete;
  LogicalCore& operator=(const LogicalCore&) = delete;

  // Of one core's program, before anything runs; numbered as given.
  void set_collectives(size_t core, std::span<const CollectiveCopies> collectives);

  // When the next instruction starts. "timing.deadlock" where the cores wait for each other.
  Ps next();
  void step();  // starts what next() found

  // Of the core's collectives: the next that was triggered and not told, and when; -1: none.
  int32_t take_trigger(size_t core, Ps* at) { return cores_[core]->take_trigger(at); }
  void complete(size_t core, int32_t collective, Ps end, std::string_view label) {
    cores_[core]->complete(collective, end, label);
  }

  size_t core_count() const { return cores_.size(); }
  Ps now() const;  // when everything so far is complete
  // Once next() is kDone. Tells the sink.
  TimingResult finish();

 private:
  // Schedule entries up to `end` of each core, which hold the markers [marker, last).
  struct Block {
    size_t marker = 0, last = 0;
    std::vector<uint32_t> begin, end;
    uint32_t iteration = 0;
  };
  // A loop whose body is the block above it.
  struct Loop {
    size_t open = 0, close = 0;
    isa::InstructionIndex instruction = 0;
    int64_t rounds = 0, round = 0;
    std::optional<int64_t> counter, step;  // the first, and how far to the next
    isa::TensorId counter_register = 0;
    std::vector<Ps> lengths;  // of the rounds stepped, on core 0
    std::vector<Totals> before;
    std::vector<Ps> start;
  };
  struct Frame {
    Block block;
    std::optional<Loop> loop;
  };

  const isa::Instruction& instruction_at(size_t core, uint32_t at) const;
  std::vector<uint32_t> at_marker(size_t marker) const;
  size_t matching(size_t open, size_t last) const;
  std::vector<uint32_t> block_end() const;
  void begin_block();
  void end_block();
  void begin_loop(size_t open, size_t close);
  void begin_round();
  void end_round();
  // The block goes on behind the loop.
  void leave_loop(size_t close);
  void extrapolate(Loop& loop, int64_t left);
  void expect_representable(const Loop& loop, Ps round) const;
  bool steady(const std::vector<Ps>& lengths) const;
  bool awaits_collectives() const;

  Machine machine_;
  HbmStack own_hbm_;
  HbmStack* hbm_;
  ActiveTime dma_active_;
  Rendezvous rendezvous_;
  const SimulateOptions options_;
  trace::TraceSink* sink_;
  RegisterTracker registers_;
  std::vector<std::unique_ptr<CoreRun>> cores_;
  std::vector<std::vector<uint32_t>> markers_;        // by core: schedule indices
  std::map<isa::InstructionIndex, int64_t> entered_;  // how often each loop was
  Ps extrapolated_ = 0;
  std::vector<Frame> frames_;  // innermost last
  bool in_block_ = false;
  CoreRun* next_ = nullptr;
};

}  // namespace opentrn::sim::timing
