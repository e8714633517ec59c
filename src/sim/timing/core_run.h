// One core while it runs: its queues, its engines, and when each instruction started and finished.
//
// The run goes from loop marker to loop marker; between two markers ("a block") every engine works
// through its own part of the schedule. step() starts the instruction that can start first, so that shared
// resources are taken in time order; cores of a logical core are stepped together for the same reason.
// Instructions that share nothing but what they wait for are started before their turn, an engine's one after
// the other: nobody's time depends on when they are looked at (docs/decisions/0270).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/large_pages.h"
#include "isa/collective_copies.h"
#include "isa/executable.h"
#include "sim/timing/dma_engines.h"
#include "sim/timing/machine.h"
#include "sim/timing/simulate.h"
#include "sim/timing/steps.h"
#include "sim/timing/tensor_engine.h"
#include "sim/timing/totals.h"

namespace opentrn::sim::timing {

// Instructions at which the cores of a logical core wait for each other.
class Rendezvous {
 public:
  explicit Rendezvous(size_t cores) : cores_(cores) {}
  // Core `core` is at its round-th rendezvous under `key`, ready at `ready`. True once all cores have come,
  // with the time of the last in `at`. May be asked again.
  bool arrive(uint64_t key, uint32_t round, size_t core, Ps ready, Ps* at);

 private:
  size_t cores_;
  std::map<std::pair<uint64_t, uint32_t>, std::map<size_t, Ps>> arrived_;
};

// Why and when an instruction started; what the critical path needs.
struct InstructionRecord {
  Ps start;
  Ps engine_free;       // its engine, or the engine that triggered it, can go on
  uint32_t waited_for;  // schedule index that let it start; kNobody: its engine did
  uint32_t previous;    // schedule index before it on its engine, in this block; or kNobody
  uint32_t transfer;    // DMA: index of what happened to it; or kNobody
  trace::Stall stall;
};

using isa::CollectiveCopies;  // they move nothing here

class CoreRun {
 public:
  CoreRun(const Machine& machine, const arch::TimingTable& table, const isa::Executable& executable,
          size_t core, HbmStack& hbm, bool owns_memory, ActiveTime& dma_active, Rendezvous& rendezvous,
          trace::TraceSink* sink, const SimulateOptions& options);

  // -- a block of the schedule without loop markers
  void begin_block(uint32_t begin, uint32_t end, uint32_t iteration);
  uint32_t left() const { return left_; }
  // The earliest start among the heads of all queues; -1 when every head waits for another core.
  // Instructions that share nothing with others may be started meanwhile.
  Ps find_next();
  void step();       // starts what find_next() found
  void end_block();  // adds its critical path to the totals
  // -- collectives: before the first block
  void set_collectives(std::span<const CollectiveCopies> collectives);
  // The next collective whose copies have all been issued, and when; -1: there is none that was not told.
  int32_t take_trigger(Ps* at);
  // It ended at `end`, and its last copy was triggered before. `label`: of its event.
  void complete(int32_t collective, Ps end, std::string_view label);
  bool awaits_collectives() const { return pending_ > 0; }
  // -- a loop marker: everything before is complete, every engine spends one register instruction
  void pass_marker(uint32_t marker);
  // From the end of a loop back to its beginning, for all engines.
  void jump_back(uint32_t marker);
  // The body of a loop that does not run: who waits for it, waits no longer.
  void skip(uint32_t begin, uint32_t end);

  Ps now() const { return now_; }  // when everything so far is complete
  // `rounds` more rounds of a loop, each taking `period` and adding `each` to the totals.
  void extrapolate(Ps period, const Totals& each, int64_t rounds);
  // Tells the trace of a round that began at `start` and ends now; `skipped` more like it are not stepped.
  void trace_round(uint32_t begin_marker, Ps start, int64_t skipped);

  const Totals& totals() const { return totals_; }
  const DmaEngines& dma() const { return dma_; }
  // By schedule index; and when an instruction that waits for it may start.
  std::span<const InstructionRecord> records() const { return records_; }
  std::span<const Ps> visible() const { return visible_; }
  const Steps& steps() const { return steps_; }
  const isa::Executable& executable() const { return executable_; }
  const std::vector<trace::CriticalSegment>& critical_path() const { return critical_; }

 private:
  static constexpr size_t kEngines = isa::kEngineCount;
  struct Head {
    uint32_t at = kNobody;  // schedule index; kNobody: the queue is empty
    bool resolved = false;  // everything it waits for has a known time
    const StepKind* kind = nullptr;
    uint32_t blocker = kNobody;  // schedule index without a known time
    uint32_t waited_for = kNobody;
    uint32_t round = 0;  // of the rendezvous
    Ps ready = 0;
    Ps own_ready = 0;  // before the other core came
  };

  [[gnu::always_inline]] void load_head(size_t engine, uint32_t at);
  bool resolve(Head& head, size_t engine);
  // Whether when it is looked at changes nothing: it takes no DMA engines that another engine may want, no
  // port that another engine may take, and meets no other core.
  [[gnu::always_inline]] bool is_private(const StepKind& kind, size_t engine) const;
  // Starts the resolved head of a queue and what comes behind it, as long as that is private and can start.
  bool run_ahead(size_t engine);
  void execute(size_t engine, Ps start, bool port);
  [[gnu::always_inline]] void note_end(uint32_t at);
  // Whether the first of two instructions was started before the other, in time order.
  bool started_before(uint32_t at, uint32_t other) const;
  [[gnu::always_inline]] Ps earliest(const Head& head, size_t engine, bool* port) const;
  [[gnu::always_inline]] void start_compute(Head& head, size_t engine, Ps start);
  [[gnu::always_inline]] void start_dma(Head& head, size_t engine, Ps start);
  // Which collective an entry of the schedule is a copy of; -1: of none.
  int32_t collective_of(uint32_t at) const { return collectives_.empty() ? -1 : find_collective(at); }
  int32_t find_collective(uint32_t at) const;
  // Whether `at` need not wait for `producer` to be complete: another copy of its collective, issued.
  bool issued_with(uint32_t producer, uint32_t at) const;
  void start_collective(int32_t collective, const Head& head, size_t engine, Ps start);
  // The copy that the collective was still waiting for when the others had been issued.
  uint32_t trigger_of(uint32_t at) const;
  [[gnu::always_inline]] void account(const Head& head, size_t engine, Ps start, bool port);
  uint64_t rendezvous_key(const isa::Instruction& in) const;
  Ps activation_table(const StepKind& kind);
  bool keep_path() const { return sink_ != nullptr || options_.keep_instructions; }
  void walk_critical_path();
  void let_pass(uint32_t marker, Ps time);
  void emit(uint32_t at, size_t engine);
  trace::Event event_of(uint32_t at) const;  // what does not depend on its track
  void emit_transfer(uint32_t at, trace::Event event);
  uint32_t track_of(const isa::ScheduledInstruction& entry);

  const Machine& machine_;
  const isa::Executable& executable_;
  const isa::Program& program_;
  Steps steps_;
  size_t core_;
  HbmStack& hbm_;
  ActiveTime& dma_active_;
  Rendezvous& rendezvous_;
  trace::TraceSink* sink_;
  const SimulateOptions& options_;

  bool runs_ahead_;
  bool owns_memory_;             // no other core moves anything
  bool dma_is_private_ = false;  // and in this block one engine starts all transfers
  std::array<Head, kEngines> heads_{};
  uint32_t block_begin_ = 0, block_end_ = 0, left_ = 0, iteration_ = 0;
  Ps block_start_ = 0;
  size_t next_engine_ = 0;
  Ps next_start_ = 0;
  bool next_port_ = false;

  std::array<Ps, kEngines> free_{};
  std::array<uint32_t, kEngines> last_{};
  // Until when an engine holds a shared port: [0] SBUF bus of Vector and GpSimd, [1] PSUM of Vector and
  // Scalar.
  std::array<std::array<Ps, kEngines>, 2> port_until_{};
  std::array<std::array<uint32_t, kEngines>, 2> port_holder_{};
  TensorArray array_;
  DmaEngines dma_;
  std::array<uint32_t, 64> rendezvous_round_{};
  int last_function_ = -1;
  Ps array_last_end_ = 0;
  Ps now_ = 0;
  uint32_t last_to_finish_ = kNobody;

  LargeVector<InstructionRecord> records_;  // by schedule index
  LargeVector<Ps> visible_;                 // an instruction that waits for it may start; -1: not yet known
  LargeVector<Transfer> transfers_;         // of the block

  struct Collective {
    uint32_t left = 0;             // copies that have not been issued
    Ps triggered = 0;              // when the last of them was
    uint32_t trigger = kNobody;    // which one
    std::vector<uint32_t> copies;  // schedule indices
    Ps end = -1;
  };
  std::vector<Collective> collectives_;
  isa::CollectiveFinder finder_;
  std::vector<int32_t> triggered_;  // and not told
  size_t told_ = 0;
  int pending_ = 0;  // triggered, or in part, and not ended
  Totals totals_;
  std::vector<trace::CriticalSegment> critical_;

  // Trace.
  std::array<uint32_t, kEngines> engine_track_{};
  std::map<uint16_t, uint32_t> queue_track_;
  std::map<int, uint32_t> dma_engine_track_;
  uint32_t collective_track_ = kNobody;
};

}  // namespace opentrn::sim::timing
