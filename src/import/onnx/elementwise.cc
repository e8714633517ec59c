// Operators on elements: arithmetic, comparison, logic, casts.
#include <cmath>

#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

template <OpKind kind>
void unary(Node& n) {
  n.set(0, n.emit.unary(kind, n.in(0)));
}

template <OpKind kind>
void binary(Node& n) {
  n.set(0, n.emit.binary(kind, n.in(0), n.in(1)));
}

template <ComparisonDirection direction>
void compare(Node& n) {
  n.set(0, n.emit.compare(direction, n.in(0), n.in(1)));
}

template <OpKind kind>
void variadic(Node& n) {
  ValueId all = n.in(0);
  for (size_t i = 1; i < n.input_count(); ++i) all = n.emit.binary(kind, all, n.in(i));
  n.set(0, all);
}

}  // namespace

void import_ceil(Node& n) { unary<OpKind::ceil_>(n); }
void import_floor(Node& n) { unary<OpKind::floor_>(n); }
void import_round(Node& n) { unary<OpKind::round_nearest_even_>(n); }
void import_exp(Node& n) { unary<OpKind::exponential_>(n); }
void import_log(Node& n) { unary<OpKind::log_>(n); }
void import_neg(Node& n) { unary<OpKind::negate_>(n); }
void import_sqrt(Node& n) { unary<OpKind::sqrt_>(n); }
void import_sin(Node& n) { unary<OpKind::sine_>(n); }
void import_cos(Node& n) { unary<OpKind::cosine_>(n); }
void import_tan(Node& n) { unary<OpKind::tan_>(n); }
void import_tanh(Node& n) { unary<OpKind::tanh_>(n); }
void import_sinh(Node& n) { unary<OpKind::chlo_sinh_>(n); }
void import_cosh(Node& n) { unary<OpKind::chlo_cosh_>(n); }
void import_asin(Node& n) { unary<OpKind::chlo_asin_>(n); }
void import_acos(Node& n) { unary<OpKind::chlo_acos_>(n); }
void import_atan(Node& n) { unary<OpKind::chlo_atan_>(n); }
void import_asinh(Node& n) { unary<OpKind::chlo_asinh_>(n); }
void import_acosh(Node& n) { unary<OpKind::chlo_acosh_>(n); }
void import_atanh(Node& n) { unary<OpKind::chlo_atanh_>(n); }
void import_erf(Node& n) { unary<OpKind::chlo_erf_>(n); }
void import_not(Node& n) { unary<OpKind::not_>(n); }
void import_add(Node& n) { binary<OpKind::add_>(n); }
void import_sub(Node& n) { binary<OpKind::subtract_>(n); }
void import_mul(Node& n) { binary<OpKind::multiply_>(n); }
void import_div(Node& n) { binary<OpKind::divide_>(n); }
void import_and(Node& n) { binary<OpKind::and_>(n); }
void import_or(Node& n) { binary<OpKind::or_>(n); }
void import_xor(Node& n) { binary<OpKind::xor_>(n); }
void import_equal(Node& n) { compare<ComparisonDirection::kEq>(n); }
void import_greater(Node& n) { compare<ComparisonDirection::kGt>(n); }
void import_greater_or_equal(Node& n) { compare<ComparisonDirection::kGe>(n); }
void import_less(Node& n) { compare<ComparisonDirection::kLt>(n); }
void import_less_or_equal(Node& n) { compare<ComparisonDirection::kLe>(n); }
void import_max(Node& n) { variadic<OpKind::maximum_>(n); }
void import_min(Node& n) { variadic<OpKind::minimum_>(n); }
void import_sum(Node& n) { variadic<OpKind::add_>(n); }

void import_mean(Node& n) {
  ValueId total = n.in(0);
  for (size_t i = 1; i < n.input_count(); ++i) total = n.emit.add(total, n.in(i));
  n.set(0, n.emit.div(total, static_cast<double>(n.input_count())));
}

void import_identity(Node& n) { n.set(0, n.in(0)); }

void import_abs(Node& n) {
  if (graph::is_unsigned_integer(n.element(0)))
    n.set(0, n.in(0));
  else
    unary<OpKind::abs_>(n);
}

void import_sign(Node& n) {
  if (!graph::is_unsigned_integer(n.element(0))) return unary<OpKind::sign_>(n);
  n.set(0, n.emit.min(n.in(0), 1));
}

void import_reciprocal(Node& n) {
  const ValueId x = n.in(0);
  n.set(0, n.emit.div(n.emit.like(x, 1), x));
}

// Modulo with the divisor's sign; with fmod the dividend's.
void import_mod(Node& n) {
  const Emit& e = n.emit;
  const Dims to = broadcast_shapes(n.dims(0), n.dims(1));
  const ValueId a = e.broadcast_to(n.in(0), to);
  const ValueId b = e.broadcast_to(n.in(1), to);
  const ValueId remainder = e.binary(OpKind::remainder_, a, b);
  if (n.flag("fmod", false) || graph::is_unsigned_integer(e.element(a))) return n.set(0, remainder);
  const auto negative = [&](ValueId x) { return e.compare(ComparisonDirection::kLt, x, 0); };
  const ValueId differs = e.compare(ComparisonDirection::kNe, negative(remainder), negative(b));
  const ValueId nonzero = e.compare(ComparisonDirection::kNe, remainder, 0);
  n.set(0, e.select(e.binary(OpKind::and_, differs, nonzero), e.add(remainder, b), remainder));
}

// The result has the base's type whatever the exponent's.
void import_pow(Node& n) {
  const Emit& e = n.emit;
  const ElementType base = n.element(0);
  const ElementType exponent = n.element(1);
  if (graph::is_integer(base) && graph::is_float(exponent)) {
    const ElementType wide = graph::bit_width(base) > 32 ? ElementType::kF64 : exponent;
    const ValueId power = e.binary(OpKind::power_, e.cast(n.in(0), wide), e.cast(n.in(1), wide));
    return n.set(0, e.cast(power, base));
  }
  n.set(0, e.binary(OpKind::power_, n.in(0), e.cast(n.in(1), base)));
}

void import_bit_shift(Node& n) {
  const std::string direction = n.string("direction", "");
  n.check(direction == "LEFT" || direction == "RIGHT", "direction is '{}'; it must be LEFT or RIGHT",
          direction);
  const OpKind right =
      graph::is_signed_integer(n.element(0)) ? OpKind::shift_right_arithmetic_ : OpKind::shift_right_logical_;
  n.set(0, n.emit.binary(direction == "LEFT" ? OpKind::shift_left_ : right, n.in(0), n.in(1)));
}

void import_is_nan(Node& n) { n.set(0, n.emit.compare(ComparisonDirection::kNe, n.in(0), n.in(0))); }

void import_is_inf(Node& n) {
  const Emit& e = n.emit;
  const ValueId x = n.in(0);
  const bool negative = n.flag("detect_negative", true);
  const bool positive = n.flag("detect_positive", true);
  if (!positive && !negative) return n.set(0, e.full(ElementType::kI1, n.dims(0), 0));
  const OpKind kind = positive && negative ? OpKind::chlo_is_inf_
                      : positive           ? OpKind::chlo_is_pos_inf_
                                           : OpKind::chlo_is_neg_inf_;
  n.set(0, e.unary(kind, x));
}

void import_where(Node& n) { n.set(0, n.emit.select(n.in(0), n.in(1), n.in(2))); }

void import_clip(Node& n) {
  const Emit& e = n.emit;
  ValueId x = n.in(0);
  if (n.opset() < 11) {
    if (n.attribute("min")) x = e.max(x, n.real("min", 0));
    if (n.attribute("max")) x = e.min(x, n.real("max", 0));
  } else {
    if (n.has(1)) x = e.max(x, n.in(1));
    if (n.has(2)) x = e.min(x, n.in(2));
  }
  n.set(0, x);
}

void import_prelu(Node& n) {
  const Emit& e = n.emit;
  const ValueId x = n.in(0);
  n.set(0,
        e.select(e.compare(ComparisonDirection::kLt, x, 0), e.mul(x, e.broadcast_to(n.in(1), n.dims(0))), x));
}

namespace {

// The largest finite value of the formats that casts saturate to; nullopt for the others.
std::optional<double> saturation_limit(ElementType element) {
  switch (element) {
    case ElementType::kF8E4M3FN: return 448;
    case ElementType::kF8E4M3FNUZ: return 240;
    case ElementType::kF8E5M2:
    case ElementType::kF8E5M2FNUZ: return 57344;
    case ElementType::kF4E2M1FN: return 6;
    default: return std::nullopt;
  }
}

}  // namespace

ValueId saturated(const Emit& e, ValueId x, ElementType to, bool saturate) {
  const ElementType from = e.element(x);
  const auto limit = saturation_limit(to);
  if (limit && saturate && from != to) {
    if (!graph::is_float(from) || graph::bit_width(from) < 32) x = e.cast(x, ElementType::kF32);
    x = e.min(e.max(x, -*limit), *limit);
  }
  return e.cast(x, to);
}

namespace {

// Scales, with the way ONNX rounds to them: up, down or nearest power of two.
ValueId cast_to_scale(Node& n, ValueId x, const std::string& mode, bool saturate) {
  const Emit& e = n.emit;
  const ValueId wide = e.cast(x, ElementType::kF32);
  const ValueId bits = n.emit.builder().add(OpKind::bitcast_convert_, {wide}, {},
                                            {Type::tensor(ElementType::kUI32, e.dims(wide))});
  const auto shift = [&](ValueId v) { return e.binary(OpKind::shift_right_logical_, v, e.like(v, 23)); };
  const ValueId exponent = shift(bits);
  const ValueId fraction = e.binary(OpKind::and_, bits, e.like(bits, 0x7FFFFF));
  ValueId up = e.compare(ComparisonDirection::kGt, fraction, 0);
  if (mode == "down") up = e.full(ElementType::kI1, e.dims(x), 0);
  if (mode == "nearest") {
    // Half way goes to the even exponent; what is above half goes up.
    const ValueId above = e.compare(ComparisonDirection::kGt, fraction, 0x400000);
    const ValueId half = e.compare(ComparisonDirection::kEq, fraction, 0x400000);
    const ValueId odd =
        e.compare(ComparisonDirection::kEq, e.binary(OpKind::and_, exponent, e.like(exponent, 1)), 1);
    up = e.binary(OpKind::or_, above, e.binary(OpKind::and_, half, odd));
  }
  const ValueId one = e.select(up, e.like(exponent, 1), e.like(exponent, 0));
  const ValueId rounded = e.add(exponent, one);
  const ValueId limit = saturate ? e.min(rounded, 254) : e.min(rounded, 255);
  const ValueId is_special = e.compare(ComparisonDirection::kEq, exponent, 255);
  const ValueId code = e.select(is_special, e.like(exponent, 255), limit);
  return n.emit.builder().add(OpKind::bitcast_convert_, {e.cast(code, ElementType::kUI8)}, {},
                              {Type::tensor(ElementType::kF8E8M0FNU, e.dims(x))});
}

void cast(Node& n, ElementType to) {
  const ValueId x = n.in(0);
  const bool saturate = n.flag("saturate", true);
  if (to == ElementType::kF8E8M0FNU && n.element(0) != to)
    return n.set(0, cast_to_scale(n, x, n.string("round_mode", "up"), saturate));
  // Integers of 4 and 2 bits keep the low bits of the whole number.
  const bool narrow = graph::is_integer(to) && graph::bit_width(to) < 8 && graph::is_float(n.element(0));
  if (narrow) return n.set(0, n.emit.cast(n.emit.cast(x, ElementType::kI32), to));
  n.set(0, saturated(n.emit, x, to, saturate));
}

}  // namespace

void import_cast(Node& n) {
  const auto to = n.data_type("to");
  n.check(to.has_value(), "attribute to is missing");
  cast(n, *to);
}

void import_cast_like(Node& n) { cast(n, n.element(1)); }

void import_bit_cast(Node& n) {
  const auto to = n.data_type("to");
  n.check(to.has_value(), "attribute to is missing");
  // A boolean is a byte in ONNX.
  if (graph::is_bool(*to) || graph::is_bool(n.element(0))) return n.set(0, n.emit.cast(n.in(0), *to));
  n.check(graph::bit_width(*to) == graph::bit_width(n.element(0)), "types of different widths");
  n.set(0, n.emit.builder().add(OpKind::bitcast_convert_, {n.in(0)}, {}, {Type::tensor(*to, n.dims(0))}));
}

void import_binarizer(Node& n) {
  const Emit& e = n.emit;
  const ValueId above = e.compare(ComparisonDirection::kGt, n.in(0), n.real("threshold", 0));
  n.set(0, e.cast(above, n.element(0)));
}

}  // namespace opentrn::import::onnx
