#include "base/random.h"

#include <gtest/gtest.h>

namespace opentrn {
namespace {

// First outputs for seed 1234567, from the published SplitMix64 reference.
TEST(SplitMix64, MatchesThePublishedSequence) {
  SplitMix64 rng(1234567);
  EXPECT_EQ(rng.next(), 6457827717110365317u);
  EXPECT_EQ(rng.next(), 3203168211198807973u);
  EXPECT_EQ(rng.next(), 9817491932198370423u);
}

TEST(SplitMix64, BelowStaysBelow) {
  SplitMix64 rng(1);
  for (int i = 0; i < 1000; ++i) EXPECT_LT(rng.below(7), 7u);
}

}  // namespace
}  // namespace opentrn
