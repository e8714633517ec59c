// Inverse circular functions, hyperbolic functions and their inverses, by the arctangent, exp, log1p and
// sqrt. Every formula keeps small results exact; tests/compiler/test_special_functions.py states the largest
// errors.
#include <limits>
#include <numbers>

#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"

namespace opentrn::compiler {

namespace {

constexpr double kHalfTurn = std::numbers::pi;
constexpr double kLn2 = std::numbers::ln2;
constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
// Where x^2 and x^2 + 1 are one number, and x^2 is no infinity yet.
constexpr double kLarge = 1e9;

Expr arctangent(const Expr& x) { return x.unary(OpKind::chlo_atan_); }

// Half the angle whose cosine is x, for 0 <= x <= 1.
Expr half_arc(const Expr& x) { return arctangent(sqrt((1.0 - x) / (x + 1.0))); }

Expr with_sign_of(const Expr& magnitude, const Expr& x) {
  return select(is_negative(x), -magnitude, magnitude);
}

Expr arcsine(const Expr& x) {
  const Expr a = abs(x);
  const Expr near = arctangent(a / sqrt((1.0 - a) * (a + 1.0)));
  const Expr far = kHalfTurn / 2 - half_arc(a) * 2.0;
  return with_sign_of(select(a < 0.5, near, far), x);
}

Expr arccosine(const Expr& x) {
  const Expr angle = half_arc(abs(x)) * 2.0;
  return select(is_negative(x), kHalfTurn - angle, angle);
}

Expr arctangent2(const Expr& y, const Expr& x) {
  const Expr ax = abs(x), ay = abs(y);
  const Expr small = min(ax, ay), large = max(ax, ay);
  // 0/0 is 0 and inf/inf is 1 here.
  const Expr ratio = select(small == large, select(large == 0.0, x.number(0), x.number(1)), small / large);
  Expr angle = arctangent(ratio);
  angle = select(ay > ax, kHalfTurn / 2 - angle, angle);
  angle = select(is_negative(x), kHalfTurn - angle, angle);
  return select(is_nan(x) | is_nan(y), x.number(kUndefined), with_sign_of(angle, y));
}

Expr inverse_sinh(const Expr& x) {
  const Expr a = abs(x);
  const Expr square = a * a;
  const Expr near = log1p(a + square / (sqrt(square + 1.0) + 1.0));
  return with_sign_of(select(a > kLarge, log(a) + kLn2, near), x);
}

Expr inverse_cosh(const Expr& x) {
  const Expr t = x - 1.0;
  const Expr near = log1p(t + sqrt(t * (t + 2.0)));
  const Expr inside = select(x > kLarge, log(x) + kLn2, near);
  return select(x < 1.0, x.number(kUndefined), inside);
}

Expr inverse_tanh(const Expr& x) {
  const Expr a = abs(x);
  const Expr size = log1p(a * 2.0 / (1.0 - a)) * 0.5;
  return with_sign_of(select(a > 1.0, x.number(kUndefined), size), x);
}

// e^x / 2 without leaving the range of numbers before x does: in two factors.
Expr half_exp(const Expr& x) {
  const Expr root = exp(x * 0.5);
  return root * (root * 0.5);
}

// (m + m / (m + 1)) / 2 with m = e^x - 1 near zero.
Expr hyperbolic_sine(const Expr& x) {
  const Expr a = abs(x);
  const Expr m = expm1(a);
  const Expr near = (m + m / (m + 1.0)) * 0.5;
  return with_sign_of(select(a > 9.0, half_exp(a), near), x);
}

Expr hyperbolic_cosine(const Expr& x) {
  const Expr a = abs(x);
  const Expr e = exp(a);
  return select(a > 9.0, half_exp(a), (e + 1.0 / e) * 0.5);
}

Expr tangent(const Expr& x) { return sin(x) / cos(x); }

constexpr Expansion kTrigonometricExpansions[] = {
    {OpKind::chlo_asin_, nullptr, unary_in_f32<arcsine>},
    {OpKind::chlo_acos_, nullptr, unary_in_f32<arccosine>},
    {OpKind::atan2_, nullptr, binary_in_f32<arctangent2>},
    {OpKind::chlo_asinh_, nullptr, unary_in_f32<inverse_sinh>},
    {OpKind::chlo_acosh_, nullptr, unary_in_f32<inverse_cosh>},
    {OpKind::chlo_atanh_, nullptr, unary_in_f32<inverse_tanh>},
    {OpKind::chlo_sinh_, nullptr, unary_in_f32<hyperbolic_sine>},
    {OpKind::chlo_cosh_, nullptr, unary_in_f32<hyperbolic_cosine>},
    {OpKind::tan_, nullptr, unary_in_f32<tangent>},
    {OpKind::chlo_tan_, nullptr, unary_in_f32<tangent>},
};

}  // namespace

std::span<const Expansion> trigonometric_expansions() { return kTrigonometricExpansions; }

}  // namespace opentrn::compiler
