#include "sim/timing/core_run.h"
#include "base/interrupt.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace opentrn::sim::timing {

using isa::Engine;
using isa::Opcode;
using trace::Resource;
using trace::Stall;

namespace {

constexpr size_t kPortSbuf = 0, kPortPsum = 1;
constexpr Engine kIssuing[] = {Engine::kTensor, Engine::kVector, Engine::kScalar, Engine::kGpSimd,
                               Engine::kSync};

// Of what waits for nobody.
InstructionRecord at_once(Ps start, Ps end) { return {start, end, kNobody, kNobody, kNobody, Stall::kNone}; }

// Of two that can start together the engine that comes first here goes first.
constexpr size_t rank(Engine engine) {
  return static_cast<size_t>(std::find(std::begin(kIssuing), std::end(kIssuing), engine) -
                             std::begin(kIssuing));
}

}  // namespace

bool Rendezvous::arrive(uint64_t key, uint32_t round, size_t core, Ps ready, Ps* at) {
  if (cores_ == 1) {
    *at = ready;
    return true;
  }
  auto& arrived = arrived_[{key, round}];
  arrived.try_emplace(core, ready);
  if (arrived.size() < cores_) return false;
  for (const auto& [other, time] : arrived) *at = std::max(*at, time);
  return true;
}

CoreRun::CoreRun(const Machine& machine, const arch::TimingTable& table, const isa::Executable& executable,
                 size_t core, HbmStack& hbm, bool owns_memory, ActiveTime& dma_active, Rendezvous& rendezvous,
                 trace::TraceSink* sink, const SimulateOptions& options)
    : machine_(machine),
      executable_(executable),
      program_(*executable.program),
      steps_(executable, machine),
      core_(core),
      hbm_(hbm),
      dma_active_(dma_active),
      rendezvous_(rendezvous),
      sink_(sink),
      options_(options),
      // A trace is told in time order; a transpose in the background may start before what was started; and
      // a result that is there at once could let another instruction of the same moment start.
      runs_ahead_(sink == nullptr && machine.semaphore > 0),
      owns_memory_(owns_memory),
      array_(table),
      dma_(table, machine.costs.dma_engines()),
      records_(executable.schedule.size()),
      visible_(executable.schedule.size(), -1) {
  if (array_.has_background()) runs_ahead_ = false;
  transfers_.reserve(steps_.transfer_count());
  last_.fill(kNobody);
  for (auto& port : port_holder_) port.fill(kNobody);
  if (sink_ == nullptr) return;
  for (Engine engine : kIssuing) {
    const std::string name =
        fmt::format("{}{}", isa::name(engine), core_ > 0 ? fmt::format(" (core {})", core_) : "");
    engine_track_[index(engine)] = sink_->add_track(
        {trace::TrackKind::kEngine, engine, static_cast<uint16_t>(core_), 0, sink_->strings().intern(name)});
  }
}

void CoreRun::begin_block(uint32_t begin, uint32_t end, uint32_t iteration) {
  block_begin_ = begin;
  block_end_ = end;
  left_ = end - begin;
  iteration_ = iteration;
  block_start_ = now_;
  last_to_finish_ = kNobody;
  std::fill(visible_.begin() + begin, visible_.begin() + end, -1);
  if (!collectives_.empty())
    for (uint32_t at = begin; at < end; ++at) records_[at].engine_free = -1;
  last_.fill(kNobody);
  transfers_.clear();
  dma_.forget_holders();
  dma_is_private_ = owns_memory_ && collectives_.empty() && steps_.one_engine_starts_transfers(begin);
  const auto& first = steps_.first_of_block(begin);
  for (Engine engine : kIssuing) load_head(index(engine), first[index(engine)]);
}

inline void CoreRun::load_head(size_t engine, uint32_t at) {
  Head& head = heads_[engine];
  head.at = at;
  if (at == kNobody) return;
  head.resolved = false;
  head.blocker = kNobody;
  head.kind = &steps_.kind(at);
  if (head.kind->synchronises) {
    const isa::Instruction& in = program_.instruction(executable_.schedule[at].instruction);
    head.round = rendezvous_round_[rendezvous_key(in) % rendezvous_round_.size()];
  }
  resolve(head, engine);
}

// Cores meet under the pipe of a sendrecv, or at barriers.
uint64_t CoreRun::rendezvous_key(const isa::Instruction& in) const {
  if (in.opcode == Opcode::kCoreBarrier) return 0;
  return 1 + static_cast<uint64_t>(program_.attribute_int(in, isa::slot::sendrecv::kAPipeId)) % 63;
}

bool CoreRun::resolve(Head& head, size_t engine) {
  if (head.blocker != kNobody && visible_[head.blocker] < 0 && !issued_with(head.blocker, head.at))
    return false;
  const Step& step = steps_[head.at];
  head.ready = block_start_;
  head.waited_for = kNobody;
  for (uint32_t w = step.waits, end = step.waits + step.wait_count; w < end; ++w) {
    const uint32_t wait = executable_.waits[w];
    const Ps visible = visible_[wait];
    if (visible < 0) {
      // Copies of one collective wait for each other's being issued, which they are.
      if (issued_with(wait, head.at)) {
        head.ready = std::max(head.ready, records_[wait].engine_free);
        continue;
      }
      head.blocker = wait;
      return false;
    }
    if (visible > head.ready) head.ready = visible, head.waited_for = wait;
  }
  head.own_ready = head.ready;
  if (head.kind->synchronises) [[unlikely]] {
    Ps at = 0;
    const Ps ready = std::max(head.ready, free_[engine]);
    const isa::Instruction& in = program_.instruction(executable_.schedule[head.at].instruction);
    if (!rendezvous_.arrive(rendezvous_key(in), head.round, core_, ready, &at)) {
      head.blocker = kNobody;
      return false;
    }
    head.ready = std::max(ready, at);
  }
  head.resolved = true;
  return true;
}

inline Ps CoreRun::earliest(const Head& head, size_t engine, bool* port) const {
  *port = false;
  const StepKind& kind = *head.kind;
  Ps start = std::max(head.ready, free_[engine]);
  if (kind.dma) return start;
  if (engine == index(Engine::kTensor)) return std::max(start, array_.free_at(kind.cost.tensor));
  const auto wait_for = [&](size_t which, Engine other) {
    const Ps until = port_until_[which][index(other)];
    if (until > start) start = until, *port = true;
  };
  constexpr size_t vector = index(Engine::kVector), scalar = index(Engine::kScalar),
                   gpsimd = index(Engine::kGpSimd);
  if (kind.cost.uses_sbuf) {
    const bool vector_shares =
        machine_.vector_gpsimd_share_sbuf || (machine_.fast_modes_share_gpsimd_bus && kind.cost.fast_mode);
    if (engine == vector && vector_shares) wait_for(kPortSbuf, Engine::kGpSimd);
    if (engine == gpsimd) wait_for(kPortSbuf, Engine::kVector);
  }
  if (kind.cost.uses_psum && machine_.vector_scalar_share_psum) {
    if (engine == vector) wait_for(kPortPsum, Engine::kScalar);
    if (engine == scalar) wait_for(kPortPsum, Engine::kVector);
  }
  return start;
}

inline bool CoreRun::is_private(const StepKind& kind, size_t engine) const {
  if (kind.shares_nothing) return true;
  if (kind.synchronises) return false;
  if (kind.dma) return dma_is_private_;
  const auto is_alone = [&](Engine other) { return heads_[index(other)].at == kNobody; };
  const bool vector = engine == index(Engine::kVector);
  if (kind.shares_vector_gpsimd && !is_alone(vector ? Engine::kGpSimd : Engine::kVector)) return false;
  return !kind.shares_vector_scalar || is_alone(vector ? Engine::kScalar : Engine::kVector);
}

bool CoreRun::run_ahead(size_t engine) {
  Head& head = heads_[engine];
  bool moved = false;
  while (is_private(*head.kind, engine)) {
    interrupt::poll();
    bool port = false;
    const Ps start = earliest(head, engine, &port);
    execute(engine, start, port);
    moved = true;
    if (head.at == kNobody || !head.resolved) return true;
  }
  return moved;
}

Ps CoreRun::find_next() {
  bool moved = true;
  while (moved) {
    moved = false;
    next_start_ = -1;
    for (Engine engine : kIssuing) {
      const size_t e = index(engine);
      Head& head = heads_[e];
      if (head.at == kNobody || (!head.resolved && !resolve(head, e))) continue;
      if (runs_ahead_ && run_ahead(e)) {
        moved = true;
        if (head.at == kNobody || !head.resolved) continue;
      }
      bool port = false;
      const Ps start = earliest(head, e, &port);
      if (next_start_ < 0 || start < next_start_) next_start_ = start, next_engine_ = e, next_port_ = port;
    }
  }
  return next_start_;
}

void CoreRun::step() { execute(next_engine_, next_start_, next_port_); }

// Of those that end last the one that started first.
inline void CoreRun::note_end(uint32_t at) {
  const Ps visible = visible_[at];
  if (visible < now_) return;
  const bool may_be_first = runs_ahead_ && last_to_finish_ != kNobody;
  if (visible == now_ && !(may_be_first && started_before(at, last_to_finish_))) return;
  now_ = visible;
  last_to_finish_ = at;
}

bool CoreRun::started_before(uint32_t at, uint32_t other) const {
  const Ps start = records_[at].start, others = records_[other].start;
  if (start != others) return start < others;
  const Engine engine = steps_.issuer(at), others_engine = steps_.issuer(other);
  return engine == others_engine ? at < other : rank(engine) < rank(others_engine);
}

// How long the engine had been idle, and why.
inline void CoreRun::account(const Head& head, size_t engine, Ps start, bool port) {
  InstructionRecord& record = records_[head.at];
  record.waited_for = kNobody;
  record.stall = Stall::kNone;
  const StepKind& kind = *head.kind;
  const bool tensor = engine == index(Engine::kTensor) && !kind.dma;
  const Ps free = std::max(tensor ? array_.free_at(kind.cost.tensor) : free_[engine], block_start_);
  const Ps idle = start - free;
  ++totals_.instructions[engine];
  if (idle <= 0) return;
  if (port) {
    record.stall = Stall::kPort;
    const size_t which = kind.cost.uses_psum && machine_.vector_scalar_share_psum ? kPortPsum : kPortSbuf;
    for (size_t other = 0; other < kEngines; ++other)
      if (port_until_[which][other] == start) record.waited_for = port_holder_[which][other];
  } else if (kind.synchronises && head.ready > head.own_ready) {
    record.stall = Stall::kPeer;
  } else if (head.waited_for != kNobody) {
    record.waited_for = head.waited_for;
    const Engine producer = steps_.engine(head.waited_for);
    record.stall = collective_of(head.waited_for) >= 0 ? Stall::kCollective
                   : producer == Engine::kDma          ? Stall::kDma
                   : index(producer) == engine         ? Stall::kOwnResult
                                                       : Stall::kEngine;
  }
  if (record.stall == Stall::kDma)
    totals_.stall_dma[engine] += idle;
  else if (record.stall == Stall::kEngine)
    totals_.stall_engine[engine] += idle;
  else
    totals_.stall_other[engine] += idle;
}

// A switch of the function table goes before the activation that needs it.
Ps CoreRun::activation_table(const StepKind& kind) {
  if (kind.table < 0 || last_function_ == kind.table) return 0;
  last_function_ = kind.table;
  return machine_.table_load;
}

inline void CoreRun::start_compute(Head& head, size_t engine, Ps start) {
  const StepKind& kind = *head.kind;
  const InstructionCost& cost = kind.cost;
  InstructionRecord& record = records_[head.at];
  Ps streamed = 0;
  if (kind.on_array) {
    const TensorArray::Issue issue = array_.issue(std::max(head.ready, free_[engine]), cost.tensor);
    const Ps before = std::max(array_last_end_, start);
    record.engine_free = issue.end;
    streamed = issue.end;
    totals_.busy[engine] += std::max<Ps>(0, issue.end - before);
    array_last_end_ = std::max(array_last_end_, issue.end);
    totals_.flops[static_cast<size_t>(cost.tensor.kind)] += cost.tensor.flops;
  } else {
    const Ps table = activation_table(kind);
    const Ps busy = cost.busy + table;
    record.engine_free = start + busy;
    streamed = start + table + cost.stream;
    free_[engine] = record.engine_free;
    totals_.busy[engine] += busy;
    totals_.operations += cost.operations;
    totals_.sbuf_bytes += cost.sbuf_bytes;
    if (cost.uses_sbuf &&
        (machine_.vector_gpsimd_share_sbuf || cost.fast_mode || engine == index(Engine::kGpSimd)))
      port_until_[kPortSbuf][engine] = record.engine_free, port_holder_[kPortSbuf][engine] = head.at;
    if (cost.uses_psum)
      port_until_[kPortPsum][engine] = record.engine_free, port_holder_[kPortPsum][engine] = head.at;
  }
  visible_[head.at] = streamed + machine_.result_latency[engine] + machine_.semaphore;
}

inline void CoreRun::start_dma(Head& head, size_t engine, Ps start) {
  const StepKind& kind = *head.kind;
  const DmaWork& work = steps_.transfer(head.at);
  InstructionRecord& record = records_[head.at];
  const Ps active = dma_active_.sum(), busy = dma_.busy();
  record.transfer = static_cast<uint32_t>(transfers_.size());
  Transfer& transfer = transfers_.emplace_back();
  dma_.run(start, kind.trigger, kind.dge, kind.queue, work, hbm_, dma_active_, head.at, transfer);
  record.engine_free = transfer.trigger_free;
  visible_[head.at] = transfer.complete;
  free_[engine] = transfer.trigger_free;
  totals_.busy[engine] += transfer.trigger_free - start;
  ++totals_.transfers;
  totals_.descriptors += work.descriptors;
  totals_.dma_bytes += work.bytes;
  totals_.hbm_read += work.hbm_read;
  totals_.hbm_written += work.hbm_written;
  totals_.dma_active += dma_active_.sum() - active;
  totals_.dma_busy += dma_.busy() - busy;
}

void CoreRun::execute(size_t engine, Ps start, bool port) {
  Head& head = heads_[engine];
  const uint32_t at = head.at;
  InstructionRecord& record = records_[at];
  record.start = start;
  record.previous = last_[engine];
  record.transfer = kNobody;
  account(head, engine, start, port);
  if (head.kind->synchronises) [[unlikely]]
    ++rendezvous_round_[rendezvous_key(program_.instruction(executable_.schedule[at].instruction)) %
                        rendezvous_round_.size()];
  const int32_t collective = collective_of(at);
  if (collective >= 0) {
    start_collective(collective, head, engine, start);
  } else if (head.kind->dma) {
    start_dma(head, engine, start);
  } else {
    start_compute(head, engine, start);
  }
  last_[engine] = at;
  note_end(at);
  --left_;
  if (sink_ != nullptr) emit(at, engine);
  load_head(engine, steps_[at].next);
}

void CoreRun::end_block() { walk_critical_path(); }

void CoreRun::pass_marker(uint32_t marker) {
  const isa::ScheduledInstruction& entry = executable_.schedule[marker];
  const InstructionCost cost =
      machine_.costs.of(program_, program_.instruction(entry.instruction), Engine::kSync, steps_.patterns());
  visible_[marker] = now_ + cost.busy;
  const InstructionRecord& record = records_[marker] = at_once(now_, now_ + cost.busy);
  ++totals_.instructions[index(Engine::kSync)];
  totals_.busy[index(Engine::kSync)] += cost.busy;
  if (sink_ != nullptr) {
    trace::Event event = event_of(marker);
    event.track = engine_track_[index(Engine::kSync)];
    event.end_ns = to_ns(record.engine_free);
    sink_->add_event(event);
  }
  let_pass(marker, cost.busy);
}

void CoreRun::jump_back(uint32_t marker) { let_pass(marker, machine_.loop_jump); }

// Time of the sequencers, in which nothing else happens.
void CoreRun::let_pass(uint32_t marker, Ps time) {
  totals_.bound_by[static_cast<size_t>(Resource::kSync)] += time;
  if (keep_path())
    critical_.push_back({to_ns(now_), to_ns(now_ + time), Resource::kSync,
                         executable_.schedule[marker].instruction, static_cast<uint16_t>(core_)});
  now_ += time;
  free_.fill(now_);
}

void CoreRun::skip(uint32_t begin, uint32_t end) {
  for (uint32_t at = begin; at < end; ++at) records_[at] = at_once(now_, visible_[at] = now_);
}

void CoreRun::extrapolate(Ps period, const Totals& each, int64_t rounds) {
  const Ps by = period * rounds;
  const double start_ns = to_ns(now_ - period);
  for (auto segment = critical_.rbegin(); segment != critical_.rend() && segment->start_ns >= start_ns;
       ++segment)
    segment->times *= rounds + 1;
  totals_.add(each, rounds);
  now_ += by;
  free_.fill(now_);
  for (auto& port : port_until_)
    for (Ps& until : port) until += by;
  array_.shift(by);
  dma_.shift(by);
  array_last_end_ += by;
}

void CoreRun::trace_round(uint32_t begin_marker, Ps start, int64_t skipped) {
  if (sink_ == nullptr) return;
  sink_->add_iteration({to_ns(start), to_ns(now_), skipped, executable_.schedule[begin_marker].instruction,
                        static_cast<uint16_t>(core_)});
}

// From the end of the block back through whatever held each instruction up, giving every moment to one
// resource. The parts add up to the length of the block. Each step goes to an instruction that started
// earlier in this block; a copy of a collective may be met twice, at the collective's end and where it was
// issued. So there are no more steps than twice the instructions.
void CoreRun::walk_critical_path() {
  uint32_t at = last_to_finish_;
  Ps time = now_;
  bool from_queue = false;
  bool at_generation = false;  // came in through the descriptor unit of transfer `at`
  const auto spend = [&](Ps from, Resource resource) {
    interrupt::poll();
    from = std::max(from, block_start_);
    if (from >= time) return;
    totals_.bound_by[static_cast<size_t>(resource)] += time - from;
    const Ps until = std::exchange(time, from);
    if (!keep_path()) return;
    const isa::InstructionIndex instruction = executable_.schedule[at].instruction;
    if (critical_.empty() || critical_.back().instruction != instruction ||
        critical_.back().resource != resource || critical_.back().start_ns != to_ns(until))
      critical_.push_back({0, to_ns(until), resource, instruction, static_cast<uint16_t>(core_)});
    critical_.back().start_ns = to_ns(from);
  };
  const auto in_block = [&](uint32_t other) {
    return other != kNobody && other >= block_begin_ && other < block_end_;
  };
  uint32_t reached = at;
  uint32_t steps = 0;
  while (at != kNobody && time > block_start_) {
    reached = at;
    OPENTRN_CHECK(++steps <= 2 * (block_end_ - block_begin_),
                  "the critical path of {} instructions comes back to instruction {}",
                  block_end_ - block_begin_, executable_.schedule[at].instruction);
    const InstructionRecord& record = records_[at];
    const bool dma = steps_.engine(at) == Engine::kDma;
    if (dma && record.transfer == kNobody && time > record.engine_free) {
      // From the end of a collective back to the last of what triggered it.
      const uint32_t trigger = trigger_of(at);
      spend(records_[trigger].engine_free, Resource::kCollective);
      if (trigger != at && in_block(trigger)) {
        at = trigger;
        continue;
      }
    } else if (dma && record.transfer != kNobody && (at_generation || time > record.engine_free)) {
      const Transfer& transfer = transfers_[record.transfer];
      if (!at_generation) {
        // Came from the next transfer of its queue: other queues took the time in between.
        spend(transfer.data_end,
              std::exchange(from_queue, false) ? Resource::kDmaEngines : Resource::kDmaLatency);
        spend(transfer.engines_end, Resource::kHbm);
        spend(transfer.data_begin, Resource::kDmaEngines);
        if (in_block(transfer.queued_behind)) {
          at = transfer.queued_behind;
          from_queue = true;
          continue;
        }
      }
      spend(transfer.descriptors_end, Resource::kDmaLatency);
      spend(transfer.descriptors_begin, Resource::kDescriptors);
      at_generation = in_block(transfer.generated_behind);
      if (at_generation) {
        at = transfer.generated_behind;
        continue;
      }
      spend(record.start, Resource::kDmaLatency);
    }
    if (!dma) spend(record.engine_free, Resource::kSemaphore);  // pipeline latency, then the signal
    spend(record.start, trace::resource_of(steps_.issuer(at)));
    if (in_block(record.waited_for)) {
      // A port is free when its holder is through; a result is there when it is visible.
      const Ps release = record.stall == Stall::kPort ? records_[record.waited_for].engine_free : time;
      spend(release, Resource::kPort);
      at = record.waited_for;
      continue;
    }
    if (record.stall == Stall::kPeer)
      spend(record.previous == kNobody ? block_start_ : records_[record.previous].engine_free,
            Resource::kPeer);
    at = record.previous;
  }
  at = reached;
  spend(block_start_, Resource::kSync);
}

trace::Event CoreRun::event_of(uint32_t at) const {
  const isa::ScheduledInstruction& entry = executable_.schedule[at];
  const isa::Instruction& in = program_.instruction(entry.instruction);
  const InstructionRecord& record = records_[at];
  const SourceLocation where = program_.location(in.location);
  trace::StringTable& strings = sink_->strings();
  trace::Event event;
  event.instruction = entry.instruction;
  event.iteration = iteration_;
  event.opcode = in.opcode;
  event.name = strings.intern(program_.string(in.name));
  event.file = strings.intern(where.file);
  event.function = strings.intern(where.function);
  event.line = where.line;
  event.start_ns = to_ns(record.start);
  event.busy_ns = to_ns(record.engine_free - record.start);
  return event;
}

void CoreRun::emit(uint32_t at, size_t engine) {
  const isa::ScheduledInstruction& entry = executable_.schedule[at];
  const InstructionRecord& record = records_[at];
  trace::Event event = event_of(at);
  event.stall = record.stall;
  if (record.waited_for != kNobody) event.waited_for = executable_.schedule[record.waited_for].instruction;
  event.track = engine_track_[engine];
  event.end_ns = to_ns(entry.engine == Engine::kDma ? record.engine_free : visible_[at] - machine_.semaphore);
  if (record.stall != Stall::kNone) {
    const Ps before = record.previous == kNobody ? block_start_ : records_[record.previous].engine_free;
    event.stall_ns = to_ns(std::max<Ps>(0, record.start - before));
  }
  if (entry.engine == Engine::kTensor) event.flops = heads_[engine].kind->cost.tensor.flops;
  sink_->add_event(event);
  if (entry.engine == Engine::kDma && record.transfer != kNobody) emit_transfer(at, event);
}

uint32_t CoreRun::track_of(const isa::ScheduledInstruction& entry) {
  const uint16_t queue = executable_.streams[entry.stream].queue;
  auto [track, added] = queue_track_.try_emplace(queue, 0);
  if (added) {
    const std::string name = fmt::format("q{}{}{}", isa::name(entry.trigger), queue % 2 == 0 ? "In" : "Out",
                                         core_ > 0 ? fmt::format(" (core {})", core_) : "");
    track->second = sink_->add_track({trace::TrackKind::kDmaQueue, entry.trigger,
                                      static_cast<uint16_t>(core_), queue, sink_->strings().intern(name)});
  }
  return track->second;
}

void CoreRun::emit_transfer(uint32_t at, trace::Event event) {
  const isa::ScheduledInstruction& entry = executable_.schedule[at];
  const Transfer& transfer = transfers_[records_[at].transfer];
  const DmaWork& work = steps_.transfer(at);
  event.track = track_of(entry);
  event.start_ns = to_ns(std::min(transfer.arrival, transfer.data_begin));
  event.end_ns = to_ns(transfer.data_end);
  event.busy_ns = event.end_ns - event.start_ns;
  event.stall = transfer.data_end > transfer.engines_end ? Stall::kHbm
                : transfer.queued_behind != kNobody      ? Stall::kDmaQueue
                : transfer.generated_behind != kNobody   ? Stall::kDescriptors
                                                         : Stall::kNone;
  event.stall_ns = to_ns(std::max<Ps>(0, transfer.data_begin - transfer.arrival));
  event.bytes = work.bytes;
  sink_->add_event(event);
  if (!options_.dma_engine_tracks) return;
  for (int e = work.first_engine; e <= work.last_engine; ++e) {
    auto [engine_track, fresh] = dma_engine_track_.try_emplace(e, 0);
    if (fresh)
      engine_track->second = sink_->add_track(
          {trace::TrackKind::kDmaEngine, Engine::kDma, static_cast<uint16_t>(core_), static_cast<uint16_t>(e),
           sink_->strings().intern(
               fmt::format("dma{}{}", e, core_ > 0 ? fmt::format(" (core {})", core_) : ""))});
    const Ps busy = e == work.first_engine  ? work.first_busy
                    : e == work.last_engine ? work.last_busy
                                            : work.middle_busy;
    trace::Event part = event;
    part.track = engine_track->second;
    part.bytes = work.bytes / (work.last_engine - work.first_engine + 1);
    part.busy_ns = to_ns(busy);
    sink_->add_event(part);
  }
}

}  // namespace opentrn::sim::timing
