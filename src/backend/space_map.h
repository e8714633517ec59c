// Which bytes of which partition quadrants are taken, and since when the others are free.
//
// The memory is a row of segments; in a segment each of the four partition quadrants is taken or free as
// a whole. Segments split and merge as tensors come and go.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "isa/array_placement.h"

namespace opentrn::backend {

using isa::kAllQuadrants;
using isa::QuadrantMask;

// Quadrants that a tensor of so many rows takes: one, a half of them, or all.
constexpr int64_t quadrants_taken(int64_t rows, int64_t partitions) {
  return rows <= partitions / 4 ? 1 : rows <= partitions / 2 ? 2 : 4;
}

// A tensor's alignment: `alignment`, or less for a tensor that is smaller than that.
int64_t placed_alignment(int64_t bytes, int64_t alignment);
// The bytes it takes up.
int64_t placed_bytes(int64_t bytes, int64_t alignment);

struct Request {
  int64_t bytes = 0;
  int64_t alignment = 1;
  int64_t bank_bytes = 0;  // 0: no banks; else the range lies in one bank or starts at one
  bool whole_banks = false;
};

class SpaceMap {
 public:
  explicit SpaceMap(int64_t bytes) : segments_{{0, bytes, 0, {}, {}}}, latest_{0} {}

  enum class Policy : uint8_t { kOldest, kLowest, kHighest };
  struct Found {
    int64_t offset = 0;
    QuadrantMask quadrants = 0;
    size_t segment = 0;  // in which it begins, until the map changes
  };
  // The best range in one of `choices`, quadrant masks of one size, or nothing.
  std::optional<Found> find(const Request& request, const std::vector<QuadrantMask>& choices,
                            Policy policy) const;
  void take(int64_t offset, int64_t bytes, QuadrantMask quadrants) {
    take({offset, quadrants, segment_at(offset)}, bytes);
  }
  void take(const Found& found, int64_t bytes);
  void release(int64_t offset, int64_t bytes, QuadrantMask quadrants, uint32_t time);

 private:
  static constexpr uint32_t kTaken = UINT32_MAX;  // later than any instruction
  struct Segment {
    int64_t begin = 0;
    int64_t end = 0;
    QuadrantMask taken = 0;
    std::array<uint32_t, 4> free_since{};
    std::array<uint32_t, 4> age{};  // free_since, or kTaken
    // The latest time at which one of these quadrants became free; kTaken if one is not.
    uint32_t latest(QuadrantMask quadrants) const {
      uint32_t time = 0;
      for (size_t q = 0; q < 4; ++q) time = std::max(time, (quadrants >> q & 1) != 0 ? age[q] : 0);
      return time;
    }
    void set_age(size_t q) { age[q] = (taken >> q & 1) != 0 ? kTaken : free_since[q]; }
    bool same_state(const Segment& other) const {
      bool same = taken == other.taken;
      for (size_t q = 0; q < 4; ++q) same &= free_since[q] == other.free_since[q];
      return same;
    }
  };
  size_t segment_at(int64_t offset) const;
  // The first segment from `offset` on, when one begins there; `i`: none behind the one around it.
  size_t split_at(int64_t offset, size_t i);
  void note_latest(size_t first, size_t last);
  void merge(size_t first, size_t last);
  struct Age {
    std::optional<uint32_t> since;
    size_t blocker = 0;
  };
  // The latest time at which any part of the range became free, if all of it is and that was before `before`.
  template <size_t kLanes>
  std::optional<Found> find_oldest(const Request& request, const std::vector<QuadrantMask>& choices) const;
  Age age_of(size_t first, int64_t offset, int64_t bytes, QuadrantMask quadrants, uint32_t before) const;

  size_t next_freed_before(size_t i, uint32_t before) const;

  std::vector<Segment> segments_;
  std::vector<uint32_t> latest_;  // latest(kAllQuadrants) of each: searches look at little else
};

}  // namespace opentrn::backend
