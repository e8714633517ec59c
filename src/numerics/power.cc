// 2^(y log2 x) in double with additions, multiplications and one division only, each rounded once, so
// no host's libm or contraction can change a bit. The product y log2 x is below 152 in size whenever
// the result is neither 0 nor infinity, and carries about 2^-52 of relative error: 2^-44 in the
// result, against the 2^-25 that decides an fp32 rounding.
#include "numerics/power.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace opentrn::numerics {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// 2 / ((2k + 1) ln 2): log2((1 + s) / (1 - s)) = sum over k of these times s^(2k + 1).
constexpr double kTwoOverLn2 = 2.8853900817779268;

// 1 / k, so that the loops divide nothing.
constexpr auto kInverse = [] {
  std::array<double, 25> inverse{};
  for (size_t k = 1; k < inverse.size(); ++k) inverse[k] = 1.0 / static_cast<double>(k);
  return inverse;
}();

// x > 0 and finite.
double log2_of(double x) {
  auto bits = std::bit_cast<uint64_t>(x);  // an fp32 number is never subnormal as a double
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  double sum = 0.0;
  for (int k = 11; k >= 1; --k) sum = (sum + kInverse[2 * k + 1]) * s2;
  return exponent + (s * kTwoOverLn2 + s * kTwoOverLn2 * sum);
}

// -160 < t < 160.
double exp2_of(double t) {
  const double whole = std::floor(t + 0.5);
  const double x = (t - whole) * 0.6931471805599453;
  double sum = 1.0;
  for (int k = 14; k >= 1; --k) sum = 1.0 + sum * (x * kInverse[k]);
  const auto field = static_cast<uint64_t>(static_cast<int64_t>(whole) + 1023);
  return sum * std::bit_cast<double>(field << 52);
}

bool is_integer_value(float y) { return std::trunc(y) == y; }
bool is_odd_integer(float y) {
  return is_integer_value(y) && std::fabs(y) < 0x1p24f && std::fmod(y, 2.0f) != 0.0f;
}

}  // namespace

float power(float x, float y) {
  if (y == 0.0f || x == 1.0f) return 1.0f;
  if (std::isnan(x) || std::isnan(y)) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = std::fabs(x);
  const float sign = std::signbit(x) && is_odd_integer(y) ? -1.0f : 1.0f;
  if (std::isinf(y)) {
    if (magnitude == 1.0f) return 1.0f;
    return (magnitude > 1.0f) == (y > 0.0f) ? kInf : 0.0f;
  }
  if (magnitude == 0.0f || std::isinf(magnitude))
    return sign * ((magnitude == 0.0f) == (y > 0.0f) ? 0.0f : kInf);
  if (x < 0.0f && !is_integer_value(y)) return std::numeric_limits<float>::quiet_NaN();
  const double t = y * log2_of(magnitude);
  if (t >= 129.0) return sign * kInf;
  if (t <= -151.0) return sign * 0.0f;
  return sign * static_cast<float>(exp2_of(t));
}

}  // namespace opentrn::numerics
