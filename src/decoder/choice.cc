#include "decoder/choice.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::decoder {

namespace {

constexpr std::array<std::string_view, 4> kTexts{"host", "likeliest", "drawn", "drawn-truncated"};

// So cold that nothing but the largest logit is left, and finite for differences of logits.
constexpr double kColdest = 1e-30;

}  // namespace

std::string_view text(Choice choice) { return kTexts[static_cast<size_t>(choice)]; }

Choice choice_of_text(std::string_view text) {
  const auto at = std::ranges::find(kTexts, text);
  if (at == kTexts.end())
    throw Fault(FaultKind::kInput, "decoder.choice", fmt::format("{} is no way to choose a token", text),
                fmt::format("{}", fmt::join(kTexts, ", ")));
  return static_cast<Choice>(at - kTexts.begin());
}

Choice choice_of(const SamplingParams& p) {
  const bool is_free = p.repetition_penalty == 1 && p.frequency_penalty == 0 && p.presence_penalty == 0 &&
                       p.bias.empty() && p.logprobs < 0;
  if (!is_free) return Choice::kHost;
  if (p.temperature == 0) return Choice::kLikeliest;
  return p.top_k > 0 || p.top_p < 1 ? Choice::kDrawnTruncated : Choice::kDrawn;
}

Choice choice_for_all(std::span<const Choice> wanted, Choice most) {
  Choice choice = std::min(most, Choice::kLikeliest);
  for (const Choice own : wanted) {
    if (own == Choice::kHost || own > most) return Choice::kHost;
    choice = std::max(choice, own);
  }
  return choice;
}

bool is_token(int32_t token, float largest_logit, int64_t vocabulary) {
  return std::isfinite(largest_logit) && token < vocabulary;
}

int32_t expect_token(int32_t token, float largest_logit, int64_t vocabulary) {
  if (is_token(token, largest_logit, vocabulary)) return token;
  throw Fault(FaultKind::kInput, "decoder.overflow",
              "the logits are not finite: a value of the model overflowed",
              "--dtype bfloat16 or float32, which have a larger range than float16");
}

SamplingRow sampling_row(const SamplingParams& p, double point, int64_t vocabulary) {
  SamplingRow row{};
  // At 0 all but the largest logits have no weight, and the first of those passes 0.
  const bool is_greedy = p.temperature == 0;
  row[kInverseTemperature] = static_cast<float>(1 / std::max(p.temperature, kColdest));
  row[kMinP] = is_greedy ? 0.0F : static_cast<float>(p.min_p);
  const auto nearest = static_cast<float>(point);
  row[kPoint] = is_greedy ? 0.0F : nearest > point ? std::nextafter(nearest, 0.0F) : nearest;
  const bool is_cut = !is_greedy && p.top_k > 0 && p.top_k < vocabulary;
  row[kTopK] = static_cast<float>(is_cut ? p.top_k : vocabulary);
  row[kTopP] = is_greedy ? 1.0F : static_cast<float>(p.top_p);
  return row;
}

}  // namespace opentrn::decoder
