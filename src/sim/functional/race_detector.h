// Finds pairs of accesses that a schedule leaves unordered.
//
// For every byte of memory in use it remembers the last write, the reads since, and the tensor through which
// it was written. Whether one scheduled instruction is complete before another starts follows from vector
// clocks: per stream, how far it has certainly come. (The idea is that of happens-before race detectors such
// as FastTrack, Flanagan and Freund 2009; the clocks here are known before the run, from the schedule alone.)
#pragma once

#include <array>
#include <cstdint>
#include <memory>
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

// Shadow of one memory, or of the registers. What a program does not touch takes no room: a core's memory has
// 26 MB, and a record is twelve times as large as what it records.
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
  uint32_t owner(int64_t byte) const;
  // Bytes that records are kept for.
  int64_t bytes_recorded() const { return pages_in_use_ * kPageBytes; }

 private:
  static constexpr uint32_t kNobody = UINT32_MAX;
  static constexpr int64_t kPageBytes = 512;

  struct Record {
    ExecutionId writer = kNobody;
    uint32_t readers = kNobody;  // index into sets_
    uint32_t owner = kNobody;    // TensorId
  };
  using Page = std::array<Record, kPageBytes>;

  Record& record(int64_t byte);

  bool ordered(ExecutionId then, ExecutionId now) const;
  uint32_t reader_set_with(uint32_t set, ExecutionId reader);
  // kNobody, or a reader of the set that is unordered with `now`.
  ExecutionId unordered_reader(uint32_t set, ExecutionId now) const;

  const ScheduleOrder& order_;
  const std::vector<uint32_t>& entry_of_execution_;
  ExecutionId first_unordered_ = 0;
  std::vector<std::unique_ptr<Page>> pages_;  // null: nobody was there
  int64_t pages_in_use_ = 0;
  std::vector<std::vector<ExecutionId>> sets_;
  std::unordered_map<uint64_t, uint32_t> extended_;  // (set, reader) -> set
};

}  // namespace opentrn::sim
