// What happens when: numbers by times, those of one time together.
//
// In a run of many ranks that are alike most happens to thousands at once: a time is in the queue once for
// all of them, or a few times, and not once for each.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace opentrn::collectives {

class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  int64_t next_ps() const { return heap_.top().first; }

  void push(int64_t at_ps, int32_t number) {
    int32_t& kept = kept_[static_cast<size_t>(at_ps) * kMix >> kShift];
    if (kept < 0 || bucket(kept).at_ps != at_ps) kept = add_bucket(at_ps);
    bucket(kept).numbers.push_back(number);
  }

  // Takes some of those of next_ps() out, into a list that was empty; the same time may come again.
  void pop(std::vector<int32_t>& out) {
    Bucket& next = bucket(heap_.top().second);
    free_.push_back(heap_.top().second);
    heap_.pop();
    out.swap(next.numbers);
    next.at_ps = kGone;
  }

 private:
  static constexpr int64_t kGone = -1;
  static constexpr uint64_t kMix = 0x9e3779b97f4a7c15;
  static constexpr int kShift = 58;
  struct Bucket {
    int64_t at_ps = kGone;
    std::vector<int32_t> numbers;
  };

  Bucket& bucket(int32_t number) { return buckets_[static_cast<size_t>(number)]; }

  int32_t add_bucket(int64_t at_ps) {
    auto number = static_cast<int32_t>(buckets_.size());
    if (free_.empty()) {
      buckets_.emplace_back();
    } else {
      number = free_.back();
      free_.pop_back();
    }
    bucket(number).at_ps = at_ps;
    heap_.emplace(at_ps, number);
    return number;
  }

  std::vector<Bucket> buckets_;
  std::vector<int32_t> free_;
  using Entry = std::pair<int64_t, int32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
  // Buckets of times that were lately pushed, by hashes of them: where another time has taken its place, a
  // time gets a second bucket.
  std::array<int32_t, 64> kept_ = [] {
    std::array<int32_t, 64> none{};
    none.fill(-1);
    return none;
  }();
};

}  // namespace opentrn::collectives
