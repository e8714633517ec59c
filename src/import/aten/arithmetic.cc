// Arithmetic, comparison and logic of two tensors, or of a tensor and a number.
#include <cmath>

#include "base/fault.h"
#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

// right times alpha, a number or a tensor.
Arg times_alpha(Body& body, const Arg& right, const Arg& alpha, ElementType dtype) {
  if (alpha.is_none() || equals(alpha.number(), 1)) return right;
  if (right.is_value()) {
    const Value converted = body.convert(right.value(), dtype);
    return {body.multiply(converted, body.like(alpha.number(), converted))};
  }
  if (right.is_integer() && alpha.is_integer()) return {Number(right.integer() * alpha.integer())};
  const auto complex_of = [](const Number& number) {
    const auto* complex = std::get_if<std::complex<double>>(&number);
    return complex ? *complex : std::complex<double>(real_of(number));
  };
  const auto product = complex_of(right.number()) * complex_of(alpha.number());
  return {product.imag() == 0 ? Number(product.real()) : Number(product)};
}

bool is_of_16_bits(ElementType dtype) { return dtype == ElementType::kBF16 || dtype == ElementType::kF16; }

// Both in the type they are computed in, of values of the result's type: torch rounds a number beside a
// tensor of 16 bits before it takes a sum, a remainder or a power.
std::pair<Value, Value> both_of_result(Call& call, const Arg& left, const Arg& right) {
  const ElementType dtype = math_dtype(call.out().dtype);
  const auto [a, b] = both(call, left, right);
  return {call.body.convert(a, dtype), call.body.convert(b, dtype)};
}

std::pair<Value, Value> both_of_result(Call& call) { return both_of_result(call, call.at(0), call.at(1)); }

// Whether torch multiplies a tensor of 16 bits by such an operand in float32: by a number that these bits do
// not hold, and by a wider tensor without dimensions.
bool stays_wide(const Arg& factor, ElementType dtype) {
  if (!is_of_16_bits(dtype)) return false;
  if (!factor.is_value()) return !holds(dtype, factor.number());
  const ElementType given = factor.value().dtype;
  return factor.value().rank() == 0 && !is_of_16_bits(given) && given != ElementType::kI1;
}

// A product or a quotient, which torch rounds once.
Value scaled(Call& call, std::string_view name) {
  Body& body = call.body;
  const ElementType dtype = call.out().dtype;
  if (!stays_wide(call.at(1), dtype)) {
    const auto [a, b] = both(call, call.at(0), call.at(1));
    return name == "multiply" ? body.multiply(a, b) : body.binary(name, a, b);
  }
  const Value left = body.convert(body.tensor(call.at(0), dtype, call.out().shape), math_dtype(dtype));
  const Value right = body.tensor(call.at(1), left.dtype, call.out().shape);
  return body.convert(body.binary(name, left, right), dtype);
}

// left + right alpha, or left - right alpha; of 16 bits torch rounds alpha, and then the sum alone.
Value combined(Call& call, const Arg& left, const Arg& right, const Arg& alpha, std::string_view name) {
  Body& body = call.body;
  const ElementType dtype = call.out().dtype;
  if (is_of_16_bits(dtype) && !alpha.is_none() && !equals(alpha.number(), 1)) {
    const auto [a, b] = both_of_result(call, left, right);
    const Value factor = body.convert(body.splat(alpha.number(), dtype, b.shape), b.dtype);
    return body.convert(body.binary(name, a, body.multiply(b, factor)), dtype);
  }
  const auto [a, b] = both(call, left, times_alpha(body, right, alpha, dtype));
  return name == "add" ? body.add(a, b) : body.binary(name, a, b);
}

Value add(Call& call) { return combined(call, call.at(0), call.at(1), call.named("alpha"), "add"); }

Value sub(Call& call) { return combined(call, call.at(0), call.at(1), call.named("alpha"), "subtract"); }

Value rsub(Call& call) { return combined(call, call.at(1), call.at(0), call.named("alpha"), "subtract"); }

Value mul(Call& call) { return scaled(call, "multiply"); }

// Whether a remainder and its divisor have different signs, and the remainder is not zero.
Value is_inexact(Body& body, const Value& rest, const Value& zero, const Value& differs) {
  const Value some = body.compare("NE", rest, zero);
  return body.binary("and", some, differs);
}

Value signs_differ(Body& body, const Value& left, const Value& right, const Value& zero) {
  const Value first = body.compare("LT", left, zero);
  const Value second = body.compare("LT", right, zero);
  return body.compare("NE", first, second);
}

// A quotient that is zero once it is whole, with the sign that it had before.
Value with_sign_of_zero(Body& body, const Value& whole, const Value& quotient) {
  const Value zero = body.like(0, whole);
  return body.select(body.compare("EQ", whole, zero), body.multiply(quotient, zero), whole);
}

// As torch computes it: exact where the quotient is a whole number, and of the remainder's sign.
Value floored_floats(Body& body, const Value& a, const Value& b) {
  const Value rest = body.binary("remainder", a, b);
  Value quotient = body.divide(body.subtract(a, rest), b);
  const Value zero = body.like(0, a);
  const Value differs = signs_differ(body, b, rest, zero);
  const Value inexact = is_inexact(body, rest, zero, differs);
  const Value one = body.like(1, a);
  const Value lower = body.subtract(quotient, one);
  quotient = body.select(inexact, lower, quotient);
  const Value down = body.unary("floor", quotient);
  const Value fraction = body.subtract(quotient, down);
  const Value above = body.compare("GT", fraction, body.like(0.5, a));
  const Value up = body.add(down, one);
  const Value plain = body.divide(a, b);
  const Value rounded = with_sign_of_zero(body, body.select(above, up, down), plain);
  return body.select(body.compare("EQ", b, zero), plain, rounded);
}

// Towards zero. The device's quotient may be a unit below a whole number, so the remainder goes first.
Value whole_quotient(Body& body, const Value& a, const Value& b) {
  const Value plain = body.divide(a, b);
  if (!graph::is_float(a.dtype)) return plain;
  const Value rest = body.binary("remainder", a, b);
  const Value exact = body.unary("round_nearest_even", body.divide(body.subtract(a, rest), b));
  const Value finite = body.is_finite(rest);
  return body.select(finite, with_sign_of_zero(body, exact, plain), truncated(body, plain));
}

Value floor_divide(Call& call) {
  const auto [a, b] = both(call, call.at(0), call.at(1), math_dtype(call.out().dtype));
  return call.body.convert(floored(call.body, a, b), call.out().dtype);
}

// rounding_mode "trunc" or "floor" gives whole numbers.
Value div(Call& call) {
  const Arg& mode = call.named("rounding_mode");
  if (mode.is_none()) return scaled(call, "divide");
  if (mode.text() == "floor") return floor_divide(call);
  const auto [a, b] = both(call, call.at(0), call.at(1), math_dtype(call.out().dtype));
  return call.body.convert(whole_quotient(call.body, a, b), call.out().dtype);
}

// With the divisor's sign.
Value remainder(Call& call) {
  Body& body = call.body;
  const auto [a, b] = both_of_result(call);
  Value rest = body.binary("remainder", a, b);
  if (is_signed(a.dtype)) {
    const Value zero = body.like(0, a);
    const Value differs = signs_differ(body, rest, b, zero);
    const Value shift = is_inexact(body, rest, zero, differs);
    const Value moved = body.add(rest, b);
    rest = body.select(shift, moved, rest);
  }
  return body.convert(rest, call.out().dtype);
}

// With the dividend's sign.
Value fmod(Call& call) {
  const auto [a, b] = both_of_result(call);
  return call.body.convert(call.body.binary("remainder", a, b), call.out().dtype);
}

// Small whole exponents are products, as in torch; nothing where the general form is needed.
std::optional<Value> simple_power(Call& call, const Number& exponent) {
  Body& body = call.body;
  const ElementType dtype = call.out().dtype;
  const Value value = body.tensor(call.at(0), dtype, call.out().shape);
  const auto is = [&](double other) { return equals(exponent, other); };
  if (is(1)) return value;
  if (is(0)) return body.like(1, value);
  if (is(2) || is(3)) {
    const Value wide = body.convert(value, math_dtype(dtype));
    const Value square = body.multiply(wide, wide);
    return body.convert(is(2) ? square : body.multiply(square, wide), dtype);
  }
  if (!graph::is_float(dtype) || !(is(0.5) || is(-0.5) || is(-1) || is(-2))) return std::nullopt;
  const Value wide = body.convert(value, math_dtype(dtype));
  if (is(0.5)) return body.convert(body.unary("sqrt", wide), dtype);
  if (is(-0.5)) return body.convert(body.unary("rsqrt", wide), dtype);
  const Value one = body.like(1, wide);
  return body.convert(body.divide(one, is(-1) ? wide : body.multiply(wide, wide)), dtype);
}

Value power(Call& call) {
  if (const Arg& exponent = call.at(1); exponent.is_number())
    if (const auto made = simple_power(call, exponent.number())) return *made;
  const auto [a, b] = both_of_result(call);
  return call.body.convert(call.body.binary("power", a, b), call.out().dtype);
}

// One op of both operands, in `dtype` or the result's type.
Rule of_both(std::string_view name, std::optional<ElementType> dtype = {}) {
  return [name, dtype](Call& call) {
    const auto [a, b] = both(call, call.at(0), call.at(1), dtype);
    return call.body.binary(name, a, b);
  };
}

Rule without_nan(std::string_view name) {
  return [name](Call& call) {
    Body& body = call.body;
    const auto [a, b] = both(call, call.at(0), call.at(1));
    const Value found = body.binary(name, a, b);
    if (!graph::is_float(a.dtype)) return found;
    const Value first = body.is_nan(a);
    const Value second = body.is_nan(b);
    return body.select(first, b, body.select(second, a, found));
  };
}

Rule shift(bool leftwards) {
  return [leftwards](Call& call) {
    const ElementType dtype = call.out().dtype;
    require(graph::is_integer(dtype), "of torch.bool is not written");
    const auto [a, b] = both(call, call.at(0), call.at(1));
    if (leftwards) return call.body.binary("shift_left", a, b);
    return call.body.binary(is_signed(dtype) ? "shift_right_arithmetic" : "shift_right_logical", a, b);
  };
}

Value chosen(Call& call, const Arg& condition, const Arg& left, const Arg& right) {
  const auto [a, b] = both(call, left, right);
  return call.body.select(call.body.tensor(condition, ElementType::kI1, call.out().shape), a, b);
}

// NaN where any of the three is one.
Value clamped(Call& call, const Arg& low, const Arg& high) {
  const auto& [shape, dtype, _] = call.out();
  Value made = call.body.tensor(call.at(0), dtype, shape);
  if (!low.is_none()) made = call.body.binary("maximum", made, call.body.tensor(low, dtype, shape));
  if (!high.is_none()) made = call.body.binary("minimum", made, call.body.tensor(high, dtype, shape));
  return made;
}

Value times(Body& body, const Value& value, const Arg& factor) {
  if (factor.is_none() || equals(factor.number(), 1)) return value;
  return body.multiply(value, body.like(factor.number(), value));
}

// Among whole numbers torch takes the whole part of `value`.
Value addcmul(Call& call) {
  Body& body = call.body;
  const ElementType dtype = math_dtype(call.out().dtype);
  const auto [a, b] = both(call, call.at(1), call.at(2), dtype);
  const Arg& given = call.named("value");
  const bool is_cut = graph::is_integer(dtype) && !given.is_none() && !given.is_integer();
  const Value multiplied = body.multiply(a, b);
  const Value product = is_cut ? body.multiply(multiplied, body.like(std::trunc(given.real()), multiplied))
                               : times(body, multiplied, given);
  const Value to = body.tensor(call.at(0), dtype, call.out().shape);
  return body.convert(body.add(to, product), call.out().dtype);
}

Value addcdiv(Call& call) {
  Body& body = call.body;
  const ElementType dtype = math_dtype(call.out().dtype);
  const auto [a, b] = both(call, call.at(1), call.at(2), dtype);
  const Value scaled_a = times(body, a, call.named("value"));
  const Value to = body.tensor(call.at(0), dtype, call.out().shape);
  return body.convert(body.add(to, body.divide(scaled_a, b)), call.out().dtype);
}

// left right + to; the device rounds twice.
Value fma(Call& call) {
  const auto [a, b] = both(call, call.at(0), call.at(1));
  const Value product = call.body.multiply(a, b);
  return call.body.add(product, call.body.tensor(call.at(2), call.out().dtype, call.out().shape));
}

// start + weight (end - start), from the nearer end.
Value lerp(Call& call) {
  Body& body = call.body;
  const ElementType dtype = math_dtype(call.out().dtype);
  const auto [a, b] = both(call, call.at(0), call.at(1), dtype);
  const Value share = body.tensor(call.at(2), dtype, call.out().shape);
  const Value span = body.subtract(b, a);
  const Value near_start = body.add(a, body.multiply(share, span));
  const Value one = body.like(1, share);
  const Value near_end = body.subtract(b, body.multiply(span, body.subtract(one, share)));
  const Value size = body.op("abs", {share}, share.shape, graph::real_part(share.dtype));
  const Value is_near = body.compare("LT", size, body.like(0.5, size));
  return body.convert(body.select(is_near, near_start, near_end), call.out().dtype);
}

Value hypot(Call& call) {
  Body& body = call.body;
  const auto [left, right] = both(call, call.at(0), call.at(1), math_dtype(call.out().dtype));
  const Value a = body.unary("abs", left);
  const Value b = body.unary("abs", right);
  const Value high = body.binary("maximum", a, b);
  const Value low = body.binary("minimum", a, b);
  const Value zero = body.like(0, high);
  const Value one = body.like(1, high);
  const Value is_zero = body.compare("EQ", high, zero);
  const Value ratio = body.divide(low, body.select(is_zero, one, high));
  // The larger leg times sqrt(1 + ratio^2), which does not overflow.
  const Value root = body.unary("sqrt", body.add(one, body.multiply(ratio, ratio)));
  const Value size = body.multiply(high, root);
  const Value infinite = body.compare("EQ", high, body.like(std::numeric_limits<double>::infinity(), high));
  return body.convert(body.select(infinite, high, size), call.out().dtype);
}

}  // namespace

std::pair<Value, Value> both(Call& call, const Arg& left, const Arg& right,
                             std::optional<ElementType> dtype) {
  const ElementType kind = dtype.value_or(call.out().dtype);
  Value first = call.body.tensor(left, kind, call.out().shape);
  return {std::move(first), call.body.tensor(right, kind, call.out().shape)};
}

Value floored(Body& body, const Value& a, const Value& b) {
  if (graph::is_float(a.dtype)) return floored_floats(body, a, b);
  const Value quotient = body.divide(a, b);
  if (!is_signed(a.dtype)) return quotient;
  const Value rest = body.subtract(a, body.multiply(quotient, b));
  const Value zero = body.like(0, a);
  const Value differs = signs_differ(body, rest, b, zero);
  const Value inexact = is_inexact(body, rest, zero, differs);
  const Value lower = body.subtract(quotient, body.like(1, a));
  return body.select(inexact, lower, quotient);
}

Value truncated(Body& body, const Value& value) {
  if (!graph::is_float(value.dtype)) return value;
  const Value down = body.unary("floor", value);
  const Value up = body.unary("ceil", value);
  return body.select(body.compare("LT", value, body.like(0, value)), up, down);
}

Table arithmetic() {
  return {
      {{"add.Tensor", "add.Scalar", "prims.add"}, add},
      {{"sub.Tensor", "sub.Scalar", "prims.sub"}, sub},
      {{"rsub.Tensor", "rsub.Scalar"}, rsub},
      {{"mul.Tensor", "mul.Scalar", "prims.mul"}, mul},
      {{"div", "true_divide.Tensor", "prims.div"}, div},
      {{"floor_divide"}, floor_divide},
      {{"remainder"}, remainder},
      {{"fmod"}, fmod},
      {{"pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar", "prims.pow"}, power},
      {{"maximum", "prims.maximum"}, of_both("maximum")},
      {{"minimum", "prims.minimum"}, of_both("minimum")},
      {{"fmax", "prims.fmax"}, without_nan("maximum")},
      {{"fmin", "prims.fmin"}, without_nan("minimum")},
      {{"atan2", "prims.atan2"}, of_both("atan2")},
      {{"hypot.default", "prims.hypot"}, hypot},
      {{"nextafter.default", "prims.nextafter"}, of_both("chlo.next_after")},
      {{"prims.zeta"}, of_both("chlo.zeta")},
      {{"bitwise_and", "prims.bitwise_and", "__and__"}, of_both("and")},
      {{"bitwise_or", "prims.bitwise_or", "__or__"}, of_both("or")},
      {{"bitwise_xor", "prims.bitwise_xor", "__xor__"}, of_both("xor")},
      {{"bitwise_left_shift", "prims.shift_left", "__lshift__"}, shift(true)},
      {{"bitwise_right_shift", "prims.shift_right_arithmetic", "__rshift__"}, shift(false)},
      {{"bitwise_not", "prims.bitwise_not"},
       [](Call& call) { return call.body.unary("not", call.value(0)); }},
      {{"logical_not"},
       [](Call& call) { return call.body.unary("not", call.body.convert(call.value(0), ElementType::kI1)); }},
      {{"logical_and"}, of_both("and", ElementType::kI1)},
      {{"logical_or"}, of_both("or", ElementType::kI1)},
      {{"logical_xor"}, of_both("xor", ElementType::kI1)},
      {{"where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar", "prims.where"},
       [](Call& call) { return chosen(call, call.at(0), call.at(1), call.at(2)); }},
      {{"masked_fill"}, [](Call& call) { return chosen(call, call.at(1), call.at(2), call.at(0)); }},
      {{"clamp.default", "clamp.Tensor"}, [](Call& call) { return clamped(call, call.at(1), call.at(2)); }},
      {{"clamp_min"}, [](Call& call) { return clamped(call, call.at(1), {}); }},
      {{"clamp_max"}, [](Call& call) { return clamped(call, {}, call.at(1)); }},
      {{"addcmul.default"}, addcmul},
      {{"addcdiv.default"}, addcdiv},
      {{"prims.fma"}, fma},
      {{"lerp.Scalar", "lerp.Tensor"}, lerp},
  };
}

}  // namespace opentrn::import::aten
