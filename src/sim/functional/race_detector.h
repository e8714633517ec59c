// Finds pairs of accesses that a schedule leaves unordered.
//
// For every byte of memory in use it remembers the last write, the reads since, and the tensor through which
// it was written. Whether one scheduled instruction is complete before another starts follows from vector
// clocks: per stream, how far it has certainly come. (The idea is that of happens-before race detectors such
// as FastTrack, Flanagan and Freund 2009; the clocks here are known before the run, from the schedule alone.)
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "isa/executable.h"

namespace opentrn::sim {

// The order that stream order and waits guarantee.
class ScheduleOrder {
 public:
  explicit ScheduleOrder(const isa::Executable& executable);
  // Is entry a of the schedule complete before entry b starts?
  bool before(uint32_t a, uint32_t b) const { return clocks_[b * streams_ + stream_[a]] >= position_[a]; }

 private:
  size_t streams_;
  std::vector<uint16_t> stream_;
  std::vector<uint32_t> position_;  // 1-based within its stream
  std::vector<uint32_t> clocks_;    // [entry][stream]: positions complete when the entry starts
};

// One run of one schedule entry; a loop runs an entry many times.
using ExecutionId = uint32_t;

// What two unordered accesses were.
struct Conflict {
  uint32_t earlier_entry;
  bool earlier_wrote;
  int64_t byte;
};

// Shadow of one memory, or of the registers.
class Shadow {
 public:
  Shadow(const ScheduleOrder& order, const std::vector<uint32_t>& entry_of_execution, int64_t bytes);

  // Executions before `first` are ordered before everything from now on.
  void barrier(ExecutionId first) { first_unordered_ = first; }
  // The first byte of [begin, begin + length) whose last writer is unordered with `now`; fills `conflict`.
  bool read(ExecutionId now, int64_t begin, int64_t length, Conflict* conflict);
  bool write(ExecutionId now, uint32_t tensor, int64_t begin, int64_t length, Conflict* conflict);
  // The first byte last written through another tensor, or -1.
  int64_t foreign_byte(uint32_t tensor, int64_t begin, int64_t length) const;
  uint32_t owner(int64_t byte) const { return owner_[static_cast<size_t>(byte)]; }

 private:
  static constexpr uint32_t kNobody = UINT32_MAX;

  bool ordered(ExecutionId then, ExecutionId now) const;
  uint32_t reader_set_with(uint32_t set, ExecutionId reader);
  // kNobody, or a reader of the set that is unordered with `now`.
  ExecutionId unordered_reader(uint32_t set, ExecutionId now) const;

  const ScheduleOrder& order_;
  const std::vector<uint32_t>& entry_of_execution_;
  ExecutionId first_unordered_ = 0;
  std::vector<ExecutionId> writer_;
  std::vector<uint32_t> readers_;  // index into sets_; kNobody: none
  std::vector<uint32_t> owner_;    // TensorId
  std::vector<std::vector<ExecutionId>> sets_;
  std::unordered_map<uint64_t, uint32_t> extended_;  // (set, reader) -> set
};

}  // namespace opentrn::sim
