#include "decoder/sampler.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::decoder {

namespace {

[[noreturn]] void refuse_sampling(std::string message) {
  throw Fault(FaultKind::kInput, "decoder.sampling", std::move(message));
}

int32_t largest(std::span<const float> logits) {
  size_t best = 0;
  bool finite = true;
  for (size_t i = 0; i < logits.size(); ++i) {
    finite &= std::isfinite(logits[i]);
    if (logits[i] > logits[best]) best = i;
  }
  if (!finite)
    throw Fault(FaultKind::kInput, "decoder.overflow",
                "the logits are not finite: a value of the model overflowed",
                "dtype bf16 or f32, which have a larger range than f16");
  return static_cast<int32_t>(best);
}

}  // namespace

Sampler::Sampler(const Sampling& sampling) : sampling_(sampling), random_(sampling.seed) {
  if (!(sampling.temperature >= 0) || !std::isfinite(sampling.temperature))
    refuse_sampling(fmt::format("the temperature is {}; 0 and above are temperatures", sampling.temperature));
  if (sampling.top_k < 0) refuse_sampling(fmt::format("top-k is {}; 0 takes all", sampling.top_k));
  if (!(sampling.top_p > 0) || sampling.top_p > 1)
    refuse_sampling(fmt::format("top-p is {}; it is above 0 and at most 1", sampling.top_p));
  if (!(sampling.min_p >= 0) || sampling.min_p > 1)
    refuse_sampling(fmt::format("min-p is {}; it is 0 to 1", sampling.min_p));
}

int32_t Sampler::next(std::span<const float> logits) {
  if (logits.empty()) refuse_sampling("no logits");
  const int32_t likeliest = largest(logits);
  if (sampling_.temperature == 0) return likeliest;
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) candidates_.push_back({logits[i], static_cast<int32_t>(i)});
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  };
  size_t count = candidates_.size();
  if (sampling_.top_k > 0) count = std::min(count, static_cast<size_t>(sampling_.top_k));
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(count),
                    candidates_.end(), before);
  candidates_.resize(count);
  std::vector<double> shares;
  double sum = 0;
  for (const Candidate& candidate : candidates_) {
    const double above = static_cast<double>(candidate.logit) - static_cast<double>(candidates_[0].logit);
    shares.push_back(std::exp(above / sampling_.temperature));
    sum += shares.back();
  }
  size_t kept = 0;
  double mass = 0;
  while (kept < shares.size() && mass < sampling_.top_p * sum && shares[kept] >= sampling_.min_p * shares[0])
    mass += shares[kept++];
  // 53 bits, as many as a double holds.
  double place = static_cast<double>(random_.next() >> 11) * 0x1p-53 * mass;
  for (size_t i = 0; i + 1 < kept; ++i) {
    if (place < shares[i]) return candidates_[i].token;
    place -= shares[i];
  }
  return candidates_[kept == 0 ? 0 : kept - 1].token;
}

}  // namespace opentrn::decoder
