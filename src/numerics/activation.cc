#include "numerics/activation.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace opentrn::numerics {
namespace {

using std::numbers::pi;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * pi); }
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
// Derivative of x * sigmoid(c x).
double gated_derivative(double x, double c) { return sigmoid(c * x) * (1 + c * x * sigmoid(-c * x)); }

// The documented extrapolation: the cubic of sin around pi.
double hardware_sin(double x) {
  if (std::fabs(x) <= pi) return std::sin(x);
  const double d = std::fabs(x) - pi;
  return std::copysign(1.0, x) * (d * d * d / 6 - d);
}

double of_number(ActivationFunction function, double x, double param) {
  switch (function) {
    case ActivationFunction::kCopy: return x;
    case ActivationFunction::kSquare: return x * x;
    case ActivationFunction::kSigmoid: return sigmoid(x);
    case ActivationFunction::kRelu: return x > 0 ? x : 0;
    case ActivationFunction::kPrelu: return x >= 0 ? x : param * x;
    case ActivationFunction::kGelu: return x * normal_cdf(x);
    case ActivationFunction::kGeluDx: return normal_cdf(x) + x * normal_density(x);
    case ActivationFunction::kGeluApprxTanh:
      return x * sigmoid(2 * std::sqrt(2 / pi) * (x + 0.044715 * x * x * x));
    case ActivationFunction::kGeluApprxSigmoid: return x * sigmoid(1.702 * x);
    case ActivationFunction::kGeluApprxSigmoidDx: return gated_derivative(x, 1.702);
    case ActivationFunction::kSilu: return x * sigmoid(x);
    case ActivationFunction::kSiluDx: return gated_derivative(x, 1);
    case ActivationFunction::kTanh: return std::tanh(x);
    case ActivationFunction::kSoftplus: return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x)));
    case ActivationFunction::kMish:
      return x * std::tanh(std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))));
    case ActivationFunction::kErf: return std::erf(x);
    case ActivationFunction::kErfDx: return std::numbers::inv_sqrtpi * 2 * std::exp(-x * x);
    case ActivationFunction::kExp: return std::exp(x);
    case ActivationFunction::kSign: return (x > 0) - (x < 0);
    case ActivationFunction::kAbs: return std::fabs(x);
    case ActivationFunction::kLog: return std::log(x);
    case ActivationFunction::kSin: return hardware_sin(x);
    case ActivationFunction::kArctan: return std::atan(x);
    case ActivationFunction::kSqrt: return std::sqrt(x);
    case ActivationFunction::kRsqrt: return 1 / std::sqrt(x);
    case ActivationFunction::kReciprocal: return 1 / x;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

// Limits at minus infinity that the formulas above turn into 0 times infinity.
bool vanishes_at_minus_infinity(ActivationFunction function) {
  switch (function) {
    case ActivationFunction::kGelu:
    case ActivationFunction::kGeluDx:
    case ActivationFunction::kGeluApprxTanh:
    case ActivationFunction::kGeluApprxSigmoid:
    case ActivationFunction::kGeluApprxSigmoidDx:
    case ActivationFunction::kSilu:
    case ActivationFunction::kSiluDx:
    case ActivationFunction::kMish: return true;
    default: return false;
  }
}

bool is_one_at_infinity(ActivationFunction function) {
  return function == ActivationFunction::kGeluDx || function == ActivationFunction::kGeluApprxSigmoidDx ||
         function == ActivationFunction::kSiluDx;
}

}  // namespace

double activation_reference(ActivationFunction function, double x, double param) {
  if (std::isinf(x) && x < 0 && vanishes_at_minus_infinity(function)) return 0;
  if (std::isinf(x) && x > 0 && is_one_at_infinity(function)) return 1;
  if (std::isinf(x) && function == ActivationFunction::kSin) return x;
  return of_number(function, x, param);
}

double activation_error_ulp(ActivationFunction function) {
  switch (function) {
    case ActivationFunction::kCopy:
    case ActivationFunction::kSign:
    case ActivationFunction::kAbs:
    case ActivationFunction::kRelu: return 0;
    case ActivationFunction::kSquare:
    case ActivationFunction::kPrelu:
    case ActivationFunction::kSqrt:
    case ActivationFunction::kReciprocal: return 0.5;
    case ActivationFunction::kExp:
    case ActivationFunction::kLog: return 1;
    case ActivationFunction::kArctan:
    case ActivationFunction::kTanh:
    case ActivationFunction::kErf:
    case ActivationFunction::kRsqrt: return 2;
    case ActivationFunction::kErfDx:
    case ActivationFunction::kSigmoid:
    case ActivationFunction::kSin:
    case ActivationFunction::kSoftplus: return 2.5;
    case ActivationFunction::kGeluApprxTanh:
    case ActivationFunction::kGeluApprxSigmoid:
    case ActivationFunction::kSilu:
    case ActivationFunction::kMish: return 4;
    case ActivationFunction::kGelu: return 5;  // left of -1
    case ActivationFunction::kGeluDx: return 3;
    case ActivationFunction::kGeluApprxSigmoidDx:
    case ActivationFunction::kSiluDx: return 5.5;
  }
  return 0;
}

double activation_error_floor(ActivationFunction function, double x) {
  const bool crosses_zero = function == ActivationFunction::kGeluDx ||
                            function == ActivationFunction::kGeluApprxSigmoidDx ||
                            function == ActivationFunction::kSiluDx;
  if (function == ActivationFunction::kSin && std::fabs(x) > pi) {
    const double d = std::fabs(x) - pi;
    return 2 * std::fmax(d, d * d * d / 6);  // twice, as cubing triples the error of d
  }
  return crosses_zero && x > -3 && x < 0 ? 0.25 : 0;
}

bool ValidRange::contains(float x) const {
  const float y = magnitude ? std::fabs(x) : x;
  return min <= y && y <= max;
}

// Source: nki/api/nki.api.shared.rst, table "Supported Activation Functions", column "Valid Input Range".
ValidRange valid_range(ActivationFunction function) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr auto kPi = std::numbers::pi_v<float>;
  switch (function) {
    case ActivationFunction::kLog: return {0x1p-64f, 0x1p64f};
    case ActivationFunction::kSin: return {-kPi, kPi};
    case ActivationFunction::kArctan: return {-kPi / 2, kPi / 2};
    case ActivationFunction::kSqrt: return {0x1p-116f, 0x1p118f};
    case ActivationFunction::kRsqrt: return {0x1p-87f, 0x1p97f};
    case ActivationFunction::kReciprocal: return {0x1p-42f, 0x1p42f, true};
    default: return {-kInf, kInf};
  }
}

}  // namespace opentrn::numerics
