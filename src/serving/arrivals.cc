#include "serving/arrivals.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/interrupt.h"
#include "base/random.h"

namespace opentrn::serving {
namespace {

constexpr int64_t kRequestsMax = 100'000'000;

void expect(bool condition, const std::string& why, const char* hint) {
  if (!condition) throw Fault(FaultKind::kInput, "serving.load", why, hint);
}

double exponential(SplitMix64& random) { return -std::log1p(-random.uniform()); }

double normal(SplitMix64& random) {
  const double radius = std::sqrt(2 * exponential(random));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

// Gamma with this shape and mean 1, by Marsaglia and Tsang (2000); shapes below 1 by their boost.
double gamma(SplitMix64& random, double shape) {
  const double boosted = shape < 1 ? shape + 1 : shape;
  const double d = boosted - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal(random);
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    const double u = random.uniform();
    if (std::log1p(-u) > 0.5 * x * x + d - d * v + d * std::log(v)) continue;
    double value = d * v;
    if (shape < 1) value *= std::exp(-exponential(random) / shape);
    return value / shape;
  }
}

int32_t length(SplitMix64& random, int32_t mean, double spread) {
  if (spread == 0) return mean;
  const double low = std::max(1.0, std::round(mean * (1 - spread))), high = std::round(mean * (1 + spread));
  return static_cast<int32_t>(low + std::floor(random.uniform() * (high - low + 1)));
}

}  // namespace

Trace synthetic_trace(const SyntheticLoad& load) {
  expect(load.requests >= 1 && load.requests <= kRequestsMax, fmt::format("{} requests", load.requests),
         "1 to 100000000");
  expect(load.per_second > 1e-6 && load.per_second < 1e9,
         fmt::format("{} requests a second", load.per_second), "more than 1e-6, and less than 1e9");
  expect(load.variation >= 0.01 && load.variation <= 100, fmt::format("a variation of {}", load.variation),
         "0.01 to 100; 1 is Poisson");
  expect(load.prompt_tokens >= 1 && load.output_tokens >= 1 && load.prompt_tokens <= 1 << 27 &&
             load.output_tokens <= 1 << 27,
         fmt::format("prompts of {} and answers of {} tokens", load.prompt_tokens, load.output_tokens),
         "1 to 134217728 of each");
  expect(load.spread >= 0 && load.spread <= 1, fmt::format("a spread of {}", load.spread), "0 to 1");
  expect(
      static_cast<double>(load.requests) / load.per_second < static_cast<double>(kPsMax) / kPsPerSecond / 4,
      "the load lasts longer than can be counted", "fewer requests, or more of them a second");
  SplitMix64 random(load.seed);
  Trace out;
  out.format = "synthetic";
  double at = 0;
  for (int64_t i = 0; i < load.requests; ++i) {
    interrupt::poll();
    if (i > 0) {
      double gap = 1;
      if (load.process == ArrivalProcess::kPoisson) gap = exponential(random);
      if (load.process == ArrivalProcess::kGamma) gap = gamma(random, 1 / (load.variation * load.variation));
      if (load.process != ArrivalProcess::kBurst) at += gap / load.per_second;
    }
    TraceRequest request;
    request.arrival = ps_of_seconds(at);
    request.prompt_tokens = length(random, load.prompt_tokens, load.spread);
    request.output_tokens = length(random, load.output_tokens, load.spread);
    out.requests.push_back(std::move(request));
  }
  return out;
}

}  // namespace opentrn::serving
