// Stretches of time that may overlap, and how long at least one of them lasts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace opentrn::profile {

struct Interval {
  double begin = 0;
  double end = 0;
  int64_t times = 1;  // as trace::Event::times; those that overlap have the same
};
using Intervals = std::vector<Interval>;

// Sorted and without overlap.
inline void unite(Intervals& intervals) {
  std::ranges::sort(intervals, {}, [](const Interval& i) { return std::pair(i.begin, i.end); });
  size_t kept = 0;
  for (const Interval& next : intervals) {
    if (kept > 0 && next.begin <= intervals[kept - 1].end && next.times == intervals[kept - 1].times)
      intervals[kept - 1].end = std::max(intervals[kept - 1].end, next.end);
    else
      intervals[kept++] = next;
  }
  intervals.resize(kept);
}

// Of what unite() made.
inline double length(const Intervals& intervals) {
  double sum = 0;
  for (const Interval& i : intervals) sum += static_cast<double>(i.times) * (i.end - i.begin);
  return sum;
}

}  // namespace opentrn::profile
