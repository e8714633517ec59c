#include "sim/timing/dma_engines.h"

#include <algorithm>

#include "arch/stated.h"

namespace opentrn::sim::timing {

using isa::DgeMode;

DmaEngines::DmaEngines(const arch::TimingTable& table, int engines)
    : count_(engines),
      start_latency_(to_ps(table.constant("dma_start_latency_ns"))),
      swdge_latency_(to_ps(table.constant("dma_swdge_start_latency_ns"))),
      hwdge_latency_(to_ps(table.constant("dma_hwdge_start_latency_ns"))),
      completion_(to_ps(table.constant("dma_completion_latency_ns"))),
      trigger_(to_ps(table.constant("dma_trigger_ns"))),
      hwdge_instruction_(to_ps(table.constant("hwdge_instruction_ns"))),
      swdge_descriptor_ps_(table.constant("dma_swdge_descriptor_ns") * kPsPerNs),
      swdge_spread_ps_(table.constant("dma_swdge_spread_ns") * kPsPerNs) {
  groups_[0].end = engines;
  groups_[0].state.last.fill(kNobody);
  unit_holder_.fill(kNobody);
  for (isa::Engine engine : {isa::Engine::kTensor, isa::Engine::kVector, isa::Engine::kScalar,
                             isa::Engine::kGpSimd, isa::Engine::kSync})
    if (arch::has_engine(table, isa::name(engine)))
      hwdge_trigger_[static_cast<size_t>(engine)] =
          to_ps(table.constant("dma_hwdge_trigger_cycles") / table.clock_ghz(isa::name(engine)));
}

void DmaEngines::generate(Ps issue, isa::Engine trigger, DgeMode mode, const DmaWork& work, uint32_t id,
                          Transfer& transfer) {
  const size_t unit = static_cast<size_t>(trigger);
  transfer.descriptors_begin = transfer.descriptors_end = issue;
  if (mode == DgeMode::kHwdge) {
    // Each unit takes commands from one sequencer and works through them; the sequencer goes on.
    transfer.trigger_free = issue + hwdge_trigger_[unit];
    transfer.descriptors_begin = std::max(issue, unit_free_[unit]);
    if (transfer.descriptors_begin > issue) transfer.generated_behind = unit_holder_[unit];
    unit_free_[unit] = transfer.descriptors_begin + hwdge_instruction_;
    unit_holder_[unit] = id;
    transfer.descriptors_end = unit_free_[unit];
    transfer.arrival = unit_free_[unit] + hwdge_latency_;
  } else if (mode == DgeMode::kSwdge) {
    // GpSimd writes the descriptors itself; the first engines start before the last descriptor is there.
    transfer.trigger_free =
        issue + static_cast<Ps>(swdge_descriptor_ps_ * static_cast<double>(work.descriptors) + 0.5);
    transfer.arrival = issue + swdge_latency_;
  } else {
    transfer.trigger_free = issue + trigger_;
    transfer.arrival = issue + start_latency_;
  }
}

Ps DmaEngines::spread(DgeMode mode, const DmaWork& work) const {
  if (mode != DgeMode::kSwdge) return 0;
  return static_cast<Ps>(swdge_spread_ps_ * static_cast<double>(work.descriptors) / work.engines() + 0.5);
}

// Equal shares of a time for all queues that have work.
void DmaEngines::Engine::share_out(Ps elapsed, int queues) {
  while (elapsed > 0 && all_left > 0) {
    int active = 0;
    Ps least = 0;
    for (int q = 0; q < queues; ++q) {
      const Ps work = left[static_cast<size_t>(q)];
      if (work > 0 && (active++ == 0 || work < least)) least = work;
    }
    // The least of what is left and an equal part of the time.
    const Ps share = least * active <= elapsed ? least
                     : active == 1             ? elapsed
                     : active == 2             ? std::max<Ps>(1, elapsed / 2)
                                               : std::max<Ps>(1, elapsed / active);
    for (int q = 0; q < queues; ++q)
      if (left[static_cast<size_t>(q)] > 0) left[static_cast<size_t>(q)] -= share;
    elapsed -= share * active;
    all_left -= share * active;
  }
}

bool DmaEngines::Engine::same(const Engine& other, int queues) const {
  return time == other.time && std::equal(left.begin(), left.begin() + queues, other.left.begin()) &&
         std::equal(last.begin(), last.begin() + queues, other.last.begin());
}

int DmaEngines::split_at(int engine, int from) {
  int group = from;
  while (group < group_count_ && groups_[static_cast<size_t>(group)].end <= engine) ++group;
  const int begin = group == 0 ? 0 : groups_[static_cast<size_t>(group - 1)].end;
  if (begin == engine || group == group_count_) return group;
  std::copy_backward(groups_.begin() + group, groups_.begin() + group_count_,
                     groups_.begin() + group_count_ + 1);
  ++group_count_;
  groups_[static_cast<size_t>(group)].end = engine;
  return group + 1;
}

void DmaEngines::join(int first, int last) {
  int kept = first;
  for (int next = first + 1; next < group_count_; ++next) {
    Group& group = groups_[static_cast<size_t>(kept)];
    const Group& candidate = groups_[static_cast<size_t>(next)];
    if (next <= last && group.state.same(candidate.state, slots_))
      group.end = candidate.end;
    else if (++kept != next)
      groups_[static_cast<size_t>(kept)] = candidate;
  }
  group_count_ = kept + 1;
}

int DmaEngines::slot_of(int queue) {
  for (int slot = 0; slot < slots_; ++slot)
    if (queue_of_slot_[static_cast<size_t>(slot)] == queue) return slot;
  OPENTRN_CHECK(slots_ < kDmaQueuesMax, "more than {} DMA queues", kDmaQueuesMax);
  queue_of_slot_[static_cast<size_t>(slots_)] = queue;
  return slots_++;
}

[[gnu::always_inline]] inline void DmaEngines::queue_up(Engine& engine, int slot, Ps arrival, Ps busy,
                                                        uint32_t id, Transfer& transfer, Reached& reached) {
  engine.drain(arrival, slot, slots_);
  Ps& left = engine.left[static_cast<size_t>(slot)];
  const bool queued = left > 0;
  const Ps begin = queued ? engine.foresee(slot, left, slots_) : std::max(arrival, engine.time);
  const Ps end = engine.foresee(slot, left + busy, slots_);
  left += busy;
  engine.all_left += busy;
  reached.busy_until = std::max(reached.busy_until, engine.time + engine.all_left);
  if (reached.first_begin < 0 || begin < reached.first_begin) reached.first_begin = begin;
  uint32_t& last = engine.last[static_cast<size_t>(slot)];
  if (end > transfer.engines_end) {
    transfer.engines_end = end;
    transfer.data_begin = begin;
    // An engine may have served other queues up to a later time than this arrival: nothing is queued then.
    transfer.queued_behind = queued ? last : kNobody;
  }
  last = id;
}

void DmaEngines::run(Ps issue, isa::Engine trigger, DgeMode mode, int queue, const DmaWork& work,
                     HbmStack& hbm, ActiveTime& active, uint32_t id, Transfer& transfer) {
  generate(issue, trigger, mode, work, id, transfer);
  transfer.engines_end = -1;
  const int slot = slot_of(queue);
  const Ps later = spread(mode, work);
  Reached reached;
  const bool whole = group_count_ == 1 && work.first_engine == 0 && work.last_engine == count_ - 1 &&
                     work.first_busy == work.middle_busy && work.last_busy == work.middle_busy && later == 0;
  if (whole) {
    queue_up(groups_[0].state, slot, transfer.arrival, work.middle_busy, id, transfer, reached);
    busy_ += work.middle_busy * count_;
  } else {
    spread_out(slot, work, later, id, transfer, reached);
  }
  const int64_t hbm_bytes = work.hbm_read + work.hbm_written;
  transfer.data_end = hbm_bytes > 0
                          ? std::max(transfer.engines_end, hbm.reserve(reached.first_begin, hbm_bytes))
                          : transfer.engines_end;
  // Some engine has work until then, whatever the order in which queues are served.
  active.add(reached.first_begin, std::max(reached.busy_until, transfer.data_end));
  transfer.complete = transfer.data_end + completion_;
}

// Engines of one group do the same: the first speaks for all.
void DmaEngines::spread_out(int slot, const DmaWork& work, Ps later, uint32_t id, Transfer& transfer,
                            Reached& reached) {
  const int first_group = split_at(work.first_engine, 0);
  if (work.first_busy != work.middle_busy) split_at(work.first_engine + 1, first_group);
  if (work.last_busy != work.middle_busy) split_at(work.last_engine, first_group);
  for (int e = work.first_engine; later != 0 && e < work.last_engine; ++e) split_at(e + 1, first_group);
  const int end_group = split_at(work.last_engine + 1, first_group);
  int e = work.first_engine;
  for (int g = first_group; g < end_group; ++g) {
    Group& group = groups_[static_cast<size_t>(g)];
    const Ps busy = e == work.first_engine  ? work.first_busy
                    : e == work.last_engine ? work.last_busy
                                            : work.middle_busy;
    queue_up(group.state, slot, transfer.arrival + later * (e - work.first_engine), busy, id, transfer,
             reached);
    busy_ += busy * (group.end - e);
    e = group.end;
  }
  if (group_count_ > 1) join(std::max(0, first_group - 1), std::min(end_group, group_count_ - 1));
}

void DmaEngines::forget_holders() {
  for (int g = 0; g < group_count_; ++g) groups_[static_cast<size_t>(g)].state.last.fill(kNobody);
  unit_holder_.fill(kNobody);
}

void DmaEngines::shift(Ps by) {
  for (int g = 0; g < group_count_; ++g) groups_[static_cast<size_t>(g)].state.time += by;
  for (Ps& free : unit_free_) free += by;
}

}  // namespace opentrn::sim::timing
