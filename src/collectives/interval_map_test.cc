#include "collectives/interval_map.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace opentrn::collectives {
namespace {

// Of a few segments, and of hundreds, which come and go.
class IntervalMapOf : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, IntervalMapOf, testing::Values(1, 40, 900));

TEST_P(IntervalMapOf, BytesIsAnArrayOfThem) {
  SplitMix64 random(1);
  const int64_t size = GetParam();
  IntervalMap<int> map(size);
  std::vector<int> bytes(static_cast<size_t>(size), 0);
  size_t most = 0;
  for (int i = 0; i < 4000; ++i) {
    // Mostly short ranges, so that there are many, and long ones now and then.
    const auto longest = static_cast<uint64_t>(random.below(50) == 0 ? size : std::min<int64_t>(size, 20));
    const auto a = static_cast<int64_t>(random.below(static_cast<uint64_t>(size) + 1)),
               b = std::min(size, a + static_cast<int64_t>(random.below(longest + 1)));
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
    most = std::max(most, map.segment_count());
  }
  EXPECT_LE(most, static_cast<size_t>(size));
  EXPECT_GE(most, static_cast<size_t>(size / 5));
}

}  // namespace
}  // namespace opentrn::collectives
