#include "sim/functional/race_detector.h"

#include <algorithm>

namespace opentrn::sim {

ScheduleOrder::ScheduleOrder(const isa::Executable& executable)
    : streams_(executable.streams.size()),
      stream_(executable.schedule.size()),
      position_(executable.schedule.size()),
      clocks_(executable.schedule.size() * streams_) {
  std::vector<uint32_t> last(streams_, UINT32_MAX);  // latest entry of each stream
  for (uint32_t entry = 0; entry < executable.schedule.size(); ++entry) {
    const isa::ScheduledInstruction& in = executable.schedule[entry];
    uint32_t* clock = &clocks_[entry * streams_];
    const auto join = [&](uint32_t producer) {
      const uint32_t* other = &clocks_[producer * streams_];
      for (size_t s = 0; s < streams_; ++s) clock[s] = std::max(clock[s], other[s]);
      clock[stream_[producer]] = std::max(clock[stream_[producer]], position_[producer]);
    };
    stream_[entry] = in.stream;
    const uint32_t previous = last[in.stream];
    if (previous != UINT32_MAX) join(previous);
    for (uint32_t wait : executable.waits_of(in)) join(wait);
    position_[entry] = previous == UINT32_MAX ? 1 : position_[previous] + 1;
    last[in.stream] = entry;
  }
}

Shadow::Shadow(const ScheduleOrder& order, const std::vector<uint32_t>& entry_of_execution, int64_t bytes)
    : order_(order),
      entry_of_execution_(entry_of_execution),
      pages_(static_cast<size_t>((bytes + kPageBytes - 1) / kPageBytes)) {}

Shadow::Record& Shadow::record(int64_t byte) {
  std::unique_ptr<Page>& page = pages_[static_cast<size_t>(byte / kPageBytes)];
  if (!page) {
    page = std::make_unique<Page>();
    ++pages_in_use_;
  }
  return (*page)[static_cast<size_t>(byte % kPageBytes)];
}

uint32_t Shadow::owner(int64_t byte) const {
  const std::unique_ptr<Page>& page = pages_[static_cast<size_t>(byte / kPageBytes)];
  return page ? (*page)[static_cast<size_t>(byte % kPageBytes)].owner : kNobody;
}

bool Shadow::ordered(ExecutionId then, ExecutionId now) const {
  if (then == kNobody || then == now || then < first_unordered_) return true;
  return order_.before(entry_of_execution_[then], entry_of_execution_[now]);
}

uint32_t Shadow::reader_set_with(uint32_t set, ExecutionId reader) {
  const uint64_t key = (uint64_t{set} << 32) | reader;
  const auto found = extended_.find(key);
  if (found != extended_.end()) return found->second;
  // Readers that are complete before this one need not be remembered: a write after this one is after them.
  std::vector<ExecutionId> members;
  if (set != kNobody)
    for (ExecutionId other : sets_[set])
      if (!ordered(other, reader)) members.push_back(other);
  members.push_back(reader);
  sets_.push_back(std::move(members));
  const uint32_t id = static_cast<uint32_t>(sets_.size() - 1);
  extended_.emplace(key, id);
  return id;
}

ExecutionId Shadow::unordered_reader(uint32_t set, ExecutionId now) const {
  if (set == kNobody) return kNobody;
  for (ExecutionId reader : sets_[set])
    if (!ordered(reader, now)) return reader;
  return kNobody;
}

bool Shadow::read(ExecutionId now, int64_t begin, int64_t length, Conflict* conflict) {
  ExecutionId checked = kNobody;  // neighbours mostly share their history
  uint32_t from = kNobody - 1, to = kNobody;
  for (int64_t i = begin; i < begin + length; ++i) {
    Record& at = record(i);
    if (at.writer != checked) {
      if (!ordered(at.writer, now)) {
        *conflict = {entry_of_execution_[at.writer], true, i};
        return false;
      }
      checked = at.writer;
    }
    if (at.readers != from) {
      from = at.readers;
      to = reader_set_with(from, now);
    }
    at.readers = to;
  }
  return true;
}

bool Shadow::write(ExecutionId now, uint32_t tensor, int64_t begin, int64_t length, Conflict* conflict) {
  ExecutionId checked = kNobody;
  uint32_t checked_set = kNobody;
  for (int64_t i = begin; i < begin + length; ++i) {
    Record& at = record(i);
    if (at.writer != checked) {
      if (!ordered(at.writer, now)) {
        *conflict = {entry_of_execution_[at.writer], true, i};
        return false;
      }
      checked = at.writer;
    }
    if (at.readers != checked_set) {
      const ExecutionId reader = unordered_reader(at.readers, now);
      if (reader != kNobody) {
        *conflict = {entry_of_execution_[reader], false, i};
        return false;
      }
      checked_set = at.readers;
    }
    at = {now, kNobody, tensor};
  }
  return true;
}

int64_t Shadow::foreign_byte(uint32_t tensor, int64_t begin, int64_t length) const {
  for (int64_t i = begin; i < begin + length; ++i) {
    const uint32_t found = owner(i);
    if (found != kNobody && found != tensor) return i;
  }
  return -1;
}

}  // namespace opentrn::sim
