// A value for each byte of [0, size), kept as few segments: copies of a segment's value where it is cut.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace opentrn::collectives {

template <typename T>
class IntervalMap {
 public:
  explicit IntervalMap(int64_t size = 0, T value = {}) : size_(size) {
    if (size > 0) segments_.emplace(0, std::move(value));
  }
  int64_t size() const { return size_; }
  size_t segment_count() const { return segments_.size(); }

  // Calls visit(begin, end, T&) for each segment of [begin, end), after cutting segments at its ends. T may
  // be changed. [begin, end) lies within [0, size).
  template <typename Visit>
  void visit(int64_t begin, int64_t end, Visit visit) {
    if (begin >= end) return;
    auto at = cut(begin);
    if (end < size_) cut(end);
    for (; at != segments_.end() && at->first < end; ++at) {
      const auto next = std::next(at);
      visit(at->first, next == segments_.end() ? size_ : next->first, at->second);
    }
  }
  // Only looks: visit(begin, end, const T&), clipped to [begin, end).
  template <typename Visit>
  void look(int64_t begin, int64_t end, Visit visit) const {
    if (begin >= end) return;
    for (auto at = std::prev(segments_.upper_bound(begin)); at != segments_.end() && at->first < end; ++at) {
      const auto next = std::next(at);
      const int64_t last = next == segments_.end() ? size_ : next->first;
      visit(at->first > begin ? at->first : begin, last < end ? last : end, at->second);
    }
  }
  // One value for all of [begin, end).
  void assign(int64_t begin, int64_t end, T value) {
    if (begin >= end) return;
    const auto first = cut(begin);
    const auto last = end < size_ ? cut(end) : segments_.end();
    first->second = std::move(value);
    segments_.erase(std::next(first), last);
  }

 private:
  using Segments = std::map<int64_t, T>;
  // The segment that begins at `at`, cut from the one that holds it where there is none.
  typename Segments::iterator cut(int64_t at) {
    auto found = segments_.lower_bound(at);
    if (found != segments_.end() && found->first == at) return found;
    return segments_.emplace_hint(found, at, std::prev(found)->second);
  }

  int64_t size_;
  Segments segments_;
};

}  // namespace opentrn::collectives
