#include "numerics/xorwow.h"

#include <vector>

#include <gtest/gtest.h>

namespace opentrn::numerics {
namespace {

// Marsaglia's xorwow written out with his variables and seeds (Journal of Statistical Software 8/14).
TEST(Xorwow, FollowsMarsagliasDefinition) {
  uint32_t x = 123456789, y = 362436069, z = 521288629, w = 88675123, v = 5783321, d = 6615241;
  Xorwow generator;
  for (int i = 0; i < 1000; ++i) {
    const uint32_t t = (x ^ (x >> 2));
    x = y, y = z, z = w, w = v;
    v = (v ^ (v << 4)) ^ (t ^ (t << 1));
    ASSERT_EQ(generator.next(), (d += 362437) + v);
  }
  EXPECT_EQ(generator.state(), (Xorwow::State{x, y, z, w, v, d}));
}

TEST(Xorwow, FirstValuesAreKnown) {
  Xorwow generator;
  EXPECT_EQ(generator.next(), 246875399u);
}

TEST(VectorXorwow, ASavedStateGoesOnAlike) {
  VectorXorwow generator = VectorXorwow::from_seed(42, 3);
  std::vector<uint32_t> skipped(7), first(20), second(20);
  generator.fill(skipped.data(), skipped.size());
  VectorXorwow restored(generator.state());
  generator.fill(first.data(), first.size());
  restored.fill(second.data(), second.size());
  EXPECT_EQ(first, second);
}

TEST(VectorXorwow, LanesAndSeedsDiffer) {
  EXPECT_NE(VectorXorwow::from_seed(1, 0).next(), VectorXorwow::from_seed(1, 1).next());
  EXPECT_NE(VectorXorwow::from_seed(1, 0).next(), VectorXorwow::from_seed(2, 0).next());
}

TEST(Dropout, ProbabilityZeroKeepsAllAndOneDropsAll) {
  const uint32_t random[] = {0, 0xffffffff, 0x80000000};
  const float in[] = {1, -2, 3};
  float out[3];
  dropout_row(in, random, 0.0f, out, 3);
  EXPECT_EQ(std::vector<float>(out, out + 3), std::vector<float>(in, in + 3));
  dropout_row(in, random, 1.0f, out, 3);
  EXPECT_EQ(std::vector<float>(out, out + 3), std::vector<float>(3, 0.0f));
}

TEST(Uniform, StaysWithinItsRange) {
  const uint32_t random[] = {0, 0xffffffff};
  float out[2];
  uniform_row(random, -1, 3, out, 2);
  EXPECT_EQ(out[0], -1);
  EXPECT_LT(out[1], 3);
  EXPECT_GT(out[1], 2.999f);
}

TEST(Dropout, DropsAboutTheAskedShare) {
  Xorwow generator = Xorwow::from_seed(7, 0);
  const size_t n = 100000;
  std::vector<uint32_t> random(n);
  generator.fill(random.data(), n);
  std::vector<float> in(n, 1.0f), out(n);
  dropout_row(in.data(), random.data(), 0.3f, out.data(), n);
  double kept = 0;
  for (const float x : out) kept += x;
  EXPECT_NEAR(kept / n, 0.7, 0.006);  // 4 standard deviations
}

}  // namespace
}  // namespace opentrn::numerics
