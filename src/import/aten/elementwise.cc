// Functions of one tensor, element by element: those of the mathematics library, rounding, activations.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "import/aten/expression.h"
#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

Value in_result_type(Call& call) { return call.body.convert(call.value(0), call.out().dtype); }

Value wide(Call& call, size_t number = 0) {
  return call.body.convert(call.value(number), math_dtype(call.out().dtype));
}

// StableHLO's or CHLO's op of the same meaning; whole numbers become the result's float first.
Rule of_one(std::string_view name) {
  return [name](Call& call) { return call.body.unary(name, in_result_type(call)); };
}

// At zero the infinity of the other sign, as torch has it; StableHLO's is NaN there.
Value digamma(Call& call) {
  Body& body = call.body;
  const Value value = in_result_type(call);
  const Value zero = body.like(0, value);
  const Value one = body.like(1, value);
  const Value pole = body.unary("negate", body.divide(one, value));
  const Value at_zero = body.compare("EQ", value, zero);
  return body.select(at_zero, pole, body.unary("chlo.digamma", value));
}

// The gradient outside of [-lambda, lambda].
Value softshrink_backward(Call& call) {
  Body& body = call.body;
  const Value& x = call.value(1);
  const Value size = body.unary("abs", x);
  const Value is_inside = body.compare("LE", size, body.like(call.at(2).number(), size));
  const Value& gradient = call.value(0);
  return body.select(is_inside, body.like(0, gradient), gradient);
}

Value polygamma(Call& call) {
  Body& body = call.body;
  const Value value = wide(call, 1);
  if (equals(call.at(0).number(), 0))
    return body.convert(body.unary("chlo.digamma", value), call.out().dtype);
  const Value order = body.like(call.at(0).number(), value);
  return body.convert(body.binary("chlo.polygamma", order, value), call.out().dtype);
}

// A Chebyshev series, the highest term first; its term of order 0 counts half.
template <size_t kCount>
Expr chebyshev(const Expr& x, const std::array<double, kCount>& terms) {
  Expr last = x * 0.0, before = last, next = last;
  for (const double term : terms) {
    before = last;
    last = next;
    next = x * last - before + term;
  }
  return (next - before) * 0.5;
}

// e^-|x| times the modified Bessel function of order 0: Cephes' series for single precision.
Expr bessel_i0e(const Expr& x) {
  constexpr std::array kNear = {
      -1.30002500998624804212e-8, 6.04699502254191894932e-8,  -2.67079385394061173391e-7,
      1.11738753912010371815e-6,  -4.41673835845875056359e-6, 1.64484480707288970893e-5,
      -5.75419501008210370398e-5, 1.88502885095841655729e-4,  -5.76375574538582365885e-4,
      1.63947561694133579842e-3,  -4.32430999505057594430e-3, 1.05464603945949983183e-2,
      -2.37374148058994688156e-2, 4.93052842396707084878e-2,  -9.49010970480476444210e-2,
      1.71620901522208775349e-1,  -3.04682672343198398683e-1, 6.76795274409476084995e-1};
  constexpr std::array kFar = {3.39623202570838634515e-9, 2.26666899049817806459e-8,
                               2.04891858946906374183e-7, 2.89137052083475648297e-6,
                               6.88975834691682398426e-5, 3.36911647825569408990e-3,
                               8.04490411014108831608e-1};
  const Expr size = x.unary("abs"), bounded = size.clamped(8.0, std::numeric_limits<float>::max());
  const Expr near = chebyshev(size * 0.5 - 2.0, kNear);
  const Expr far = chebyshev(bounded.number(32.0, x.shape()) / bounded - 2.0, kFar) / bounded.unary("sqrt");
  const Expr finite = near.where(size <= 8.0, far);
  const Expr bounded_result = finite.where(size <= std::numeric_limits<float>::max(), 0.0);
  return x.where(size.differs(size), bounded_result);
}

Expr bessel_i1e(const Expr& x) { return x.unary("chlo.bessel_i1e"); }

Rule bessel(const std::function<Expr(const Expr&)>& scaled, bool is_scaled) {
  return [=](Call& call) {
    const Expr x(call.body, wide(call));
    const Expr made = scaled(x);
    const Expr whole = is_scaled ? made : made * x.unary("abs").unary("exponential");
    return whole.to(call.out().dtype).value();
  };
}

Rule log_of_base(double base) {
  return [base](Call& call) {
    const Value log = call.body.unary("log", wide(call));
    return call.body.convert(call.body.multiply(log, call.body.like(1 / std::log(base), log)),
                             call.out().dtype);
  };
}

Value exp2(Call& call) {
  const Value value = wide(call);
  return call.body.convert(call.body.binary("power", call.body.like(2, value), value), call.out().dtype);
}

Value reciprocal(Call& call) {
  const Value value = in_result_type(call);
  return call.body.divide(call.body.like(1, value), value);
}

bool is_real(ElementType dtype) { return !graph::is_complex(dtype); }

Value absolute(Call& call) {
  const Value& value = call.value(0);
  return is_signed(value.dtype) ? call.body.op("abs", {value}, call.out().shape, call.out().dtype) : value;
}

Value negative(Call& call) {
  const Value& value = call.value(0);
  return is_signed(value.dtype) ? call.body.unary("negate", value)
                                : call.body.subtract(call.body.like(0, value), value);
}

// 0 for NaN, unlike StableHLO's.
Value sign(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  if (value.dtype == ElementType::kI1) return value;
  if (!is_real(value.dtype)) return body.unary("sign", value);
  const Value zero = body.like(0, value);
  const Value above = body.compare("GT", value, zero);
  const Value below = body.compare("LT", value, zero);
  if (!is_signed(value.dtype)) return body.convert(above, call.out().dtype);
  const Value one = body.like(1, value);
  const Value other = body.select(below, body.like(-1, value), zero);
  return body.select(above, one, other);
}

Value signbit(Call& call) {
  Body& body = call.body;
  Value value = call.value(0);
  if (graph::is_float(value.dtype)) {
    if (graph::storage_bytes(value.dtype) == 8) value = body.convert(value, ElementType::kF32);
    const int bytes = graph::storage_bytes(value.dtype);
    const ElementType width = bytes == 1   ? ElementType::kI8
                              : bytes == 2 ? ElementType::kI16
                                           : ElementType::kI32;
    value = body.op("bitcast_convert", {value}, value.shape, width);
  }
  return body.convert(body.compare("LT", value, body.like(0, value)), call.out().dtype);
}

Rule rounding(std::string_view name) {
  return [name](Call& call) {
    return graph::is_float(call.value(0).dtype) ? call.body.unary(name, call.value(0)) : in_result_type(call);
  };
}

Value round_decimals(Call& call) {
  Body& body = call.body;
  if (!graph::is_float(call.value(0).dtype)) return call.value(0);
  const Value value = wide(call);
  const int64_t decimals = call.named("decimals").integer();
  const Value scale = body.like(std::pow(10.0, static_cast<double>(std::abs(decimals))), value);
  const Value moved = body.binary(decimals >= 0 ? "multiply" : "divide", value, scale);
  const Value rounded = body.unary("round_nearest_even", moved);
  return body.convert(body.binary(decimals >= 0 ? "divide" : "multiply", rounded, scale), call.out().dtype);
}

Value isnan(Call& call) {
  const Value& value = call.value(0);
  if (!graph::is_float(value.dtype) && is_real(value.dtype))
    return call.body.splat(false, ElementType::kI1, value.shape);
  return call.body.is_nan(value);
}

Value is_infinite(Body& body, const Value& value) {
  const Value size = body.unary("abs", value);
  return body.compare("EQ", size, body.like(std::numeric_limits<double>::infinity(), size));
}

// `of_float` of both parts of a complex number, in one by `combiner`.
Value of_parts(Body& body, const Value& value, Value (*of_float)(Body&, const Value&),
               std::string_view combiner) {
  if (!graph::is_complex(value.dtype)) return of_float(body, value);
  const ElementType part = graph::real_part(value.dtype);
  const Value real = of_float(body, body.op("real", {value}, value.shape, part));
  return body.binary(combiner, real, of_float(body, body.op("imag", {value}, value.shape, part)));
}

bool has_infinity(ElementType dtype) { return graph::is_float(dtype) || graph::is_complex(dtype); }

Value isinf(Call& call) {
  const Value& value = call.value(0);
  if (!has_infinity(value.dtype)) return call.body.splat(false, ElementType::kI1, value.shape);
  return of_parts(call.body, value, is_infinite, "or");
}

Value isfinite(Call& call) {
  const Value& value = call.value(0);
  if (!has_infinity(value.dtype)) return call.body.splat(true, ElementType::kI1, value.shape);
  return of_parts(
      call.body, value, [](Body& body, const Value& part) { return body.is_finite(part); }, "and");
}

// Of a real number 0 or pi.
Value angle(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const ElementType dtype = call.out().dtype;
  if (!is_real(value.dtype)) {
    const Value imaginary = body.op("imag", {value}, value.shape, dtype);
    return body.binary("atan2", imaginary, body.op("real", {value}, value.shape, dtype));
  }
  const Value given = in_result_type(call);
  const Value zero = body.like(0, given);
  const Value pi = body.like(std::numbers::pi, given);
  const Value made = body.select(body.compare("LT", given, zero), pi, zero);
  return graph::is_float(value.dtype) ? body.select(body.is_nan(given), given, made) : made;
}

Value relu(Call& call) {
  return call.body.binary("maximum", call.value(0), call.body.like(0, call.value(0)));
}

// In the forms that the compiler knows as one function of the Scalar engine.
Value gelu(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const Value half = body.like(0.5, value);
  const Value one = body.like(1, value);
  Value bent;
  if (call.named("approximate").text() == "tanh") {
    const Value square = body.multiply(value, value);
    const Value cube = body.multiply(square, value);
    const Value bend = body.like(0.044715, value);
    const Value inner = body.add(value, body.multiply(bend, cube));
    const Value factor = body.like(std::sqrt(2 / std::numbers::pi), value);
    bent = body.unary("tanh", body.multiply(factor, inner));
  } else {
    bent = body.unary("chlo.erf", body.multiply(value, body.like(std::sqrt(0.5), value)));
  }
  const Value scaled = body.multiply(half, value);
  return body.multiply(scaled, body.add(one, bent));
}

Value leaky_relu(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const Value above = body.compare("GT", value, body.like(0, value));
  const Value slope = body.like(call.at(1).number(), value);
  return body.select(above, value, body.multiply(value, slope));
}

Value hardtanh(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const Value low = body.like(call.at(1).number(), value);
  const Value raised = body.binary("maximum", value, low);
  return body.binary("minimum", raised, body.like(call.at(2).number(), value));
}

}  // namespace

Table elementwise() {
  Table table = {
      {{"acos.default", "prims.acos"}, of_one("chlo.acos")},
      {{"acosh.default", "prims.acosh"}, of_one("chlo.acosh")},
      {{"asin.default", "prims.asin"}, of_one("chlo.asin")},
      {{"asinh.default", "prims.asinh"}, of_one("chlo.asinh")},
      {{"atan.default", "prims.atan"}, of_one("chlo.atan")},
      {{"atanh.default", "prims.atanh"}, of_one("chlo.atanh")},
      {{"cos.default", "prims.cos"}, of_one("cosine")},
      {{"cosh.default", "prims.cosh"}, of_one("chlo.cosh")},
      {{"erf.default", "prims.erf"}, of_one("chlo.erf")},
      {{"erfc.default", "prims.erfc"}, of_one("chlo.erfc")},
      {{"erfinv.default", "prims.erf_inv"}, of_one("chlo.erf_inv")},
      {{"exp.default", "prims.exp"}, of_one("exponential")},
      {{"expm1.default", "prims.expm1"}, of_one("exponential_minus_one")},
      {{"lgamma.default", "prims.lgamma"}, of_one("chlo.lgamma")},
      {{"log.default", "prims.log"}, of_one("log")},
      {{"log1p.default", "prims.log1p"}, of_one("log_plus_one")},
      {{"rsqrt.default", "prims.rsqrt"}, of_one("rsqrt")},
      {{"sigmoid.default"}, of_one("logistic")},
      {{"sin.default", "prims.sin"}, of_one("sine")},
      {{"sinh.default", "prims.sinh"}, of_one("chlo.sinh")},
      {{"sqrt.default", "prims.sqrt"}, of_one("sqrt")},
      {{"tan.default", "prims.tan"}, of_one("tan")},
      {{"tanh.default", "prims.tanh"}, of_one("tanh")},
      {{"digamma.default", "prims.digamma"}, digamma},
      {{"polygamma.default"}, polygamma},
      {{"softshrink_backward.default"}, softshrink_backward},
      {{"prims.bessel_i0"}, bessel(bessel_i0e, false)},
      {{"prims.bessel_i0e"}, bessel(bessel_i0e, true)},
      {{"prims.bessel_i1"}, bessel(bessel_i1e, false)},
      {{"prims.bessel_i1e"}, bessel(bessel_i1e, true)},
      {{"log2.default", "prims.log2"}, log_of_base(2)},
      {{"log10.default", "prims.log10"}, log_of_base(10)},
      {{"exp2.default", "prims.exp2"}, exp2},
      {{"reciprocal.default", "prims.reciprocal"}, reciprocal},
      {{"abs.default", "prims.abs"}, absolute},
      {{"neg.default", "_neg_view.default", "prims.neg"}, negative},
      {{"sign.default", "prims.sign", "sgn.default"}, sign},
      {{"signbit.default", "prims.signbit"}, signbit},
      {{"angle.default"}, angle},
  };
  const Table others = {
      {{"ceil.default", "prims.ceil"}, rounding("ceil")},
      {{"floor.default", "prims.floor"}, rounding("floor")},
      {{"round.default", "prims.round"}, rounding("round_nearest_even")},
      {{"trunc.default", "prims.trunc", "fix.default"},
       [](Call& call) { return truncated(call.body, call.value(0)); }},
      {{"round.decimals"}, round_decimals},
      {{"isnan.default"}, isnan},
      {{"isinf.default"}, isinf},
      {{"isfinite.default", "prims.isfinite"}, isfinite},
      {{"relu.default"}, relu},
      {{"gelu.default"}, gelu},
      {{"silu.default"},
       [](Call& call) {
         return call.body.multiply(call.value(0), call.body.unary("logistic", call.value(0)));
       }},
      {{"leaky_relu.default"}, leaky_relu},
      {{"hardtanh.default"}, hardtanh},
  };
  table.insert(table.end(), others.begin(), others.end());
  return table;
}

}  // namespace opentrn::import::aten
