#include "collectives/interval_map.h"

#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace opentrn::collectives {
namespace {

TEST(IntervalMap, IsAnArrayOfBytes) {
  SplitMix64 random(1);
  constexpr int64_t kSize = 40;
  IntervalMap<int> map(kSize);
  std::vector<int> bytes(kSize, 0);
  for (int i = 0; i < 2000; ++i) {
    const auto a = static_cast<int64_t>(random.below(kSize + 1)),
               b = static_cast<int64_t>(random.below(kSize + 1));
    const int64_t begin = std::min(a, b), end = std::max(a, b);
    const int value = static_cast<int>(random.below(100));
    if (random.below(2) == 0) {
      map.assign(begin, end, value);
      for (int64_t at = begin; at < end; ++at) bytes[static_cast<size_t>(at)] = value;
    } else {
      map.visit(begin, end, [&](int64_t, int64_t, int& one) { one += value; });
      for (int64_t at = begin; at < end; ++at) bytes[static_cast<size_t>(at)] += value;
    }
    int64_t next = begin;
    map.look(begin, end, [&](int64_t from, int64_t to, const int& one) {
      EXPECT_EQ(from, next);
      next = to;
      for (int64_t at = from; at < to; ++at) EXPECT_EQ(bytes[static_cast<size_t>(at)], one);
    });
    EXPECT_EQ(next, end);
  }
  EXPECT_LE(map.segment_count(), static_cast<size_t>(kSize));
}

}  // namespace
}  // namespace opentrn::collectives
