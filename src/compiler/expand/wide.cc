// ui64 arithmetic as arithmetic on two words. The device has no 64-bit integers, and programs that use ui64
// mean all of its bits: random numbers, products whose upper half is wanted.
//
// Between these ops a ui64 value is a bitcast_convert of its words, ui32 [..., 2] with the low one first.
// What no op here takes further becomes the 32 bits that stand for it elsewhere (analysis/device_type.h).
#include <algorithm>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/expand/expand.h"
#include "graph/element_value.h"

namespace opentrn::compiler {

namespace {

using Values = std::vector<ValueId>;
using Operands = std::span<const ValueId>;

struct Words {
  Expr low, high;  // ui32
};

bool is_wide(const graph::Type& type) {
  return type.is_tensor() && type.is_static() && type.element() == ElementType::kUI64;
}
bool is_wide(const Function& function, ValueId value) { return is_wide(function.type(value)); }

// A ui64 value that is written as its words.
bool is_joined(const Function& function, const Op& op) {
  return op.kind == OpKind::bitcast_convert_ && is_wide(function, op.results[0]) &&
         function.type(op.operands[0]).element() == ElementType::kUI32;
}

ValueId joined(const Words& words) {
  Builder& builder = words.low.builder();
  const Dims dims = words.low.type().dims_vector();
  Dims single = dims;
  single.push_back(1);
  const ValueId pairs =
      builder.concatenate({builder.reshape(words.low.id(), single), builder.reshape(words.high.id(), single)},
                          static_cast<int64_t>(dims.size()));
  return builder.add(OpKind::bitcast_convert_, {pairs}, {}, {graph::Type::tensor(ElementType::kUI64, dims)});
}

// Word `half` of pairs [..., 2]: the value that it was joined from where that is known.
Expr word(Builder& builder, ValueId pairs, size_t half) {
  if (const Op* both = maker(builder.function(), pairs);
      both && both->kind == OpKind::concatenate_ && both->operands.size() == 2) {
    const Op* part = maker(builder.function(), both->operands[half]);
    if (part && part->kind == OpKind::reshape_) return {builder, part->operands[0]};
  }
  const Dims dims = builder.type(pairs).dims_vector();
  Dims begin(dims.size(), 0), end = dims;
  begin.back() = static_cast<int64_t>(half);
  end.back() = begin.back() + 1;
  return {builder, builder.reshape(builder.slice(pairs, begin, end), Dims(dims.begin(), dims.end() - 1))};
}

Expr constant_word(Builder& builder, const graph::Literal& literal, int shift) {
  std::vector<std::byte> bytes(static_cast<size_t>(literal.type().element_count()) * 4);
  for (int64_t i = 0; i < literal.type().element_count(); ++i) {
    const auto value = static_cast<uint64_t>(graph::load_integer(ElementType::kUI64, literal.element(i)));
    graph::store_integer(ElementType::kUI32, static_cast<int64_t>((value >> shift) & 0xFFFFFFFFu),
                         bytes.data() + 4 * i);
  }
  return {builder, builder.constant(
                       graph::Literal(literal.type().with_element(ElementType::kUI32), std::move(bytes)))};
}

// Of a narrower integer: its sign fills the upper word.
Words widened(Builder& builder, ValueId value) {
  const Expr x(builder, value), low = x.as(ElementType::kUI32), zero = low.number(0);
  const bool has_sign = graph::is_signed_integer(x.type().element());
  return {low, has_sign ? select(x < 0, ~zero, zero) : zero};
}

Expr as_word(const Expr& condition) { return condition.as(ElementType::kUI32); }

Words sum(const Words& a, const Words& b) {
  const Expr low = a.low + b.low;
  return {low, a.high + b.high + as_word(low < a.low)};
}

Words difference(const Words& a, const Words& b) {
  return {a.low - b.low, a.high - b.high - as_word(a.low < b.low)};
}

// As widened(); of an i64 sum or difference, which 32 bits may not hold, all bits.
Words widened_exactly(Builder& builder, ValueId value) {
  const Op* made = maker(builder.function(), value);
  if (!made || builder.type(value).element() != ElementType::kI64 ||
      (made->kind != OpKind::add_ && made->kind != OpKind::subtract_))
    return widened(builder, value);
  const bool adds = made->kind == OpKind::add_;
  const ValueId left = made->operands[0], right = made->operands[1];
  const Words a = widened(builder, left), b = widened(builder, right);
  return adds ? sum(a, b) : difference(a, b);
}

Words words_of(Builder& builder, ValueId value) {
  const Function& function = builder.function();
  if (const Op* made = maker(function, value)) {
    if (is_joined(function, *made)) {
      const ValueId pairs = made->operands[0];  // `made` moves when the builder adds ops
      return {word(builder, pairs, 0), word(builder, pairs, 1)};
    }
    if (made->kind == OpKind::constant_) {
      const graph::Literal literal = made->literal(Attr::value);
      return {constant_word(builder, literal, 0), constant_word(builder, literal, 32)};
    }
    if (made->kind == OpKind::convert_ && (graph::is_integer(function.type(made->operands[0]).element()) ||
                                           graph::is_bool(function.type(made->operands[0]).element())))
      return widened_exactly(builder, made->operands[0]);
  }
  return widened(builder, value);  // the 32 bits that stand for it
}

bool on_wide(const Function& function, const Op& op) {
  const auto wide = [&](ValueId value) { return is_wide(function, value); };
  return std::any_of(op.operands.begin(), op.operands.end(), wide) ||
         std::any_of(op.results.begin(), op.results.end(), wide);
}

Words product(const Words& a, const Words& b) {
  const Expr upper = a.low.binary(OpKind::chlo_mulhi_, b.low);
  return {a.low * b.low, upper + a.low * b.high + a.high * b.low};
}

// Shifts of a word by 32 bits or more give zero, so that amounts that wrap below zero do.
Expr shifted(OpKind kind, const Expr& x, const Expr& amount) { return x.binary(kind, amount); }

// How far: an amount that does not fit a word is as good as the largest.
Expr amount_of(const Words& b) { return select(b.high == 0, b.low, ~b.high.number(0)); }

Words shifted_left(const Words& a, const Words& b) {
  const Expr by = amount_of(b), up = 32 - by, beyond = by - 32;
  const auto left = [](const Expr& x, const Expr& n) { return shifted(OpKind::shift_left_, x, n); };
  const Expr carried = shifted(OpKind::shift_right_logical_, a.low, up);
  return {left(a.low, by), left(a.high, by) | carried | left(a.low, beyond)};
}

Words shifted_right(const Words& a, const Words& b) {
  const Expr by = amount_of(b), up = 32 - by, beyond = by - 32;
  const auto right = [](const Expr& x, const Expr& n) { return shifted(OpKind::shift_right_logical_, x, n); };
  const Expr carried = shifted(OpKind::shift_left_, a.high, up);
  return {right(a.low, by) | carried | right(a.high, beyond), right(a.high, by)};
}

Expr less(const Words& a, const Words& b) {
  return (a.high < b.high) | ((a.high == b.high) & (a.low < b.low));
}
Expr equal(const Words& a, const Words& b) { return (a.high == b.high) & (a.low == b.low); }

Words chosen(const Expr& condition, const Words& a, const Words& b) {
  return {select(condition, a.low, b.low), select(condition, a.high, b.high)};
}

Words smaller(const Words& a, const Words& b) { return chosen(less(b, a), b, a); }
Words larger(const Words& a, const Words& b) { return chosen(less(a, b), b, a); }
Words both(const Words& a, const Words& b) { return {a.low & b.low, a.high & b.high}; }
Words either(const Words& a, const Words& b) { return {a.low | b.low, a.high | b.high}; }
Words one_of(const Words& a, const Words& b) { return {a.low ^ b.low, a.high ^ b.high}; }

struct Divided {
  Words quotient, rest;
};

// Bit by bit from the highest. Of a division by zero the quotient is all ones, and the rest what was divided.
Divided divided(const Words& a, const Words& b) {
  Builder& builder = a.low.builder();
  const Expr zero = a.low.number(0);
  const graph::Type counter = graph::Type::scalar(ElementType::kI32), word = a.low.type();
  // rest, and what is left of `a` with the quotient behind it
  const Values start{builder.splat(counter, 0), zero.id(), zero.id(), a.low.id(), a.high.id()};
  const std::vector<graph::Type> types{counter, word, word, word, word};
  const graph::RegionBody more{types, [](Builder& body, std::span<const ValueId> x) {
                                 return Values{(Expr(body, x[0]) < 64.0).id()};
                               }};
  const graph::RegionBody step{types, [&](Builder& body, std::span<const ValueId> x) {
                                 const auto at = [&](size_t i) { return Expr(body, x[i]); };
                                 const Words by{Expr(body, b.low.id()), Expr(body, b.high.id())};
                                 const Expr carried = at(2) >> 31;
                                 const Words rest{at(1) << 1 | at(4) >> 31, at(2) << 1 | at(1) >> 31};
                                 const Expr fits = (carried != 0) | ~less(rest, by);
                                 const Words next = chosen(fits, difference(rest, by), rest);
                                 return Values{(at(0) + 1.0).id(), next.low.id(), next.high.id(),
                                               (at(3) << 1 | as_word(fits)).id(),
                                               (at(4) << 1 | at(3) >> 31).id()};
                               }};
  const OpId loop = builder.add_with_regions(OpKind::while_, start, {}, types, {more, step});
  const Values made = builder.function().op(loop).results;
  const auto result = [&](size_t i) { return Expr(builder, made[i]); };
  return {{result(3), result(4)}, {result(1), result(2)}};
}

Words quotient(const Words& a, const Words& b) { return divided(a, b).quotient; }
Words remainder(const Words& a, const Words& b) { return divided(a, b).rest; }

template <Words (*kBody)(const Words&, const Words&)>
Values binary(Builder& builder, const Function&, const Op&, Operands operands) {
  return {joined(kBody(words_of(builder, operands[0]), words_of(builder, operands[1])))};
}

Values complement(Builder& builder, const Function&, const Op&, Operands operands) {
  const Words x = words_of(builder, operands[0]);
  return {joined({~x.low, ~x.high})};
}

Values negated(Builder& builder, const Function&, const Op&, Operands operands) {
  const Words x = words_of(builder, operands[0]);
  const Expr zero = x.low.number(0);
  return {joined(difference({zero, zero}, x))};
}

Values ones(Builder& builder, const Function&, const Op&, Operands operands) {
  const Words x = words_of(builder, operands[0]);
  return {joined({x.low.unary(OpKind::popcnt_) + x.high.unary(OpKind::popcnt_), x.low.number(0)})};
}

Values wide_leading_zeros(Builder& builder, const Function&, const Op&, Operands operands) {
  const Words x = words_of(builder, operands[0]);
  const auto count = [](const Expr& w) { return w.unary(OpKind::count_leading_zeros_); };
  return {joined({select(x.high == 0, count(x.low) + 32, count(x.high)), x.low.number(0)})};
}

Values wide_compared(Builder& builder, const Function&, const Op& op, Operands operands) {
  const Words a = words_of(builder, operands[0]), b = words_of(builder, operands[1]);
  switch (op.enumeration(Attr::comparison_direction, ComparisonDirection::kEq)) {
    case ComparisonDirection::kEq: return {equal(a, b).id()};
    case ComparisonDirection::kNe: return {(~equal(a, b)).id()};
    case ComparisonDirection::kLt: return {less(a, b).id()};
    case ComparisonDirection::kGe: return {(~less(a, b)).id()};
    case ComparisonDirection::kGt: return {less(b, a).id()};
    case ComparisonDirection::kLe: return {(~less(b, a)).id()};
  }
  OPENTRN_CHECK(false, "a comparison without direction");
}

// The op on each word; operands that are not ui64 serve both.
Values by_words(Builder& builder, const Function& function, const Op& op, Operands operands) {
  Values halves[2];
  for (const ValueId operand : operands) {
    if (!is_wide(builder.type(operand))) {
      for (Values& half : halves) half.push_back(operand);
      continue;
    }
    const Words words = words_of(builder, operand);
    halves[0].push_back(words.low.id());
    halves[1].push_back(words.high.id());
  }
  const graph::Type type = function.type(op.results[0]).with_element(ElementType::kUI32);
  return {joined({{builder, builder.add(op.kind, halves[0], op.attributes, {type})},
                  {builder, builder.add(op.kind, halves[1], op.attributes, {type})}})};
}

// -- conversions

// The nearest f32: the leading 32 bits, whose last one also stands for all that follow it.
Expr nearest_f32(const Words& x) {
  const Expr zeros = x.high.unary(OpKind::count_leading_zeros_);
  const auto left = [](const Expr& w, const Expr& n) { return w.binary(OpKind::shift_left_, n); };
  const Expr lead = left(x.high, zeros) | shifted(OpKind::shift_right_logical_, x.low, 32 - zeros);
  const Expr rest = as_word(left(x.low, zeros) != 0);
  const Expr scale = ((159 - zeros) << 23).seen_as(ElementType::kF32);  // 2^(32 - zeros)
  return select(x.high == 0, x.low.as(ElementType::kF32), (lead | rest).as(ElementType::kF32) * scale);
}

// Leaves conversions that the 32 bits standing for a ui64 serve: from integers, and of what no op here made.
bool converts(const Function& function, const Op& op) {
  const ElementType from = function.type(op.operands[0]).element(),
                    to = function.type(op.results[0]).element();
  if (from == to) return false;
  if (is_wide(function, op.results[0])) return graph::is_float(from);
  const Op* made = maker(function, op.operands[0]);
  return is_wide(function, op.operands[0]) && made && !graph::is_complex(to) &&
         (made->kind == OpKind::constant_ || is_joined(function, *made) || has_expansion(function, *made));
}

// What lies outside becomes the nearest end, NaN zero, as in a conversion to 32 bits.
Words from_f32(const Expr& x) {
  const Expr is_beyond = x >= 0x1p64, is_inside = (x > 0.0) & ~is_beyond;
  const Expr whole = floor(select(is_inside, x, x.number(0))), high = floor(whole * 0x1p-32);
  const auto word = [&](const Expr& inside) {
    const Expr made = inside.as(ElementType::kUI32);
    return select(is_beyond, made.bits(~uint32_t{0}), made);
  };
  return {word(whole - high * 0x1p32), word(high)};
}

Values converted(Builder& builder, const Function& function, const Op& op, Operands operands) {
  const ElementType to = function.type(op.results[0]).element();
  if (to == ElementType::kUI64) return {joined(from_f32(Expr(builder, operands[0]).as(ElementType::kF32)))};
  const Words x = words_of(builder, operands[0]);
  if (graph::is_bool(to)) return {((x.low | x.high) != 0).id()};
  if (graph::is_float(to)) return {nearest_f32(x).as(to).id()};
  return {x.low.as(to).id()};
}

bool is_seen_as_words(const Function& function, const Op& op) {
  return is_wide(function, op.operands[0]) && function.type(op.results[0]).element() == ElementType::kUI32;
}

Values seen_as_words(Builder& builder, const Function&, const Op&, Operands operands) {
  const Words x = words_of(builder, operands[0]);
  Dims single = x.low.type().dims_vector();
  single.push_back(1);
  return {builder.concatenate({builder.reshape(x.low.id(), single), builder.reshape(x.high.id(), single)},
                              static_cast<int64_t>(single.size()) - 1)};
}

// Between ui64 and itself or i64, which keeps 32 bits here as everywhere.
bool is_seen_as_64_bits(const Function& function, const Op& op) {
  const auto takes = [](ElementType element) {
    return element == ElementType::kUI64 || element == ElementType::kI64;
  };
  return on_wide(function, op) && takes(function.type(op.operands[0]).element()) &&
         takes(function.type(op.results[0]).element());
}

Values seen_as_64_bits(Builder& builder, const Function& function, const Op& op, Operands operands) {
  if (is_wide(function, op.results[0])) return {joined(words_of(builder, operands[0]))};
  const Expr low = words_of(builder, operands[0]).low;
  return {low.seen_as(ElementType::kI32).as(ElementType::kI64).id()};
}

bool is_seen_as_f64(const Function& function, const Op& op) {
  return is_wide(function, op.operands[0]) && function.type(op.results[0]).element() == ElementType::kF64;
}

// The f32 that stands for an f64 of these bits: cut off, so that a number below two stays there (that is how
// uniform numbers are drawn). Beyond f32's range infinity and zero.
Values seen_as_f64(Builder& builder, const Function&, const Op&, Operands operands) {
  const Words x = words_of(builder, operands[0]);
  const Expr sign = x.high & x.high.bits(0x80000000u), exponent = (x.high >> 20) & x.high.number(0x7FF);
  const Expr fraction = (x.high & x.high.number(0xFFFFF)) << 3 | x.low >> 29;
  const Expr scaled = (exponent - 896.0) << 23, infinite = x.high.bits(0x7F800000u);
  const Expr nan = (exponent == 2047.0) & (((x.high & x.high.number(0xFFFFF)) | x.low) != 0);
  const Expr finite = select(exponent <= 896.0, x.high.number(0), scaled | fraction);
  const Expr large = select(nan, x.high.bits(0x7FC00000u), infinite);
  const Expr bits = sign | select(exponent >= 1151.0, large, finite);
  return {bits.seen_as(ElementType::kF32).as(ElementType::kF64).id()};
}

bool is_f64_seen(const Function& function, const Op& op) {
  return is_wide(function, op.results[0]) && function.type(op.operands[0]).element() == ElementType::kF64;
}

// The bits of the f64 that an f32 stands for.
Values f64_seen(Builder& builder, const Function&, const Op&, Operands operands) {
  const Expr x = Expr(builder, operands[0]).as(ElementType::kF32).seen_as(ElementType::kUI32);
  const Expr sign = x & x.bits(0x80000000u), exponent = (x >> 23) & x.number(0xFF);
  const Expr fraction = x & x.number(0x7FFFFF);
  const Expr shifted = select(exponent == 255.0, x.number(2047), exponent + 896.0);
  const Expr zero = exponent == 0.0;
  const Expr high = sign | select(zero, x.number(0), shifted << 20 | fraction >> 3);
  return {joined({select(zero, x.number(0), fraction << 29), high})};
}

bool is_used_no_further(const Function& function, const Op& op) {
  if (!is_joined(function, op)) return false;
  bool used = false;
  walk(function, function.body(), [&](OpId id) {
    const Op& user = function.op(id);
    used |= std::find(user.operands.begin(), user.operands.end(), op.results[0]) != user.operands.end() &&
            has_expansion(function, user);
  });
  return !used;
}

Values low_bits(Builder& builder, const Function&, const Op&, Operands operands) {
  return {word(builder, operands[0], 0).as(ElementType::kUI64).id()};
}

constexpr Expansion kWideIntegerExpansions[] = {
    {OpKind::add_, on_wide, binary<sum>},
    {OpKind::subtract_, on_wide, binary<difference>},
    {OpKind::multiply_, on_wide, binary<product>},
    {OpKind::divide_, on_wide, binary<quotient>},
    {OpKind::remainder_, on_wide, binary<remainder>},
    {OpKind::and_, on_wide, binary<both>},
    {OpKind::or_, on_wide, binary<either>},
    {OpKind::xor_, on_wide, binary<one_of>},
    {OpKind::not_, on_wide, complement},
    {OpKind::negate_, on_wide, negated},
    {OpKind::popcnt_, on_wide, ones},
    {OpKind::count_leading_zeros_, on_wide, wide_leading_zeros},
    {OpKind::shift_left_, on_wide, binary<shifted_left>},
    {OpKind::shift_right_logical_, on_wide, binary<shifted_right>},
    {OpKind::maximum_, on_wide, binary<larger>},
    {OpKind::minimum_, on_wide, binary<smaller>},
    {OpKind::compare_, on_wide, wide_compared},
    {OpKind::convert_, converts, converted},
    {OpKind::bitcast_convert_, is_seen_as_words, seen_as_words},
    {OpKind::bitcast_convert_, is_seen_as_64_bits, seen_as_64_bits},
    {OpKind::bitcast_convert_, is_seen_as_f64, seen_as_f64},
    {OpKind::bitcast_convert_, is_f64_seen, f64_seen},
    {OpKind::bitcast_convert_, is_used_no_further, low_bits},
    {OpKind::broadcast_in_dim_, on_wide, by_words},
    {OpKind::transpose_, on_wide, by_words},
    {OpKind::reshape_, on_wide, by_words},
    {OpKind::slice_, on_wide, by_words},
    {OpKind::reverse_, on_wide, by_words},
    {OpKind::concatenate_, on_wide, by_words},
    {OpKind::pad_, on_wide, by_words},
    {OpKind::select_, on_wide, by_words},
};

}  // namespace

std::span<const Expansion> wide_integer_expansions() { return kWideIntegerExpansions; }

}  // namespace opentrn::compiler
