// Ops on the bits of numbers, and whole powers: exact.
#include <cmath>
#include <limits>

#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"

namespace opentrn::compiler {

namespace {

using Values = std::vector<ValueId>;
using Operands = std::span<const ValueId>;

bool on_integers(const Function& function, const Op& op) {
  const graph::Type& type = function.type(op.operands[0]);
  return type.is_tensor() && type.is_static() && graph::is_integer(type.element());
}

bool on_floats(const Function& function, const Op& op) {
  const graph::Type& type = function.type(op.operands[0]);
  return type.is_tensor() && type.is_static() && !type.quantization() && graph::is_float(type.element());
}

uint32_t mask_of(int bits) { return bits >= 32 ? ~0U : (1U << bits) - 1; }

// The low 32 bits, zero-extended from the type's width.
Expr word_of(const Expr& x) {
  const int width = graph::bit_width(x.type().element());
  const Expr word = x.as(ElementType::kI32);
  return width < 32 ? word & word.bits(mask_of(width)) : word;
}

Expr ones_of_word(const Expr& word) {
  Expr v = word - ((word >> 1) & word.bits(0x55555555U));
  v = (v & v.bits(0x33333333U)) + ((v >> 2) & v.bits(0x33333333U));
  v = (v + (v >> 4)) & v.bits(0x0F0F0F0FU);
  return (v * v.bits(0x01010101U)) >> 24;
}

// A 64-bit integer is 32 bits and their sign on the device.
Expr upper_word_is_ones(const Expr& x) { return x < 0.0; }

Values population_count(Builder& builder, const Function&, const Op&, Operands operands) {
  const Expr x(builder, operands[0]);
  const ElementType element = x.type().element();
  Expr count = ones_of_word(word_of(x));
  if (graph::bit_width(element) == 64 && graph::is_signed_integer(element))
    count = select(upper_word_is_ones(x), count + 32, count);
  return {count.as(element).id()};
}

Values leading_zeros(Builder& builder, const Function&, const Op&, Operands operands) {
  const Expr x(builder, operands[0]);
  const ElementType element = x.type().element();
  const int width = graph::bit_width(element);
  Expr v = word_of(x);
  for (const int shift : {1, 2, 4, 8, 16})
    if (shift < width) v = v | (v >> shift);
  Expr count = static_cast<double>(width) - ones_of_word(v);
  if (width == 64 && graph::is_signed_integer(element))
    count = select(upper_word_is_ones(x), count.number(0), count);
  return {count.as(element).id()};
}

// The codes of a float as 32-bit integers.
struct Code {
  ElementType element, code;
  int exponent_bits, mantissa_bits;
};

std::optional<Code> code_of(ElementType element) {
  switch (element) {
    case ElementType::kF32: return Code{element, ElementType::kI32, 8, 23};
    case ElementType::kF16: return Code{element, ElementType::kI16, 5, 10};
    case ElementType::kBF16: return Code{element, ElementType::kI16, 8, 7};
    default: return std::nullopt;
  }
}

bool on_codes(const Function& function, const Op& op) {
  return on_floats(function, op) && code_of(function.type(op.operands[0]).element());
}

Expr to_code(const Expr& x, const Code& code) { return x.seen_as(code.code).as(ElementType::kI32); }
Expr from_code(const Expr& x, const Code& code) { return x.as(code.code).seen_as(code.element); }

// Rounds the code to the nearest, ties to even; then numbers beyond the exponents are infinite or zero.
Values reduce_precision(Builder& builder, const Function&, const Op& op, Operands operands) {
  const Expr x(builder, operands[0]);
  const Code code = *code_of(x.type().element());
  const auto exponent_bits = static_cast<int>(op.integer(Attr::exponent_bits));
  const auto mantissa_bits = static_cast<int>(op.integer(Attr::mantissa_bits));
  const int width = code.exponent_bits + code.mantissa_bits;  // without the sign
  Expr v = to_code(x, code);
  const Expr sign = v & v.bits(~mask_of(width));
  Expr size = v & v.bits(mask_of(width));
  const double infinity = static_cast<double>(mask_of(width) & ~mask_of(code.mantissa_bits));
  const Expr nan = size > infinity;
  if (const int dropped = code.mantissa_bits - mantissa_bits; dropped > 0) {
    // Without a mantissa every number is odd: a tie goes up, as in the evaluator.
    const Expr odd = mantissa_bits == 0 ? size.bits(1) : (size >> dropped) & size.bits(1);
    size = (size + odd + static_cast<double>(mask_of(dropped - 1))) & size.bits(~mask_of(dropped));
  }
  if (exponent_bits < code.exponent_bits) {
    const int own_bias = (1 << (code.exponent_bits - 1)) - 1, bias = (1 << (exponent_bits - 1)) - 1;
    const double beyond = std::ldexp(own_bias + bias + 1, code.mantissa_bits);
    const double smallest = std::ldexp(own_bias - bias + 1, code.mantissa_bits);
    size = select(size >= beyond, size.number(infinity), select(size < smallest, size.number(0), size));
  }
  // A NaN without mantissa bits to say so is an infinity.
  const Expr kept = mantissa_bits == 0 ? v.number(infinity) | sign : v;
  return {from_code(select(nan, kept, size | sign), code).id()};
}

Values next_after(Builder& builder, const Function&, const Op&, Operands operands) {
  const Expr x(builder, operands[0]), y(builder, operands[1]);
  const Code code = *code_of(x.type().element());
  const int width = code.exponent_bits + code.mantissa_bits;
  const Expr a = to_code(x, code), b = to_code(y, code);
  const Expr sign = a & a.bits(~mask_of(width)), other_sign = b & b.bits(~mask_of(width));
  const Expr size = a & a.bits(mask_of(width)), other = b & b.bits(mask_of(width));
  const double infinity = static_cast<double>(mask_of(width) & ~mask_of(code.mantissa_bits));
  const Expr inwards = (size > other) | (sign != other_sign);
  const Expr step = size + select(inwards, size.number(-1), size.number(1));
  const Expr moved = select(size == 0.0, other_sign | a.bits(1), sign | step);
  const Expr same = (a == b) | ((size == 0.0) & (other == 0.0));
  const Expr nan = (size > infinity) | (other > infinity);
  const Expr quiet = a.number(infinity) | a.bits(1U << (code.mantissa_bits - 1));
  return {from_code(select(nan, quiet, select(same, b, moved)), code).id()};
}

template <int kSign>
Values is_infinite(Builder& builder, const Function&, const Op&, Operands operands) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Expr x = Expr(builder, operands[0]).as(ElementType::kF32);
  if (kSign == 0) return {(abs(x) == kInfinity).id()};
  return {(x == kSign * kInfinity).id()};
}

// The exponent's bits, one square each. A negative exponent: 1 and -1 have powers, all else is 0. Of 64 bits
// the 32 that a core has: squares of a constant would be folded to constants that have more.
Values whole_power(Builder& builder, const Function&, const Op&, Operands operands) {
  const ElementType given = Expr(builder, operands[0]).type().element();
  const bool is_wide = graph::bit_width(given) > 32;
  const ElementType element = !is_wide                          ? given
                              : graph::is_signed_integer(given) ? ElementType::kI32
                                                                : ElementType::kUI32;
  Expr base = Expr(builder, operands[0]).as(element);
  const Expr exponent = Expr(builder, operands[1]).as(element);
  const int width = graph::bit_width(element);
  const Expr first = base;
  Expr result = base.number(1);
  for (int bit = 0; bit < width - (graph::is_signed_integer(element) ? 1 : 0); ++bit) {
    const Expr set = ((exponent >> bit) & exponent.number(1)) != 0.0;
    result = select(set, result * base, result);
    base = base * base;
  }
  if (graph::is_signed_integer(element)) {
    const Expr even = (exponent & exponent.number(1)) == 0.0;
    const Expr alternating = select(even, first.number(1), first.number(-1));
    const Expr inverse = select(first == 1.0, first, select(first == -1.0, alternating, first.number(0)));
    result = select(exponent < 0.0, inverse, result);
  }
  return {result.as(given).id()};
}

bool up_to_32_bits(const Function& function, const Op& op) {
  return on_integers(function, op) && graph::bit_width(function.type(op.operands[0]).element()) <= 32;
}

// By halves of 16 bits; the upper word of a signed product is that of the unsigned one less what the signs
// added.
Values multiply_high(Builder& builder, const Function&, const Op&, Operands operands) {
  const Expr a(builder, operands[0]), b(builder, operands[1]);
  const ElementType element = a.type().element();
  const int width = graph::bit_width(element);
  const bool is_signed = graph::is_signed_integer(element);
  const ElementType wide = is_signed ? ElementType::kI32 : ElementType::kUI32;
  if (width <= 16) {
    const Expr product = a.as(wide) * b.as(wide);
    return {product.binary(OpKind::shift_right_arithmetic_, product.number(width)).as(element).id()};
  }
  const Expr x = a.as(ElementType::kUI32), y = b.as(ElementType::kUI32);
  const Expr low = x.number(0xFFFF);
  const Expr x0 = x & low, x1 = x >> 16, y0 = y & low, y1 = y >> 16;
  const Expr cross = x1 * y0 + ((x0 * y0) >> 16);
  const Expr other = x0 * y1 + (cross & low);
  Expr high = x1 * y1 + (cross >> 16) + (other >> 16);
  if (is_signed) {
    high = high - select(a < 0.0, y, y.number(0));
    high = high - select(b < 0.0, x, x.number(0));
  }
  return {high.as(element).id()};
}

// Of what width an engine has no register: a byte or half is extended with zeros, and its sign with it.
bool is_narrow_and_unsigned(const Function& function, const Op& op) {
  return on_integers(function, op) && graph::bit_width(function.type(op.operands[0]).element()) < 32 &&
         !graph::is_signed_integer(function.type(op.operands[0]).element());
}

// The first bit is the sign, as in XLA, of unsigned numbers too.
Values shift_with_sign(Builder& builder, const Function&, const Op&, Operands operands) {
  const Expr a(builder, operands[0]), amount(builder, operands[1]);
  const ElementType element = a.type().element();
  const int width = graph::bit_width(element);
  const Expr wide = a.as(ElementType::kI32), sign = wide.number(int64_t{1} << (width - 1));
  const Expr number = (wide ^ sign) - sign;
  const Expr shift = amount.as(ElementType::kI32);
  const Expr made = number.binary(OpKind::shift_right_arithmetic_, min(shift, shift.number(width - 1)));
  return {(made & made.number((int64_t{1} << width) - 1)).as(element).id()};
}

bool becomes_four_bits(const Function& function, const Op& op) {
  const graph::Type &from = function.type(op.operands[0]), &to = function.type(op.results[0]);
  return from.is_tensor() && to.is_tensor() && graph::is_float(from.element()) &&
         graph::is_integer(to.element()) && graph::bit_width(to.element()) < 8;
}

// Memory has bytes for them, to whose ends a conversion would go.
Values within_few_bits(Builder& builder, const Function& function, const Op& op, Operands operands) {
  const ElementType to = function.type(op.results[0]).element();
  const bool has_sign = graph::is_signed_integer(to);
  const double end = std::ldexp(1.0, graph::bit_width(to) - (has_sign ? 1 : 0));
  const Expr x(builder, operands[0]);
  const Expr inside = max(min(x, x.number(end - 1)), x.number(has_sign ? -end : 0));
  return {inside.as(has_sign ? ElementType::kI8 : ElementType::kUI8).as(to).id()};
}

constexpr Expansion kBitExpansions[] = {
    {OpKind::shift_right_arithmetic_, is_narrow_and_unsigned, shift_with_sign},
    {OpKind::convert_, becomes_four_bits, within_few_bits},
    {OpKind::popcnt_, on_integers, population_count},
    {OpKind::count_leading_zeros_, on_integers, leading_zeros},
    {OpKind::reduce_precision_, on_codes, reduce_precision},
    {OpKind::chlo_next_after_, on_codes, next_after},
    {OpKind::chlo_is_inf_, on_floats, is_infinite<0>},
    {OpKind::chlo_is_pos_inf_, on_floats, is_infinite<1>},
    {OpKind::chlo_is_neg_inf_, on_floats, is_infinite<-1>},
    {OpKind::power_, on_integers, whole_power},
    {OpKind::chlo_mulhi_, up_to_32_bits, multiply_high},
};

}  // namespace

std::span<const Expansion> bit_expansions() { return kBitExpansions; }

}  // namespace opentrn::compiler
