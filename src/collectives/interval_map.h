// A value for each byte of [0, size), kept as few segments: copies of a segment's value where it is cut.
//
// Segments are kept in order in blocks of a few dozen, so that one is found by two short searches in memory
// that lies together: plans ask for their segments several times for each step.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace opentrn::collectives {

template <typename T>
class IntervalMap {
 public:
  explicit IntervalMap(int64_t size = 0, T value = {}) : size_(size) {
    if (size <= 0) return;
    values_.push_back(std::move(value));
    blocks_.emplace_back();
    blocks_[0].count = 1;
    blocks_[0].begin[0] = 0;
    blocks_[0].value[0] = 0;
    firsts_.push_back(0);
    order_.push_back(0);
  }
  int64_t size() const { return size_; }
  size_t segment_count() const { return values_.size() - free_values_.size(); }

  // Calls visit(begin, end, T&) for each segment of [begin, end), after cutting segments at its ends. T may
  // be changed. [begin, end) lies within [0, size).
  template <typename Visit>
  void visit(int64_t begin, int64_t end, Visit visit) {
    if (begin >= end) return;
    if (const Place one = find(begin); is_all_of(one, begin, end)) return visit(begin, end, value_of(one));
    if (end < size_) cut(end);
    for (Place at = cut(begin); is_there(at) && begin_of(at) < end; at = next(at))
      visit(begin_of(at), end_of(at), value_of(at));
  }
  // Only looks: visit(begin, end, const T&), clipped to [begin, end).
  template <typename Visit>
  void look(int64_t begin, int64_t end, Visit visit) const {
    if (begin >= end || order_.empty()) return;
    for (Place at = find(begin); is_there(at) && begin_of(at) < end; at = next(at))
      visit(std::max(begin_of(at), begin), std::min(end_of(at), end), value_of(at));
  }
  // One value for all of [begin, end).
  void assign(int64_t begin, int64_t end, T value) {
    if (begin >= end) return;
    if (const Place one = find(begin); is_all_of(one, begin, end)) {
      value_of(one) = std::move(value);
      return;
    }
    if (end < size_) cut(end);
    const Place first = cut(begin);
    value_of(first) = std::move(value);
    for (Place after = next(first); is_there(after) && begin_of(after) < end; after = next(first))
      erase(after);
  }

 private:
  static constexpr int32_t kBlock = 32;
  struct Block {
    int32_t count = 0;
    std::array<int64_t, kBlock> begin;
    std::array<int32_t, kBlock> value;  // where in values_
  };
  // Of a segment: a block by its place in order, and where in it.
  struct Place {
    size_t block = 0;
    int32_t at = 0;
  };

  Block& block(size_t at) { return blocks_[static_cast<size_t>(order_[at])]; }
  const Block& block(size_t at) const { return blocks_[static_cast<size_t>(order_[at])]; }
  bool is_there(Place place) const { return place.block < order_.size(); }
  int64_t begin_of(Place place) const { return block(place.block).begin[static_cast<size_t>(place.at)]; }
  int64_t end_of(Place place) const {
    const Place after = next(place);
    return is_there(after) ? begin_of(after) : size_;
  }
  T& value_of(Place place) { return values_[index_of(place)]; }
  const T& value_of(Place place) const { return values_[index_of(place)]; }
  size_t index_of(Place place) const {
    return static_cast<size_t>(block(place.block).value[static_cast<size_t>(place.at)]);
  }
  bool is_all_of(Place place, int64_t begin, int64_t end) const {
    return begin_of(place) == begin && end_of(place) == end;
  }
  Place next(Place place) const {
    if (place.at + 1 < block(place.block).count) return {place.block, place.at + 1};
    return {place.block + 1, 0};
  }

  // The segment that holds `at`: often the one that was asked for last, as who looks at one changes it next.
  Place find(int64_t at) const {
    if (is_there(last_) && last_.at < block(last_.block).count && begin_of(last_) <= at && at < end_of(last_))
      return last_;
    return last_ = search(at);
  }
  Place search(int64_t at) const {
    const auto number = std::ranges::upper_bound(firsts_, at) - firsts_.begin() - 1;
    const Block& in = block(static_cast<size_t>(number));
    const auto last = std::upper_bound(in.begin.begin(), in.begin.begin() + in.count, at) - in.begin.begin();
    return {static_cast<size_t>(number), static_cast<int32_t>(last) - 1};
  }
  // The segment that begins at `at`, cut from the one that holds it where there is none. What was found
  // before may be elsewhere then.
  Place cut(int64_t at) {
    const Place found = find(at);
    if (begin_of(found) == at) return found;
    T copy = value_of(found);
    int32_t index = 0;
    if (free_values_.empty()) {
      index = static_cast<int32_t>(values_.size());
      values_.push_back(std::move(copy));
    } else {
      index = free_values_.back();
      free_values_.pop_back();
      values_[static_cast<size_t>(index)] = std::move(copy);
    }
    return insert({found.block, found.at + 1}, at, index);
  }

  Place insert(Place place, int64_t begin, int32_t value) {
    if (block(place.block).count == kBlock) place = split(place);
    Block& in = block(place.block);
    const auto at = static_cast<size_t>(place.at), count = static_cast<size_t>(in.count);
    std::copy_backward(in.begin.begin() + at, in.begin.begin() + count, in.begin.begin() + count + 1);
    std::copy_backward(in.value.begin() + at, in.value.begin() + count, in.value.begin() + count + 1);
    in.begin[at] = begin;
    in.value[at] = value;
    ++in.count;
    return place;
  }
  // The upper half of a block becomes one of its own; where `place` is then. What comes behind the last
  // segment of a block stays with it, so that no block begins with another segment than before.
  Place split(Place place) {
    constexpr int32_t kHalf = kBlock / 2;
    auto number = static_cast<int32_t>(blocks_.size());
    if (free_blocks_.empty()) {
      blocks_.emplace_back();
    } else {
      number = free_blocks_.back();
      free_blocks_.pop_back();
    }
    Block& from = block(place.block);
    Block& to = blocks_[static_cast<size_t>(number)];
    std::copy(from.begin.begin() + kHalf, from.begin.end(), to.begin.begin());
    std::copy(from.value.begin() + kHalf, from.value.end(), to.value.begin());
    from.count = kHalf;
    to.count = kBlock - kHalf;
    const auto behind = static_cast<std::ptrdiff_t>(place.block) + 1;
    order_.insert(order_.begin() + behind, number);
    firsts_.insert(firsts_.begin() + behind, to.begin[0]);
    return place.at <= kHalf ? place : Place{place.block + 1, place.at - kHalf};
  }

  // Never the first of all.
  void erase(Place place) {
    Block& in = block(place.block);
    const auto at = static_cast<size_t>(place.at), count = static_cast<size_t>(in.count);
    const int32_t value = in.value[at];
    values_[static_cast<size_t>(value)] = T{};
    free_values_.push_back(value);
    std::copy(in.begin.begin() + at + 1, in.begin.begin() + count, in.begin.begin() + at);
    std::copy(in.value.begin() + at + 1, in.value.begin() + count, in.value.begin() + at);
    --in.count;
    const auto number = static_cast<std::ptrdiff_t>(place.block);
    if (in.count == 0) {
      free_blocks_.push_back(order_[place.block]);
      order_.erase(order_.begin() + number);
      firsts_.erase(firsts_.begin() + number);
    } else if (at == 0) {
      firsts_[place.block] = in.begin[0];
    }
  }

  int64_t size_;
  std::vector<T> values_;
  std::vector<int32_t> free_values_;
  std::vector<Block> blocks_;
  std::vector<int32_t> free_blocks_;
  std::vector<int32_t> order_;   // of blocks
  std::vector<int64_t> firsts_;  // where each begins, in order
  mutable Place last_;           // that find() gave; another segment may be there now
};

}  // namespace opentrn::collectives
