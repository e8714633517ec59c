#include "decoder/sampler.h"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/fault.h"

namespace opentrn::decoder {
namespace {

const std::vector<float> kLogits{0.5F, 2.0F, -1.0F, 2.0F, 1.0F};

// How often each token comes in `count` draws of one sampler.
std::array<int, 5> drawn(const Sampling& sampling, int count) {
  Sampler sampler(sampling);
  std::array<int, 5> counts{};
  for (int i = 0; i < count; ++i) ++counts[static_cast<size_t>(sampler.next(kLogits))];
  return counts;
}

TEST(Sampler, GreedyTakesTheFirstOfTheLargest) { EXPECT_EQ(Sampler({}).next(kLogits), 1); }

TEST(Sampler, DrawsAsOftenAsSoftmaxSays) {
  const double temperature = 0.8;
  const auto counts = drawn({.temperature = temperature, .seed = 4}, 40000);
  double sum = 0;
  for (const float logit : kLogits) sum += std::exp(logit / temperature);
  for (size_t i = 0; i < 5; ++i) {
    const double share = std::exp(kLogits[i] / temperature) / sum;
    EXPECT_NEAR(counts[i] / 40000.0, share, 4 * std::sqrt(share / 40000));
  }
}

TEST(Sampler, LimitsLeaveTheLikeliest) {
  EXPECT_EQ(drawn({.temperature = 1, .top_k = 2}, 500)[4], 0);
  const auto by_mass = drawn({.temperature = 1, .top_p = 0.5}, 500);  // the first two have 0.69
  EXPECT_EQ(by_mass[1] + by_mass[3], 500);
  const auto by_share = drawn({.temperature = 1, .min_p = 0.3}, 2000);  // e^-1 = 0.37, e^-1.5 = 0.22
  EXPECT_EQ(by_share[0] + by_share[2], 0);
  EXPECT_GT(by_share[4], 0);
}

TEST(Sampler, OneSeedDrawsTheSame) {
  EXPECT_EQ(drawn({.temperature = 1, .seed = 9}, 100), drawn({.temperature = 1, .seed = 9}, 100));
  EXPECT_NE(drawn({.temperature = 1, .seed = 9}, 100), drawn({.temperature = 1, .seed = 8}, 100));
}

TEST(Sampler, RefusesWhatIsNoSamplingAndWhatOverflowed) {
  EXPECT_THROW(Sampler({.temperature = -1}), Fault);
  EXPECT_THROW(Sampler({.top_k = -1}), Fault);
  EXPECT_THROW(Sampler({.top_p = 0}), Fault);
  EXPECT_THROW(Sampler({.min_p = std::nan("")}), Fault);
  const std::vector<float> overflowed{1, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THROW(Sampler({}).next(overflowed), Fault);
}

}  // namespace
}  // namespace opentrn::decoder
