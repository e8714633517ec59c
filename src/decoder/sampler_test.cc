#include "decoder/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "base/fault.h"

namespace opentrn::decoder {
namespace {

struct Case {
  SamplingParams params;
  std::vector<float> logits;
  std::vector<int32_t> prompt, output;
  std::vector<uint32_t> mask;
};

Case random_case(SplitMix64& random) {
  Case c;
  const auto vocabulary = random.below(20) == 0 ? 61 + random.below(300) : 1 + random.below(60);
  // Few values: ties are frequent.
  for (uint32_t i = 0; i < vocabulary; ++i) c.logits.push_back(static_cast<float>(random.below(24)) / 4 - 3);
  for (uint32_t i = 0; i < random.below(20); ++i)
    c.prompt.push_back(static_cast<int32_t>(random.below(vocabulary)));
  for (uint32_t i = 0; i < random.below(20); ++i)
    c.output.push_back(static_cast<int32_t>(random.below(vocabulary)));
  SamplingParams& p = c.params;
  p.temperature = random.below(5) == 0 ? 0 : 0.25 * (1 + random.below(8));
  p.top_k = random.below(2) == 0 ? 0 : static_cast<int32_t>(1 + random.below(20));
  p.top_p = random.below(2) == 0 ? 1 : 0.05 + 0.9 * random.uniform();
  p.min_p = random.below(2) == 0 ? 0 : 0.5 * random.uniform();
  if (random.below(2) == 0) {
    p.repetition_penalty = 0.5 + random.uniform();
    p.frequency_penalty = random.uniform();
    p.presence_penalty = random.uniform();
  }
  if (random.below(2) == 0) {
    c.mask.assign(vocabulary / 32 + 1, random.next32() | 1);
    p.bias.emplace_back(0, 1.5F);
  }
  return c;
}

// Each token on its own, by what the words mean.
std::map<int32_t, double> slow(const Case& c) {
  const SamplingParams& p = c.params;
  std::vector<float> logits = c.logits;
  const size_t vocabulary = logits.size();
  const auto count = [](const std::vector<int32_t>& in, size_t token) {
    int32_t times = 0;
    for (const int32_t other : in) times += static_cast<size_t>(other) == token;
    return times;
  };
  std::vector<bool> allowed(vocabulary, true);
  for (size_t t = 0; t < vocabulary; ++t) {
    if (!c.mask.empty()) allowed[t] = c.mask[t / 32] & (1U << t % 32);
    for (const auto& [token, bias] : p.bias)
      if (static_cast<size_t>(token) == t) logits[t] += bias;
    const int32_t given = count(c.output, t);
    if (given + count(c.prompt, t) > 0) {
      const auto r = static_cast<float>(p.repetition_penalty);
      logits[t] = logits[t] > 0 ? logits[t] / r : logits[t] * r;
    }
    logits[t] -= static_cast<float>(p.frequency_penalty) * static_cast<float>(given);
    if (given > 0) logits[t] -= static_cast<float>(p.presence_penalty);
  }
  std::vector<double> weight(vocabulary, 0);
  double most = -1e30;
  for (size_t t = 0; t < vocabulary; ++t)
    if (allowed[t]) most = std::max(most, static_cast<double>(logits[t]));
  if (p.temperature == 0) {
    for (size_t t = 0;; ++t)
      if (allowed[t] && logits[t] == most) return {{static_cast<int32_t>(t), 1.0}};
  }
  for (size_t t = 0; t < vocabulary; ++t)
    if (allowed[t]) weight[t] = std::exp((logits[t] - most) / p.temperature);
  for (double& w : weight)
    if (w < p.min_p) w = 0;
  const std::vector<double> before = weight;
  for (size_t t = 0; t < vocabulary; ++t) {
    int32_t above = 0;
    for (const double other : before) above += other > before[t];
    if (p.top_k > 0 && above >= p.top_k) weight[t] = 0;
  }
  double sum = 0;
  for (const double w : weight) sum += w;
  if (p.top_p < 1) {
    // A token stays while those before it (likelier, or as likely and earlier) do not reach top_p.
    const std::vector<double> all = weight;
    for (size_t t = 0; t < vocabulary; ++t) {
      double ahead = 0;
      for (size_t o = 0; o < vocabulary; ++o)
        if (all[o] > all[t] || (all[o] == all[t] && o < t)) ahead += all[o];
      if (ahead > 0 && ahead >= p.top_p * sum) weight[t] = 0;
    }
    sum = 0;
    for (const double w : weight) sum += w;
  }
  std::map<int32_t, double> out;
  for (size_t t = 0; t < vocabulary; ++t)
    if (weight[t] > 0) out[static_cast<int32_t>(t)] = weight[t] / sum;
  return out;
}

TEST(Sampler, CandidatesAreThoseOfTheSlowOne) {
  SplitMix64 random(11);
  for (int round = 0; round < 5000; ++round) {
    const Case c = random_case(random);
    const auto expected = slow(c);
    const auto found = candidates(c.params, c.logits, c.prompt, c.output, c.mask);
    ASSERT_EQ(found.size(), expected.size()) << round;
    ASSERT_TRUE(std::ranges::is_sorted(found, {}, &std::pair<int32_t, double>::first)) << round;
    for (const auto& [token, probability] : found) {
      ASSERT_TRUE(expected.contains(token)) << round;
      ASSERT_NEAR(probability, expected.at(token), 1e-9) << round;
    }
  }
}

// Tokens come as often as they should: within five standard deviations.
TEST(Sampler, DrawsByProbability) {
  SplitMix64 random(3);
  for (int round = 0; round < 20; ++round) {
    const Case c = random_case(random);
    constexpr int kDraws = 4000;
    std::map<int32_t, int> drawn;
    for (int i = 0; i < kDraws; ++i)
      ++drawn[sample(c.params, c.logits, c.prompt, c.output, c.mask, random).token];
    const auto expected = slow(c);
    for (const auto& [token, times] : drawn) ASSERT_TRUE(expected.contains(token));
    for (const auto& [token, p] : expected)
      ASSERT_NEAR(drawn[token], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p)) + 1) << round;
  }
}

TEST(Sampler, LogProbabilitiesAreOfTheLogitsAsTheyCome) {
  SplitMix64 random(5);
  SamplingParams params;
  params.logprobs = 2;
  params.temperature = 0;
  params.bias.emplace_back(3, 100.0F);
  const std::vector<float> logits = {1, 2, 0, -1};
  const SampledToken token = sample(params, logits, {}, {}, {}, random);
  EXPECT_EQ(token.token, 3);
  EXPECT_EQ(token.rank, 4);
  const double whole = std::log(std::exp(1.0) + std::exp(2.0) + 1 + std::exp(-1.0));
  EXPECT_NEAR(token.logprob, -1 - whole, 1e-6);
  ASSERT_EQ(token.top.size(), 2u);
  EXPECT_EQ(token.top[0].first, 1);
  EXPECT_NEAR(token.top[1].second, 1 - whole, 1e-6);
}

TEST(Sampler, RefusesWhatIsNone) {
  const std::vector<float> logits = {1, 2};
  const std::vector<uint32_t> nothing = {0};
  EXPECT_THROW(candidates({}, logits, {}, {}, nothing), Fault);
  SamplingParams params;
  params.top_p = 0;
  EXPECT_THROW(check(params), Fault);
  params = {};
  params.temperature = -1;
  EXPECT_THROW(check(params), Fault);
  params = {};
  params.presence_penalty = 3;
  EXPECT_THROW(check(params), Fault);
  params = {};
  params.min_p = std::nan("");
  EXPECT_THROW(check(params), Fault);
  params = {};
  params.bias.emplace_back(2, 1.0F);
  EXPECT_THROW(candidates(params, logits, {}, {}), Fault);
}

TEST(Sampler, LogitsThatOverflowedAreRefused) {
  for (const float bad : {std::nanf(""), HUGE_VALF}) {
    const std::vector<float> logits = {1, bad};
    for (const double temperature : {0.0, 1.0}) try {
        candidates({.temperature = temperature}, logits, {}, {});
        ADD_FAILURE() << "no fault";
      } catch (const Fault& fault) {
        EXPECT_EQ(fault.label(), "decoder.overflow");
      }
  }
}

}  // namespace
}  // namespace opentrn::decoder
