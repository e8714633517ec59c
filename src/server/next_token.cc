#include "server/next_token.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::server {

using decoder::Choice;

namespace {

// Whether all of a word but its last token are the newest tokens of the output.
bool has_begun(const std::vector<int32_t>& word, const std::vector<int32_t>& output) {
  const std::span before = std::span(word).first(word.size() - 1);
  return before.size() <= output.size() && std::ranges::equal(before, std::span(output).last(before.size()));
}

}  // namespace

decoder::SamplingParams sampling_of(const Job& job) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  decoder::SamplingParams params = job.sampling;
  if (job.output_tokens < job.min_tokens)
    for (const int32_t token : job.stop_tokens) params.bias.emplace_back(token, kNever);
  for (const std::vector<int32_t>& word : job.bad_words)
    if (!word.empty() && has_begun(word, job.output)) params.bias.emplace_back(word.back(), kNever);
  return params;
}

Choice choice_of(const Job& job) {
  const bool bounded = job.has_grammar || !job.mask.empty() || !job.allowed.empty();
  return bounded ? Choice::kHost : decoder::choice_of(sampling_of(job));
}

std::vector<uint32_t> both(std::vector<uint32_t> mask, const std::vector<uint32_t>& other) {
  if (mask.empty() || other.empty()) return mask.empty() ? other : mask;
  mask.resize(std::min(mask.size(), other.size()));
  for (size_t i = 0; i < mask.size(); ++i) mask[i] &= other[i];
  return mask;
}

std::vector<uint32_t> next_mask(const Job& job) { return both(job.mask, job.allowed); }

std::vector<uint32_t> mask_of(std::span<const int32_t> allowed, int64_t vocabulary) {
  if (allowed.empty()) return {};
  std::vector<uint32_t> mask(static_cast<size_t>((vocabulary + 31) / 32));
  for (const int32_t token : allowed) {
    if (token < 0 || token >= vocabulary)
      throw Fault(FaultKind::kInput, "decoder.sampling",
                  fmt::format("token {} is allowed; there are {}", token, vocabulary));
    mask[static_cast<size_t>(token) / 32] |= uint32_t{1} << (token % 32);
  }
  return mask;
}

bool scores_prompt(const serving::StepEntry& entry) {
  const Job& job = static_cast<const Job&>(*entry.request);
  const auto known = static_cast<int32_t>(job.prompt_scores.size());
  return job.prompt_logprobs >= 0 && known < job.prompt_tokens &&
         entry.computed_before + entry.tokens >= known;
}

void score_prompt(const serving::StepEntry& entry, std::span<const float> logits, int64_t vocabulary) {
  Job& job = static_cast<Job&>(*entry.request);
  const std::vector<int32_t>& prompt = job.content.tokens;
  const auto words = static_cast<size_t>(vocabulary);
  const auto before = static_cast<size_t>(entry.computed_before);
  if (job.prompt_scores.empty()) job.prompt_scores.push_back({prompt.front(), 0, 0, {}});
  try {
    for (size_t i = 0; i < static_cast<size_t>(entry.tokens); ++i) {
      const size_t next = before + i + 1;
      if (next != job.prompt_scores.size() || next >= prompt.size()) continue;
      job.prompt_scores.push_back(
          decoder::scored(logits.subspan(i * words, words), prompt[next], job.prompt_logprobs));
    }
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kInput) throw;
    job.failure = fault.message();
  }
}

std::vector<int32_t> tokens_of(const serving::StepEntry& entry) {
  const serving::Request& request = *entry.request;
  std::vector<int32_t> tokens(static_cast<size_t>(entry.tokens));
  for (int32_t i = 0; i < entry.tokens; ++i) {
    const int32_t at = entry.computed_before + i;
    const auto behind = static_cast<size_t>(std::max(at - request.prompt_tokens, 0));
    tokens[static_cast<size_t>(i)] =
        at < request.prompt_tokens       ? request.content.tokens[static_cast<size_t>(at)]
        : behind < request.output.size() ? request.output[behind]
                                         : request.drafts[behind - request.output.size()];
  }
  return tokens;
}

}  // namespace opentrn::server
