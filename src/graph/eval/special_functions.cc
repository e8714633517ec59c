#include "graph/eval/special_functions.h"

#include <math.h>  // lgamma_r: lgamma writes a global

#include <cmath>
#include <limits>
#include <numbers>

namespace opentrn::graph::eval {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Bernoulli numbers B2, B4, ... of the asymptotic expansions below.
constexpr double kBernoulli[] = {1.0 / 6,       -1.0 / 30, 1.0 / 42,      -1.0 / 30,     5.0 / 66,
                                 -691.0 / 2730, 7.0 / 6,   -3617.0 / 510, 43867.0 / 798, -174611.0 / 330};

}  // namespace

double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

// psi(x) = ln x - 1/(2x) - sum B2k / (2k x^2k) for large x; the recurrence brings x there, the reflection
// formula makes it positive.
double digamma(double x) {
  if (std::isnan(x) || x == -kInfinity) return kNan;
  if (x <= 0 && x == std::floor(x)) return kNan;
  if (x < 0) {
    // The fraction keeps the tangent exact for large |x|.
    const double fraction = x - std::floor(x);
    return digamma(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * fraction);
  }
  double shift = 0;
  for (; x < 12; x += 1) shift -= 1 / x;
  if (std::isinf(x)) return x;
  const double square = 1 / (x * x);
  double series = 0;
  for (int k = 8; k >= 1; --k) series = (series + kBernoulli[k - 1] / (2 * k)) * square;
  return shift + std::log(x) - 0.5 / x - series;
}

// Euler and Maclaurin: the first terms one by one, then the integral and its corrections.
double hurwitz_zeta(double s, double q) {
  if (std::isnan(s) || std::isnan(q) || s < 1) return kNan;
  if (s == 1) return kInfinity;
  if (q <= 0) {
    if (q == std::floor(q)) return kInfinity;
    if (s != std::floor(s)) return kNan;  // a fractional power of a negative number
  }
  constexpr int kTerms = 10;
  double sum = 0;
  double at = q;
  for (int k = 0; k < kTerms || at <= 9; ++k, at += 1) {
    const double term = std::pow(at, -s);
    sum += term;
    if (std::fabs(term) < std::fabs(sum) * 1e-17) return sum;
  }
  sum += std::pow(at, 1 - s) / (s - 1) + 0.5 * std::pow(at, -s);
  // B2k / (2k)! * s (s+1) ... (s+2k-2) * at^(-s-2k+1)
  double factor = s;
  double power = std::pow(at, -s - 1);
  double factorial = 2;
  for (int k = 1; k <= 10; ++k) {
    const double term = kBernoulli[k - 1] / factorial * factor * power;
    sum += term;
    if (std::fabs(term) < std::fabs(sum) * 1e-17) break;
    factor *= (s + 2 * k - 1) * (s + 2 * k);
    power /= at * at;
    factorial *= (2.0 * k + 1) * (2.0 * k + 2);
  }
  return sum;
}

double polygamma(double order, double x) {
  if (order < 0 || order != std::floor(order)) return kNan;
  if (order == 0) return digamma(x);
  const double sign = std::fmod(order, 2) == 0 ? -1 : 1;
  return sign * std::exp(log_gamma(order + 1)) * hurwitz_zeta(order + 1, x);
}

double bessel_i1e(double x) {
  const double magnitude = std::fabs(x);
  if (std::isnan(x)) return x;
  if (std::isinf(x)) return 0;
  double value = 0;
  if (magnitude <= 30) {  // all terms of the power series are positive
    const double quarter = magnitude * magnitude / 4;
    double term = magnitude / 2;
    for (int k = 1; term > value * 1e-17; ++k) {
      value += term;
      term *= quarter / (static_cast<double>(k) * (k + 1));
    }
    value *= std::exp(-magnitude);
  } else {  // asymptotic; its smallest term is near exp(-2x)
    double term = 1;
    for (int k = 1; std::fabs(term) > 1e-17; ++k) {
      value += term;
      const double odd = 2.0 * k - 1;
      term *= -(4 - odd * odd) / (8 * magnitude * k);
    }
    value /= std::sqrt(2 * std::numbers::pi * magnitude);
  }
  return x < 0 ? -value : value;
}

// A rough start (Winitzki's formula), then Newton's method on log(erfc), which converges from anywhere in
// the tail, or on erf near zero.
double inverse_erf(double y) {
  if (std::isnan(y) || std::fabs(y) > 1) return kNan;
  if (std::fabs(y) == 1) return std::copysign(kInfinity, y);
  if (y == 0) return y;
  const double magnitude = std::fabs(y);
  const double tail = 1 - magnitude;  // exact for magnitude >= 0.5
  constexpr double kA = 0.147;
  const double log_term = std::log(tail) + std::log1p(magnitude);
  const double half = 2 / (std::numbers::pi * kA) + log_term / 2;
  double x = std::sqrt(std::sqrt(half * half - log_term / kA) - half);
  const double slope = 2 / std::sqrt(std::numbers::pi);
  for (int step = 0; step < 6; ++step) {
    const double density = slope * std::exp(-x * x);
    if (magnitude < 0.5) {
      const double error = std::erf(x) - magnitude;
      x -= error / (density * (1 + x * error / density));
    } else {
      const double rest = std::erfc(x);
      x += std::log(rest / tail) * rest / density;
    }
  }
  return std::copysign(x, y);
}

}  // namespace opentrn::graph::eval
