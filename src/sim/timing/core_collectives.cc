// A core's side of a collective: its trigger on an engine's queue, and the semaphore at its end.
//
// In a recorded program a collective is copies to what is sent and copies of what arrived. On the device it
// is one trigger: a write to a CC-core, which moves the data by its own DMA rings. So the first copy takes
// the time of a trigger on its engine [assumed: that of a DMA], the others take none, none of them moves
// anything, and all of them are complete when the collective has ended.
#include <algorithm>

#include "sim/timing/core_run.h"

namespace opentrn::sim::timing {

void CoreRun::set_collectives(std::span<const CollectiveCopies> collectives) {
  collectives_.resize(collectives.size());
  finder_ = isa::CollectiveFinder(collectives);
  // What a collective's end lets start depends on when that is told.
  runs_ahead_ = runs_ahead_ && collectives.empty();
  for (uint32_t at = 0; at < executable_.schedule.size(); ++at)
    if (const int32_t of = collective_of(at); of >= 0) ++collectives_[static_cast<size_t>(of)].left;
}

int32_t CoreRun::find_collective(uint32_t at) const {
  const isa::ScheduledInstruction& entry = executable_.schedule[at];
  return finder_.of(program_, program_.instruction(entry.instruction), entry.engine == isa::Engine::kDma);
}

bool CoreRun::issued_with(uint32_t producer, uint32_t at) const {
  if (pending_ == 0 || records_[producer].engine_free < 0) return false;
  const int32_t collective = collective_of(producer);
  return collective >= 0 && collective == collective_of(at);
}

void CoreRun::start_collective(int32_t collective, const Head& head, size_t engine, Ps start) {
  Collective& of = collectives_[static_cast<size_t>(collective)];
  InstructionRecord& record = records_[head.at];
  if (of.copies.empty()) ++pending_;
  const Ps busy = of.copies.empty() ? machine_.collective_trigger : 0;
  record.engine_free = start + busy;
  record.transfer = kNobody;
  free_[engine] = record.engine_free;
  totals_.busy[engine] += busy;
  of.copies.push_back(head.at);
  if (of.trigger == kNobody || record.engine_free >= of.triggered) {
    of.triggered = record.engine_free;
    of.trigger = head.at;
  }
  if (--of.left == 0) triggered_.push_back(collective);
}

int32_t CoreRun::take_trigger(Ps* at) {
  if (told_ == triggered_.size()) return -1;
  const int32_t collective = triggered_[told_++];
  *at = collectives_[static_cast<size_t>(collective)].triggered;
  return collective;
}

void CoreRun::complete(int32_t collective, Ps end, std::string_view label) {
  Collective& of = collectives_[static_cast<size_t>(collective)];
  of.end = end;
  --pending_;
  for (const uint32_t at : of.copies) {
    visible_[at] = std::max(end, records_[at].engine_free) + machine_.semaphore;
    if (visible_[at] > now_) now_ = visible_[at], last_to_finish_ = at;
  }
  if (sink_ == nullptr) return;
  if (collective_track_ == kNobody)
    collective_track_ =
        sink_->add_track({trace::TrackKind::kCcCores, isa::Engine::kUnknown, static_cast<uint16_t>(core_), 0,
                          sink_->strings().intern(core_ > 0 ? "collectives (core 1)" : "collectives")});
  trace::Event event = event_of(of.trigger);
  event.track = collective_track_;
  event.name = sink_->strings().intern(std::string(label));
  event.start_ns = to_ns(of.triggered);
  event.end_ns = to_ns(end);
  event.busy_ns = event.end_ns - event.start_ns;
  sink_->add_event(event);
}

uint32_t CoreRun::trigger_of(uint32_t at) const {
  return collectives_[static_cast<size_t>(collective_of(at))].trigger;
}

}  // namespace opentrn::sim::timing
