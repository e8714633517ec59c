// What colour refinement is made of: signatures, their numbers, and sums that are compared without them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace opentrn::collectives {

inline uint64_t mixed(uint64_t value) {  // the finalizer of SplitMix64
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}
// Two numbers from 0 to 2^32 - 1 as one. The two-argument form below takes many pairs of small ones for
// equal.
inline uint64_t pair_of(int32_t a, int32_t b) {
  return static_cast<uint64_t>(a) << 32 | static_cast<uint32_t>(b);
}
// Half of that, of two: what hashes miss, the check of the classes finds.
inline uint64_t mixed(uint64_t a, uint64_t b) {
  const uint64_t value = (a ^ (b + 0x9e3779b97f4a7c15)) * 0xbf58476d1ce4e5b9;
  return (value ^ (value >> 29)) * 0x94d049bb133111eb;
}

// Signatures as numbers from 0, in order of first appearance; how many there are.
inline int32_t number(std::span<const uint64_t> signatures, std::vector<int32_t>& ids) {
  size_t slots = 16;
  while (slots < 2 * signatures.size()) slots *= 2;
  std::vector<int32_t> table(slots, -1);
  std::vector<uint64_t> known;
  ids.resize(signatures.size());
  for (size_t i = 0; i < signatures.size(); ++i) {
    size_t at = signatures[i] & (slots - 1);
    while (table[at] >= 0 && known[static_cast<size_t>(table[at])] != signatures[i])
      at = (at + 1) & (slots - 1);
    if (table[at] < 0) {
      table[at] = static_cast<int32_t>(known.size());
      known.push_back(signatures[i]);
    }
    ids[i] = table[at];
  }
  return static_cast<int32_t>(known.size());
}

using Counts = std::vector<std::pair<int32_t, int64_t>>;  // of a class

// Sums up by class.
class Summer {
 public:
  explicit Summer(int32_t classes) : sums_(static_cast<size_t>(classes)) {}
  void add(int32_t of, int64_t value) {
    int64_t& sum = sums_[static_cast<size_t>(of)];
    if (sum == 0) touched_.push_back(of);
    sum += value;
  }
  // In order of first appearance.
  void read(Counts& out) const {
    out.clear();
    for (const int32_t of : touched_) out.emplace_back(of, sums_[static_cast<size_t>(of)]);
  }
  // Whatever the order.
  bool equals(const Counts& counts) const {
    return counts.size() == touched_.size() && std::ranges::all_of(counts, [&](const auto& count) {
             return sums_[static_cast<size_t>(count.first)] == count.second;
           });
  }
  void clear() {
    for (const int32_t of : touched_) sums_[static_cast<size_t>(of)] = 0;
    touched_.clear();
  }

 private:
  std::vector<int64_t> sums_;
  std::vector<int32_t> touched_;
};

inline std::vector<int32_t> first_of_each(const std::vector<int32_t>& ids, int32_t classes) {
  std::vector<int32_t> first(static_cast<size_t>(classes), -1);
  for (size_t i = 0; i < ids.size(); ++i)
    if (int32_t& at = first[static_cast<size_t>(ids[i])]; at < 0) at = static_cast<int32_t>(i);
  return first;
}

}  // namespace opentrn::collectives
