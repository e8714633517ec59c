#include "backend/space_map.h"

#include <algorithm>
#include <bit>

namespace opentrn::backend {

int64_t placed_alignment(int64_t bytes, int64_t alignment) {
  constexpr int64_t kSmallest = 4;  // bytes: one element of the widest type
  const auto size = static_cast<uint64_t>(std::max(bytes, kSmallest));
  return std::min(alignment, static_cast<int64_t>(std::bit_ceil(size)));
}

int64_t placed_bytes(int64_t bytes, int64_t alignment) {
  const int64_t unit = placed_alignment(bytes, alignment);
  return (std::max<int64_t>(1, bytes) + unit - 1) / unit * unit;
}

namespace {

int64_t rounded_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// The first offset at or after `offset` at which the request may start.
int64_t legal_start(const Request& request, int64_t offset) {
  offset = rounded_up(offset, request.alignment);
  if (request.bank_bytes == 0) return offset;
  const bool whole = request.whole_banks || request.bytes > request.bank_bytes;
  if (whole) return rounded_up(offset, request.bank_bytes);
  const bool crosses = offset / request.bank_bytes != (offset + request.bytes - 1) / request.bank_bytes;
  return crosses ? rounded_up(offset, request.bank_bytes) : offset;
}

}  // namespace

// `blocker`: the segment that is taken or was freed no earlier than `before`, when there is no age.
SpaceMap::Age SpaceMap::age_of(size_t first, int64_t offset, int64_t bytes, QuadrantMask quadrants,
                               uint32_t before) const {
  uint32_t latest = 0;
  size_t i = first;
  for (; i < segments_.size() && segments_[i].begin < offset + bytes; ++i) {
    latest = std::max(latest, segments_[i].latest(quadrants));
    if (latest >= before) return {std::nullopt, i};
  }
  if (segments_.back().end < offset + bytes) return {std::nullopt, segments_.size() - 1};
  return {latest, i};
}

// The first segment from `i` on of which all quadrants became free before that.
size_t SpaceMap::next_freed_before(size_t i, uint32_t before) const {
  constexpr size_t kBlock = 16;
  const size_t n = latest_.size();
  for (; i + kBlock <= n; i += kBlock) {
    uint32_t any = 0;
    for (size_t k = 0; k < kBlock; ++k) any |= static_cast<uint32_t>(latest_[i + k] < before);
    if (any != 0) break;
  }
  while (i < n && latest_[i] >= before) ++i;
  return i;
}

template <size_t kWidth>
constexpr QuadrantMask lane_quadrants(size_t lane) {
  return static_cast<QuadrantMask>(((1u << kWidth) - 1) << (lane * kWidth));
}

// The range that has been free for longest; of equals that in the first quadrants, there the lowest. All
// lanes (the quadrants, their halves, or the whole) are searched in one walk: most segments are too young in
// each. Whatever begins at or before a blocker and reaches it is blocked too, so that a lane's search goes on
// behind it.
template <size_t kLanes>
std::optional<SpaceMap::Found> SpaceMap::find_oldest(const Request& request,
                                                     const std::vector<QuadrantMask>& choices) const {
  constexpr size_t kWidth = 4 / kLanes;
  std::optional<Found> best;
  std::array<uint32_t, kLanes> before;  // an age must be earlier to be better
  for (size_t lane = 0; lane < kLanes; ++lane)
    before[lane] = std::ranges::find(choices, lane_quadrants<kWidth>(lane)) != choices.end() ? kTaken : 0;
  std::array<size_t, kLanes> next{};
  for (size_t i = 0; i < segments_.size(); ++i) {
    if constexpr (kLanes == 1) {
      i = next_freed_before(std::max(i, next[0]), before[0]);
      if (i == segments_.size()) break;
    }
    const Segment& segment = segments_[i];
    std::array<uint32_t, kLanes> age;
    uint32_t is_old = 0;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      age[lane] = segment.age[lane * kWidth];
      for (size_t q = 1; q < kWidth; ++q) age[lane] = std::max(age[lane], segment.age[lane * kWidth + q]);
      is_old |= static_cast<uint32_t>(age[lane] < before[lane]);
    }
    if (is_old == 0) continue;
    const int64_t offset = legal_start(request, segment.begin);
    if (offset >= segment.end) continue;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      if (age[lane] >= before[lane] || i < next[lane]) continue;
      const QuadrantMask quadrants = lane_quadrants<kWidth>(lane);
      const auto [since, blocker] = age_of(i, offset, request.bytes, quadrants, before[lane]);
      if (!since) {
        next[lane] = blocker + 1;
        continue;
      }
      best = Found{offset, quadrants, i};
      for (size_t other = 0; other < kLanes; ++other)
        if (before[other] > 0) before[other] = *since + (other < lane ? 1 : 0);
    }
  }
  return best;
}

std::optional<SpaceMap::Found> SpaceMap::find(const Request& request,
                                              const std::vector<QuadrantMask>& choices, Policy policy) const {
  if (policy == Policy::kOldest)
    return std::popcount(choices.front()) == 1   ? find_oldest<4>(request, choices)
           : std::popcount(choices.front()) == 2 ? find_oldest<2>(request, choices)
                                                 : find_oldest<1>(request, choices);
  std::optional<Found> best;
  const size_t n = segments_.size();
  for (QuadrantMask quadrants : choices) {
    for (size_t k = 0; k < n; ++k) {
      const size_t i = policy == Policy::kHighest ? n - 1 - k : k;
      if ((segments_[i].taken & quadrants) != 0) continue;
      int64_t offset = legal_start(request, segments_[i].begin);
      if (policy == Policy::kHighest) {
        // The highest start that ends with this segment, if the rounding leaves one inside it.
        const int64_t last = (segments_[i].end - request.bytes) / request.alignment * request.alignment;
        if (last > offset && legal_start(request, last) == last) offset = last;
      }
      if (offset >= segments_[i].end) continue;
      const auto [age, blocker] = age_of(i, offset, request.bytes, quadrants, kTaken);
      if (!age) {
        if (policy != Policy::kHighest) k = blocker;
        continue;
      }
      if (!best || (policy == Policy::kLowest ? offset < best->offset : offset > best->offset))
        best = Found{offset, quadrants, i};
      break;  // of this choice no later segment is better
    }
  }
  return best;
}

size_t SpaceMap::segment_at(int64_t offset) const {
  const auto it = std::partition_point(segments_.begin(), segments_.end(),
                                       [&](const Segment& segment) { return segment.end <= offset; });
  return static_cast<size_t>(it - segments_.begin());
}

size_t SpaceMap::split_at(int64_t offset, size_t i) {
  while (i < segments_.size() && segments_[i].end <= offset) ++i;
  if (i == segments_.size() || segments_[i].begin == offset) return i;
  Segment right = segments_[i];
  segments_[i].end = offset;
  right.begin = offset;
  const auto behind = static_cast<ptrdiff_t>(i) + 1;
  segments_.insert(segments_.begin() + behind, right);
  latest_.insert(latest_.begin() + behind, latest_[i]);
  return i + 1;
}

void SpaceMap::merge(size_t first, size_t last) {
  // Joins equal neighbours in [first - 1, last + 1).
  const size_t begin = first > 0 ? first - 1 : 0;
  size_t end = std::min(last + 1, segments_.size());
  size_t write = begin;
  for (size_t read = begin + 1; read < end; ++read) {
    if (segments_[write].same_state(segments_[read])) {
      segments_[write].end = segments_[read].end;
    } else {
      segments_[++write] = segments_[read];
      latest_[write] = latest_[read];
    }
  }
  if (begin >= end) return;
  const auto from = static_cast<ptrdiff_t>(write + 1), to = static_cast<ptrdiff_t>(end);
  segments_.erase(segments_.begin() + from, segments_.begin() + to);
  latest_.erase(latest_.begin() + from, latest_.begin() + to);
}

void SpaceMap::note_latest(size_t first, size_t last) {
  for (size_t i = first; i < last; ++i) latest_[i] = segments_[i].latest(kAllQuadrants);
}

void SpaceMap::take(const Found& found, int64_t bytes) {
  const auto [offset, quadrants, segment] = found;
  const size_t first = split_at(offset, segment);
  const size_t last = split_at(offset + bytes, first);
  for (size_t i = first; i < last; ++i) {
    segments_[i].taken |= quadrants;
    for (size_t q = 0; q < 4; ++q) segments_[i].set_age(q);
  }
  note_latest(first, last);
  merge(first, last);
}

void SpaceMap::release(int64_t offset, int64_t bytes, QuadrantMask quadrants, uint32_t time) {
  const size_t first = split_at(offset, segment_at(offset));
  const size_t last = split_at(offset + bytes, first);
  for (size_t i = first; i < last; ++i) {
    segments_[i].taken &= static_cast<QuadrantMask>(~quadrants);
    for (size_t q = 0; q < 4; ++q)
      if ((quadrants >> q & 1) != 0) segments_[i].free_since[q] = segments_[i].age[q] = time;
  }
  note_latest(first, last);
  merge(first, last);
}

}  // namespace opentrn::backend
