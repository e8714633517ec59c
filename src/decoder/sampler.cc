#include "decoder/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::decoder {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

void expect(bool condition, const char* name, double value, const char* range) {
  if (condition) return;
  throw Fault(FaultKind::kInput, "decoder.sampling", fmt::format("{} is {}", name, value), range);
}

size_t index(int32_t token, size_t vocabulary) {
  expect(token >= 0 && static_cast<size_t>(token) < vocabulary, "a token", token, "one of the vocabulary");
  return static_cast<size_t>(token);
}

void expect_finite(std::span<const float> logits) {
  if (std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); })) return;
  throw Fault(FaultKind::kInput, "decoder.overflow",
              "the logits are not finite: a value of the model overflowed",
              "dtype bf16 or f32, which have a larger range than f16");
}

std::vector<float> masked(const SamplingParams& params, std::span<const float> logits,
                          std::span<const uint32_t> mask) {
  std::vector<float> out(logits.begin(), logits.end());
  if (!mask.empty()) {
    expect(mask.size() * 32 >= out.size(), "words of the mask", static_cast<double>(mask.size()),
           "one for 32 tokens");
    for (size_t i = 0; i < out.size(); ++i)
      if ((mask[i / 32] >> (i % 32) & 1) == 0) out[i] = kNever;
  }
  for (const auto& [token, bias] : params.bias) out[index(token, out.size())] += bias;
  return out;
}

void penalise(const SamplingParams& params, std::span<const int32_t> prompt, std::span<const int32_t> output,
              std::vector<float>& logits) {
  if (params.repetition_penalty == 1 && params.frequency_penalty == 0 && params.presence_penalty == 0) return;
  std::unordered_map<int32_t, int32_t> given;  // times in the output; 0: of the prompt alone
  for (const int32_t token : prompt) given.try_emplace(token, 0);
  for (const int32_t token : output) ++given[token];
  for (const auto& [token, times] : given) {
    float& logit = logits[index(token, logits.size())];
    const auto repetition = static_cast<float>(params.repetition_penalty);
    logit = logit > 0 ? logit / repetition : logit * repetition;
    logit -= static_cast<float>(params.frequency_penalty) * static_cast<float>(times);
    if (times > 0) logit -= static_cast<float>(params.presence_penalty);
  }
}

using Candidate = std::pair<int32_t, double>;  // a token, and its logit or weight

bool likelier(const Candidate& a, const Candidate& b) {
  return a.second != b.second ? a.second > b.second : a.first < b.first;
}

double sum_of(const std::vector<Candidate>& kept) {
  double sum = 0;
  for (const auto& [token, value] : kept) sum += value;
  return sum;
}

// Tokens as likely as the k-th stay with it, as in vLLM.
void keep_top_k(int32_t top_k, std::vector<Candidate>& kept) {
  const auto k = static_cast<size_t>(top_k);
  if (k == 0 || k >= kept.size()) return;
  auto by_value = kept;
  std::ranges::nth_element(by_value, by_value.begin() + static_cast<int64_t>(k - 1), likelier);
  std::erase_if(kept,
                [&, least = by_value[k - 1].second](const Candidate& item) { return item.second < least; });
}

// The fewest of the likeliest ones whose weights reach the part top_p of all, at least one; of equally likely
// ones the first.
void keep_top_p(double top_p, std::vector<Candidate>& kept) {
  auto by_value = kept;
  const double wanted = top_p * sum_of(kept);
  double passed = 0;
  size_t count = 0, sorted = 0;  // few are likely, and only so many are sorted
  while (count < by_value.size() && (count == 0 || passed < wanted)) {
    if (count == sorted) {
      const auto first = by_value.begin() + static_cast<int64_t>(sorted);
      sorted = std::min(by_value.size(), std::max<size_t>(64, 2 * sorted));
      const auto end = by_value.begin() + static_cast<int64_t>(sorted);
      if (end != by_value.end()) std::ranges::nth_element(first, end, by_value.end(), likelier);
      std::sort(first, end, likelier);
    }
    passed += by_value[count++].second;
  }
  std::erase_if(kept, [last = by_value[count - 1]](const Candidate& item) { return likelier(last, item); });
}

double log_sum(std::span<const float> logits) {
  const float most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  return most + std::log(sum);
}

}  // namespace

SampledToken scored(std::span<const float> logits, int32_t token, int32_t top) {
  expect_finite(logits);
  SampledToken out;
  out.token = token;
  const double whole = log_sum(logits);
  const float own = logits[index(token, logits.size())];
  out.logprob = own - whole;
  out.rank =
      static_cast<int32_t>(std::count_if(logits.begin(), logits.end(), [&](float l) { return l >= own; }));
  const auto count = std::min(static_cast<size_t>(top), logits.size());
  std::vector<int32_t> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  const auto likelier = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(count), order.end(), likelier);
  for (size_t i = 0; i < count; ++i)
    out.top.emplace_back(order[i], logits[static_cast<size_t>(order[i])] - whole);
  return out;
}

void check(const SamplingParams& p) {
  expect(p.temperature >= 0 && p.temperature <= 1e6, "temperature", p.temperature, "0, greedy, or more");
  expect(p.top_k >= 0, "top_k", p.top_k, "0, all, or more");
  expect(p.top_p > 0 && p.top_p <= 1, "top_p", p.top_p, "above 0, at most 1");
  expect(p.min_p >= 0 && p.min_p <= 1, "min_p", p.min_p, "0 to 1");
  expect(p.repetition_penalty > 0 && p.repetition_penalty <= 1e6, "repetition_penalty", p.repetition_penalty,
         "above 0; 1: none");
  expect(std::abs(p.frequency_penalty) <= 2, "frequency_penalty", p.frequency_penalty, "-2 to 2");
  expect(std::abs(p.presence_penalty) <= 2, "presence_penalty", p.presence_penalty, "-2 to 2");
  expect(p.logprobs >= -1, "logprobs", p.logprobs, "-1, none, or more");
}

std::vector<std::pair<int32_t, double>> candidates(const SamplingParams& params,
                                                   std::span<const float> logits,
                                                   std::span<const int32_t> prompt,
                                                   std::span<const int32_t> output,
                                                   std::span<const uint32_t> mask) {
  check(params);
  expect_finite(logits);
  std::vector<float> values = masked(params, logits, mask);
  penalise(params, prompt, output, values);
  std::vector<std::pair<int32_t, double>> kept;
  if (params.temperature == 0) {  // no list of what nobody draws from
    const auto first = std::max_element(values.begin(), values.end());
    expect(first != values.end() && *first > kNever, "tokens that are allowed", 0,
           "a grammar or bias that leaves one");
    return {{static_cast<int32_t>(first - values.begin()), 1.0}};
  }
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] > kNever) kept.emplace_back(static_cast<int32_t>(i), values[i]);
  expect(!kept.empty(), "tokens that are allowed", 0, "a grammar or bias that leaves one");
  keep_top_k(params.top_k, kept);
  const double most = std::ranges::max_element(kept, {}, &Candidate::second)->second;
  for (auto& [token, value] : kept)
    value = std::exp((value - most) / params.temperature);  // of the likeliest: 1
  std::erase_if(kept, [&](const Candidate& item) { return item.second < params.min_p; });
  if (params.top_p < 1) keep_top_p(params.top_p, kept);
  const double sum = sum_of(kept);
  for (auto& [token, value] : kept) value /= sum;
  return kept;
}

SampledToken sample(const SamplingParams& params, std::span<const float> logits,
                    std::span<const int32_t> prompt, std::span<const int32_t> output,
                    std::span<const uint32_t> mask, SplitMix64& random) {
  const auto kept = candidates(params, logits, prompt, output, mask);
  SampledToken out;
  out.token = kept.back().first;
  double place = random.uniform();
  for (const auto& [token, probability] : kept) {
    place -= probability;
    if (probability > 0) out.token = token;
    if (place < 0) break;
  }
  return params.logprobs < 0 ? out : scored(logits, out.token, params.logprobs);
}

}  // namespace opentrn::decoder
