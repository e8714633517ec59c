#include "serving/metrics.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/fault.h"
#include "serving/text.h"

namespace opentrn::serving {

void Distribution::add(double value, int64_t times) {
  count_ += times;
  sum_ += value * static_cast<double>(times);
  if (!values_.empty() && values_.back().first == value && !sorted_) {
    values_.back().second += times;
    return;
  }
  values_.emplace_back(value, times);
  sorted_ = false;
}

double Distribution::mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

double Distribution::percentile(double percent) const {
  OPENTRN_CHECK(count_ > 0, "a percentile of nothing");
  if (!sorted_) {
    std::sort(values_.begin(), values_.end());
    sorted_ = true;
  }
  const double place = percent / 100 * static_cast<double>(count_ - 1);
  const auto below = static_cast<int64_t>(std::floor(place));
  int64_t passed = 0;
  for (size_t i = 0; i < values_.size(); ++i) {
    passed += values_[i].second;
    if (below >= passed) continue;
    const double low = values_[i].first;
    const double high = below + 1 < passed || i + 1 == values_.size() ? low : values_[i + 1].first;
    return low + (high - low) * (place - static_cast<double>(below));
  }
  return values_.back().first;
}

double ttft_ms(const Request& request) { return milliseconds(request.first_token - request.arrival); }

double tpot_ms(const Request& request) {
  if (request.output_tokens < 2) return 0;
  return milliseconds(request.last_token - request.first_token) / (request.output_tokens - 1);
}

double e2e_ms(const Request& request) { return milliseconds(request.last_token - request.arrival); }

bool Slo::kept_by(const Request& request) const {
  return (!ttft_ms || serving::ttft_ms(request) <= *ttft_ms) &&
         (!tpot_ms || serving::tpot_ms(request) <= *tpot_ms) &&
         (!e2e_ms || serving::e2e_ms(request) <= *e2e_ms);
}

Slo Slo::parse(const std::string& text) {
  Slo out;
  for (const std::string_view item : split(text, ',')) {
    const size_t equals = item.find('=');
    const std::string_view key = trimmed(item.substr(0, equals));
    const auto value =
        equals == std::string_view::npos ? std::nullopt : number_of(trimmed(item.substr(equals + 1)));
    auto* limit = key == "ttft"   ? &out.ttft_ms
                  : key == "tpot" ? &out.tpot_ms
                  : key == "e2e"  ? &out.e2e_ms
                                  : nullptr;
    if (limit == nullptr || !value || *value <= 0 || *limit)
      throw Fault(FaultKind::kInput, "serving.slo", fmt::format("'{}' is not a limit of a request", item),
                  "milliseconds of ttft, tpot or e2e, each once: ttft=500,tpot=50");
    *limit = value;
  }
  return out;
}

void StepTotals::add(const StepRecord& r) {
  ++steps;
  tokens += r.tokens;
  padded_tokens += r.padded_tokens;
  busy += r.end - r.start;
  end = std::max(end, r.end);
  if (r.phase == Phase::kPrefill) {
    ++prefill_steps;
    prefill_tokens += r.tokens;
    prefill_padded_tokens += r.padded_tokens;
  } else if (r.phase == Phase::kDecode) {
    ++decode_steps;
    decode_rows += r.tokens;
    decode_padded_rows += r.padded_tokens;
  } else {
    ++mixed_steps;
  }
}

void StepTotals::add(const StepTotals& o) {
  steps += o.steps;
  prefill_steps += o.prefill_steps;
  decode_steps += o.decode_steps;
  mixed_steps += o.mixed_steps;
  tokens += o.tokens;
  padded_tokens += o.padded_tokens;
  prefill_tokens += o.prefill_tokens;
  prefill_padded_tokens += o.prefill_padded_tokens;
  decode_rows += o.decode_rows;
  decode_padded_rows += o.decode_padded_rows;
  busy += o.busy;
  end = std::max(end, o.end);
}

void Summary::add(const Request& request, const Slo& slo) {
  first_arrival = requests == 0 ? request.arrival : std::min(first_arrival, request.arrival);
  ++requests;
  if (request.finish == Finish::kRefused) {
    ++refused;
    return;
  }
  if (!request.finished() || request.output_tokens == 0) return;
  ++completed;
  prompt_tokens += request.prompt_tokens;
  output_tokens += request.output_tokens;
  prefix_hit_tokens += request.prefix_hit_tokens;
  preemptions += request.preemptions;
  makespan = std::max(makespan, request.last_token);
  ttft_ms.add(serving::ttft_ms(request));
  e2e_ms.add(serving::e2e_ms(request));
  queue_ms.add(milliseconds(request.first_scheduled - request.arrival));
  if (request.output_tokens > 1) tpot_ms.add(serving::tpot_ms(request));
  if (slo.given() && slo.kept_by(request)) ++good;
}

}  // namespace opentrn::serving
