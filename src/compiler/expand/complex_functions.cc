// Functions of complex numbers by functions of real ones.
//
// Inverse functions: W. Kahan, "Branch cuts for complex elementary functions" (1987).
#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/analysis/graph_names.h"
#include "compiler/expand/complex_parts.h"

namespace opentrn::compiler {

namespace {

Parts operator+(const Parts& a, const Parts& b) { return {a.re + b.re, a.im + b.im}; }
Parts operator-(const Parts& a, const Parts& b) { return {a.re - b.re, a.im - b.im}; }
Parts operator*(const Parts& a, const Parts& b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
Parts operator*(const Parts& a, const Expr& b) { return {a.re * b, a.im * b}; }
Parts conjugate(const Parts& z) { return {z.re, -z.im}; }
Parts plus(const Parts& z, double number) { return {z.re + number, z.im}; }
// i z and -i z.
Parts rotated(const Parts& z) { return {-z.im, z.re}; }
Parts rotated_back(const Parts& z) { return {z.im, -z.re}; }

Expr sinh(const Expr& x) { return x.unary(OpKind::chlo_sinh_); }
Expr cosh(const Expr& x) { return x.unary(OpKind::chlo_cosh_); }
Expr tanh(const Expr& x) { return x.unary(OpKind::tanh_); }
Expr tan(const Expr& x) { return x.unary(OpKind::tan_); }
Expr asinh(const Expr& x) { return x.unary(OpKind::chlo_asinh_); }
Expr atan2(const Expr& y, const Expr& x) { return y.binary(OpKind::atan2_, x); }

// The divisor over its larger part, whose square stays a number; the part's reciprocal may be none.
Parts operator/(const Parts& a, const Parts& b) {
  const Expr large = max(abs(b.re), abs(b.im));
  const Parts divisor{b.re / large, b.im / large};
  const Expr square = divisor.re * divisor.re + divisor.im * divisor.im;
  const Parts product = a * conjugate(divisor);
  return {product.re / square / large, product.im / square / large};
}

Expr angle(const Parts& z) { return atan2(z.im, z.re); }

// e^re (cos im + i sin im); a real number stays one, infinite too.
Parts from_polar(const Expr& size, const Expr& angle) {
  return {size * cos(angle), select(angle == 0.0, angle, size * sin(angle))};
}

Parts exp(const Parts& z) { return from_polar(exp(z.re), z.im); }

// ln|z| by log1p where |z| is near 1.
Parts log(const Parts& z) {
  const Expr a = max(abs(z.re), abs(z.im)), b = min(abs(z.re), abs(z.im));
  const Expr near = log1p((a - 1.0) * (a + 1.0) + b * b) * 0.5;
  const Expr size = magnitude(z);
  const Expr is_near = (size > 0.5) & (size < 2.0);
  return {select(is_near, near, log(size)), angle(z)};
}

Parts square_root(const Parts& z) {
  const Expr half = (magnitude(z) + abs(z.re)) * 0.5;
  const Expr root = sqrt(half);
  const Expr other = select(root == 0.0, root, abs(z.im) / (root * 2.0));
  const Expr right = z.re >= 0.0;
  const Expr im = select(right, other, root);
  return {select(right, root, other), select(is_negative(z.im), -im, im)};
}

Parts sine(const Parts& z) { return {sin(z.re) * cosh(z.im), cos(z.re) * sinh(z.im)}; }
Parts cosine(const Parts& z) { return {cos(z.re) * cosh(z.im), -(sin(z.re) * sinh(z.im))}; }

// tan(a + bi) with T = tan a and t = tanh b: (T (1 - t^2) + i t (1 + T^2)) / (1 + T^2 t^2)
Parts tangent(const Parts& z) {
  const Expr slope = tan(z.re), t = tanh(z.im);
  const Expr slope_square = slope * slope, square = t * t;
  const Expr under = slope_square * square + 1.0;
  const Expr c = cosh(z.im);
  return {slope / (c * c) / under, t * (slope_square + 1.0) / under};
}

Parts expm1(const Parts& z) {
  const Expr s = sin(z.im * 0.5);
  return {expm1(z.re) * cos(z.im) - s * s * 2.0, select(z.im == 0.0, z.im, exp(z.re) * sin(z.im))};
}

Parts log1p(const Parts& z) {
  const Parts far = log(plus(z, 1.0));
  const Expr near = log1p(z.re * (z.re + 2.0) + z.im * z.im) * 0.5;
  const Expr is_far = (abs(z.re) > 0.5) | (abs(z.im) > 0.5);
  return {select(is_far, far.re, near), far.im};
}

Parts arc_sine(const Parts& z) {
  const Parts left = square_root({1.0 - z.re, -z.im}), right = square_root(plus(z, 1.0));
  return {atan2(z.re, (left * right).re), asinh((conjugate(left) * right).im)};
}

Parts arc_cosine(const Parts& z) {
  const Parts left = square_root({1.0 - z.re, -z.im}), right = square_root(plus(z, 1.0));
  return {atan2(left.re, right.re) * 2.0, asinh((conjugate(right) * left).im)};
}

Parts area_cosine(const Parts& z) {
  const Parts left = square_root(plus(z, -1.0)), right = square_root(plus(z, 1.0));
  return {asinh((conjugate(left) * right).re), atan2(left.im, right.re) * 2.0};
}

Parts area_tangent(const Parts& z) {
  // The real part of |re|, so that the logarithm's argument is not near -1.
  const Expr left = 1.0 - z.re, a = abs(z.re), near = 1.0 - a;
  const Expr square = z.im * z.im;
  const Expr size = log1p(a * 4.0 / (near * near + square)) * 0.25;
  return {select(is_negative(z.re), -size, size), atan2(z.im * 2.0, left * (z.re + 1.0) - square) * 0.5};
}

Parts power(const Parts& base, const Parts& exponent) {
  const Parts value = exp(exponent * log(base));
  const Expr zero = (base.re == 0.0) & (base.im == 0.0);
  const Expr one = (exponent.re == 0.0) & (exponent.im == 0.0);
  // A power of zero is zero right of the imaginary axis alone, where its size is. Elsewhere it has none.
  const Expr none = value.re.number(std::numeric_limits<double>::quiet_NaN());
  const Expr rest = select(exponent.re > 0.0, value.re.number(0), none);
  const Expr imaginary = select(one, value.re.number(0), rest);
  return {select(zero, select(one, value.re.number(1), rest), value.re), select(zero, imaginary, value.im)};
}

Parts sign(const Parts& z) {
  const Expr size = magnitude(z);
  const Expr zero = size == 0.0;
  return {select(zero, size, z.re / size), select(zero, size, z.im / size)};
}

// By real part, then by imaginary part.
Parts first_of(const Parts& a, const Parts& b, const Expr& takes_a) {
  return {select(takes_a, a.re, b.re), select(takes_a, a.im, b.im)};
}
Expr above(const Parts& a, const Parts& b) { return (a.re > b.re) | ((a.re == b.re) & (a.im > b.im)); }

}  // namespace

Expr magnitude(const Parts& z) {
  const Expr a = abs(z.re), b = abs(z.im);
  const Expr large = max(a, b), ratio = min(a, b) / large;
  const Expr size = large * sqrt(ratio * ratio + 1.0);
  const Expr plain = (large == 0.0) | (large == std::numeric_limits<double>::infinity());
  return select(plain, large, size);
}

std::optional<Parts> complex_function(OpKind kind, const Parts& z) {
  switch (kind) {
    case OpKind::negate_: return Parts{-z.re, -z.im};
    case OpKind::chlo_conj_: return conjugate(z);
    case OpKind::chlo_square_: return z * z;
    case OpKind::exponential_: return exp(z);
    case OpKind::log_: return log(z);
    case OpKind::sqrt_: return square_root(z);
    case OpKind::rsqrt_: return conjugate(square_root(z)) * (1.0 / magnitude(z));
    case OpKind::sine_: return sine(z);
    case OpKind::cosine_: return cosine(z);
    case OpKind::tan_:
    case OpKind::chlo_tan_: return tangent(z);
    case OpKind::tanh_: return rotated_back(tangent(rotated(z)));
    case OpKind::chlo_sinh_: return rotated_back(sine(rotated(z)));
    case OpKind::chlo_cosh_: return cosine(rotated(z));
    case OpKind::exponential_minus_one_: return expm1(z);
    case OpKind::log_plus_one_: return log1p(z);
    case OpKind::logistic_: {
      const Parts one{z.re.number(1), z.re.number(0)};
      return one / plus(exp({-z.re, -z.im}), 1.0);
    }
    case OpKind::cbrt_: return from_polar(magnitude(z).unary(OpKind::cbrt_), angle(z) / 3.0);
    case OpKind::sign_: return sign(z);
    case OpKind::chlo_asin_: return arc_sine(z);
    case OpKind::chlo_acos_: return arc_cosine(z);
    case OpKind::chlo_atan_: return rotated_back(area_tangent(rotated(z)));
    case OpKind::chlo_asinh_: return rotated_back(arc_sine(rotated(z)));
    case OpKind::chlo_acosh_: return area_cosine(z);
    case OpKind::chlo_atanh_: return area_tangent(z);
    default: return std::nullopt;
  }
}

std::optional<Parts> complex_function(OpKind kind, const Parts& a, const Parts& b) {
  switch (kind) {
    case OpKind::add_: return a + b;
    case OpKind::subtract_: return a - b;
    case OpKind::multiply_: return a * b;
    case OpKind::divide_: return a / b;
    case OpKind::power_: return power(a, b);
    case OpKind::maximum_: return first_of(a, b, above(a, b));
    case OpKind::minimum_: return first_of(a, b, above(b, a));
    case OpKind::atan2_: {
      const Parts square = a * a + b * b;
      return rotated_back(log((b + rotated(a)) / square_root(square)));
    }
    default: return std::nullopt;
  }
}

}  // namespace opentrn::compiler
