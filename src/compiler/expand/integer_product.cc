// dot_general and convolution of integers, exactly, on an engine that multiplies floats: operands become
// digits of eight bits in bf16, which holds them exactly; the products of digits are summed in fp32 over at
// most so many terms that every sum is a whole number below 2^24; the rest is shifts and additions of 32-bit
// integers, which wrap as StableHLO has it. Digits whose product is shifted out of the result are left out.
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"
#include "graph/element_value.h"

namespace opentrn::compiler {

namespace {

constexpr int64_t kExact = 1 << 24;  // fp32 holds every whole number up to here
constexpr int64_t kDigit = 256;      // bf16 holds every whole number up to here
constexpr int kDefinitionsMax = 8;   // how far range_of looks

struct Range {
  int64_t low, high;
  int64_t magnitude() const { return std::max(std::abs(low), std::abs(high)); }
};

Range range_of_type(ElementType element) {
  const int bits = std::min(graph::bit_width(element), 32);
  if (graph::is_bool(element)) return {0, 1};
  if (graph::is_unsigned_integer(element)) return {0, (int64_t{1} << bits) - 1};
  return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
}

Range widest(const Function& function, ValueId value) {
  return range_of_type(function.type(value).element());
}

Range range_of_literal(const graph::Literal& literal) {
  const ElementType element = literal.type().element();
  const int64_t count = literal.is_splat() ? 1 : literal.type().element_count();
  Range range{INT64_MAX, INT64_MIN};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t value = graph::load_integer(element, literal.element(i));
    range = {std::min(range.low, value), std::max(range.high, value)};
  }
  const Range all = range_of_type(element);
  return range.low >= all.low && range.high <= all.high ? range : all;
}

// What values an integer can have: of 8-bit data less their zero point, nine bits.
Range range_of(const Function& function, ValueId value, int depth = 0) {
  const OpId id = function.value(value).op;
  if (id == graph::kNoOp || depth > kDefinitionsMax) return widest(function, value);
  const Op& op = function.op(id);
  switch (op.kind) {
    case OpKind::constant_: return range_of_literal(op.literal(Attr::value));
    case OpKind::convert_: {
      const ElementType from = function.type(op.operands[0]).element();
      const Range all = widest(function, value);
      if (!graph::is_integer(from) && !graph::is_bool(from)) return all;
      const Range range = range_of(function, op.operands[0], depth + 1);
      return range.low >= all.low && range.high <= all.high ? range : all;
    }
    case OpKind::broadcast_in_dim_:
    case OpKind::reshape_:
    case OpKind::transpose_:
    case OpKind::slice_:
    case OpKind::reverse_: return range_of(function, op.operands[0], depth + 1);
    case OpKind::subtract_:
    case OpKind::add_: {
      const Range a = range_of(function, op.operands[0], depth + 1),
                  b = range_of(function, op.operands[1], depth + 1), all = widest(function, value);
      const Range sum = op.kind == OpKind::add_ ? Range{a.low + b.low, a.high + b.high}
                                                : Range{a.low - b.high, a.high - b.low};
      return sum.low >= all.low && sum.high <= all.high ? sum : all;
    }
    default: return widest(function, value);
  }
}

struct Digit {
  ValueId value;  // bf16
  int64_t magnitude;
  int shift;
};

// x = sum of digit << shift. The last digit carries the sign.
std::vector<Digit> digits_of(Builder& builder, ValueId value) {
  const Range range = range_of(builder.function(), value);
  const Expr x(builder, value);
  if (range.magnitude() <= kDigit) return {{x.as(ElementType::kBF16).id(), range.magnitude(), 0}};
  const bool is_signed = range.low < 0;
  const Expr word = x.as(is_signed ? ElementType::kI32 : ElementType::kUI32);
  std::vector<Digit> digits;
  for (int shift = 0;; shift += 8) {
    const Expr rest =
        shift == 0 ? word
                   : word.binary(is_signed ? OpKind::shift_right_arithmetic_ : OpKind::shift_right_logical_,
                                 word.number(shift));
    const Range left{range.low >> shift, range.high >> shift};
    if (left.magnitude() <= kDigit) {
      digits.push_back({rest.as(ElementType::kBF16).id(), left.magnitude(), shift});
      return digits;
    }
    digits.push_back({(rest & rest.number(kDigit - 1)).as(ElementType::kBF16).id(), kDigit - 1, shift});
  }
}

// Multiplies bf16 values; at most `terms` of them in a sum. 32-bit integers.
using Multiply = std::function<Expr(ValueId lhs, ValueId rhs, int64_t terms)>;

ValueId product_of_digits(Builder& builder, std::span<const ValueId> operands, ElementType result,
                          const Multiply& multiply) {
  const int width = std::min(graph::bit_width(result), 32);
  const auto left = digits_of(builder, operands[0]), right = digits_of(builder, operands[1]);
  std::optional<Expr> sum;
  for (const Digit& a : left)
    for (const Digit& b : right) {
      if (a.shift + b.shift >= width) continue;
      const int64_t terms = kExact / std::max<int64_t>(1, a.magnitude * b.magnitude);
      Expr part = multiply(a.value, b.value, terms);
      if (a.shift + b.shift > 0) part = part << (a.shift + b.shift);
      sum = sum ? *sum + part : part;
    }
  return sum->as(result).id();
}

// All but what says how exact a product of floats must be.
Builder::Attributes attributes_of(const Op& op) {
  Builder::Attributes attributes;
  for (const auto& [attr, value] : op.attributes)
    if (attr != Attr::precision_config) attributes.emplace_back(attr, value);
  return attributes;
}

// -- dot_general

Expr exact_dot(Builder& builder, const Op& op, ValueId lhs, ValueId rhs, int64_t terms,
               const graph::Type& wide) {
  const auto left = op.integers_or(Attr::lhs_contracting_dimensions, 0, 0),
             right = op.integers_or(Attr::rhs_contracting_dimensions, 0, 0);
  int64_t total = 1;
  size_t longest = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    total *= builder.type(lhs).dim(static_cast<int>(left[i]));
    if (builder.type(lhs).dim(static_cast<int>(left[i])) >
        builder.type(lhs).dim(static_cast<int>(left[longest])))
      longest = i;
  }
  if (total <= terms) {
    const ValueId made = builder.add(OpKind::dot_general_, {lhs, rhs}, attributes_of(op),
                                     {wide.with_element(ElementType::kF32)});
    return Expr(builder, made).as(ElementType::kI32);
  }
  const int64_t size = builder.type(lhs).dim(static_cast<int>(left[longest]));
  const int64_t step = std::max<int64_t>(1, terms / (total / size));
  std::optional<Expr> sum;
  for (int64_t begin = 0; begin < size; begin += step) {
    const int64_t end = std::min(size, begin + step);
    const Expr part = exact_dot(builder, op, part_of(builder, lhs, left[longest], begin, end),
                                part_of(builder, rhs, right[longest], begin, end), terms, wide);
    sum = sum ? *sum + part : part;
  }
  return *sum;
}

// Integers, and booleans, which count as 0 and 1.
bool has_integers(const Function& function, const Op& op) {
  const auto counts = [&](ValueId id) {
    const graph::Type& type = function.type(id);
    return type.is_tensor() && type.is_static() && !type.quantization() &&
           (graph::is_integer(type.element()) || graph::is_bool(type.element()));
  };
  return counts(op.operands[0]) && counts(op.operands[1]) &&
         graph::is_integer(function.type(op.results[0]).element());
}

std::vector<ValueId> integer_dot(Builder& builder, const Function& function, const Op& op,
                                 std::span<const ValueId> operands) {
  const graph::Type& type = function.type(op.results[0]);
  const Multiply multiply = [&](ValueId lhs, ValueId rhs, int64_t terms) {
    return exact_dot(builder, op, lhs, rhs, terms, type);
  };
  return {product_of_digits(builder, operands, type.element(), multiply)};
}

// -- convolution

int64_t window_size(const Function& function, const Op& op) {
  int64_t taps = 1;
  for (const int64_t d : op.integers(Attr::kernel_spatial_dimensions))
    taps *= function.type(op.operands[1]).dim(static_cast<int>(d));
  return taps;
}

// With groups the channels of a sum cannot be split; digits of eight bits need room for the sum.
bool has_integer_convolution(const Function& function, const Op& op) {
  if (!has_integers(function, op)) return false;
  int64_t terms = window_size(function, op);
  if (op.integer(Attr::feature_group_count) > 1)
    terms *=
        function.type(op.operands[1]).dim(static_cast<int>(op.integer(Attr::kernel_input_feature_dimension)));
  return terms <= kExact / (kDigit * kDigit);
}

std::vector<ValueId> integer_convolution(Builder& builder, const Function& function, const Op& op,
                                         std::span<const ValueId> operands) {
  const graph::Type& type = function.type(op.results[0]);
  const int64_t in = op.integer(Attr::input_feature_dimension),
                taps_in = op.integer(Attr::kernel_input_feature_dimension), taps = window_size(function, op);
  const Multiply multiply = [&](ValueId lhs, ValueId rhs, int64_t terms) {
    const int64_t channels = builder.type(rhs).dim(static_cast<int>(taps_in));
    const int64_t step =
        op.integer(Attr::feature_group_count) > 1 ? channels : std::max<int64_t>(1, terms / taps);
    std::optional<Expr> sum;
    for (int64_t begin = 0; begin < channels; begin += step) {
      const int64_t end = std::min(channels, begin + step);
      const bool whole = begin == 0 && end == channels;
      const ValueId made = builder.add(
          OpKind::convolution_,
          {whole ? lhs : part_of(builder, lhs, in, begin, end), part_of(builder, rhs, taps_in, begin, end)},
          attributes_of(op), {type.with_element(ElementType::kF32)});
      const Expr part = Expr(builder, made).as(ElementType::kI32);
      sum = sum ? *sum + part : part;
    }
    return *sum;
  };
  return {product_of_digits(builder, operands, type.element(), multiply)};
}

constexpr Expansion kIntegerProductExpansions[] = {
    {OpKind::dot_general_, has_integers, integer_dot},
    {OpKind::convolution_, has_integer_convolution, integer_convolution},
};

}  // namespace

std::span<const Expansion> integer_product_expansions() { return kIntegerProductExpansions; }

}  // namespace opentrn::compiler
