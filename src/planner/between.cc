#include "planner/between.h"

#include <algorithm>
#include <cmath>

namespace opentrn::planner {
namespace {

// Standard deviations from the middle to the ends of what four in five lie between.
constexpr double kEightyPercent = 1.2816;

double normal(SplitMix64& random) {  // Box and Muller
  const double radius = std::sqrt(-2 * std::log1p(-random.uniform()));
  return radius * std::cos(2 * M_PI * random.uniform());
}

}  // namespace

double sample(const Between& value, SplitMix64& random) {
  const double z = normal(random) / kEightyPercent;
  if (value.value <= 0) return value.value;
  return value.value * std::pow(z < 0 ? value.value / value.low : value.high / value.value, z);
}

Between summary_of(double value, std::vector<double>& samples) {
  std::ranges::sort(samples);
  return {value, samples[samples.size() / 10], samples[samples.size() - 1 - samples.size() / 10]};
}

}  // namespace opentrn::planner
