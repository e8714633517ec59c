// Quantization: QuantizeLinear, DequantizeLinear, integer matrix products.
#include <algorithm>
#include <cmath>

#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

struct Limits {
  double low;
  double high;
};

std::optional<Limits> integer_limits(ElementType element) {
  if (!graph::is_integer(element)) return std::nullopt;
  const int bits = graph::bit_width(element);
  if (bits > 32) return std::nullopt;
  const double span = std::ldexp(1.0, bits);
  return graph::is_signed_integer(element) ? Limits{-span / 2, span / 2 - 1} : Limits{0, span - 1};
}

// A scale or zero point spread over x: one for all, one per index of an axis, or one per block of it.
ValueId spread(const Node& n, ValueId parameter, const Dims& x) {
  const Emit& e = n.emit;
  const auto rank = static_cast<int64_t>(x.size());
  const int64_t block = n.integer("block_size", 0);
  if (product(e.dims(parameter)) == 1 && (block == 0 || e.rank(parameter) < rank))
    return e.reshape(parameter, {});
  const int64_t axis = n.axis(n.integer("axis", 1), rank);
  const auto at = static_cast<size_t>(axis);
  if (e.rank(parameter) == 1 && block == 0) {
    Dims dims(x.size(), 1);
    dims[at] = e.dim(parameter, 0);
    return e.reshape(parameter, dims);
  }
  n.check(block > 0 && e.rank(parameter) == rank, "a parameter of rank {} with block_size {}",
          e.rank(parameter), block);
  // [.., blocks, ..] to [.., blocks, block, ..], joined and cut to the axis' size. One block may say that it
  // is larger than the axis.
  const int64_t each = std::min(block, std::max<int64_t>(x[at], 1));
  Dims wide = e.dims(parameter);
  Dims places = range(0, rank);
  for (size_t i = at + 1; i < places.size(); ++i) ++places[i];
  wide.insert(wide.begin() + axis + 1, each);
  Dims joined = e.dims(parameter);
  joined[at] = product({joined[at], each});
  const ValueId repeated = e.reshape(e.builder().broadcast_in_dim(parameter, wide, places), joined);
  n.check(joined[at] >= x[at], "{} blocks of {} for {}", wide[at], block, x[at]);
  return e.slice(repeated, axis, 0, x[at]);
}

}  // namespace

// Rounds to even, adds the zero point and saturates to its type.
ValueId quantized(const Emit& e, ValueId scaled, ValueId zero) {
  const ElementType to = e.element(zero);
  const auto limits = integer_limits(to);
  const ValueId rounded = e.unary(OpKind::round_nearest_even_, scaled);
  const ElementType wide = e.element(rounded) == ElementType::kF64 ? ElementType::kF64 : ElementType::kF32;
  ValueId y = e.add(e.cast(rounded, wide), e.cast(zero, wide));
  if (limits) y = e.min(e.max(y, limits->low), limits->high);
  return e.cast(y, to);
}

void import_quantize_linear(Node& n) {
  const Emit& e = n.emit;
  const Dims dims = n.dims(0);
  ElementType to = n.has(2) ? n.element(2) : n.data_type("output_dtype").value_or(ElementType::kUI8);
  if (!n.has(2) && n.integer("output_dtype", 0) == 0) to = ElementType::kUI8;
  ElementType wide = n.element(0);
  if (graph::is_integer(wide)) wide = ElementType::kF32;
  if (const int64_t precision = n.integer("precision", 0)) wide = element_type_of(precision);
  const ValueId scale = e.cast(spread(n, n.in(1), dims), wide);
  const ValueId scaled = e.div(e.cast(n.in(0), wide), scale);
  const ValueId zero = n.has(2) ? spread(n, n.in(2), dims) : e.scalar(to, 0);
  if (integer_limits(to)) return n.set(0, quantized(e, scaled, zero));
  n.set(0, saturated(e, scaled, to, n.flag("saturate", true)));
}

void import_dequantize_linear(Node& n) {
  const Emit& e = n.emit;
  const Dims dims = n.dims(0);
  const ElementType scale_type = n.element(1);
  ElementType to = scale_type;
  if (n.integer("output_dtype", 0) != 0) to = *n.data_type("output_dtype");
  const ElementType wide = scale_type == ElementType::kF64 ? ElementType::kF64 : ElementType::kF32;
  ValueId x = n.in(0);
  if (graph::is_integer(e.element(x))) {
    x = e.cast(x, ElementType::kI32);
    if (n.has(2)) x = e.sub(x, e.cast(spread(n, n.in(2), dims), ElementType::kI32));
  }
  n.set(0, e.cast(e.mul(e.cast(x, wide), e.cast(spread(n, n.in(1), dims), wide)), to));
}

// Of nothing but zeros the scale is 1, as in ONNX Runtime: by 0 nothing can be divided.
Quantisation dynamic_range(const Emit& e, ValueId x) {
  const Dims all = range(0, e.rank(x));
  const ValueId high = e.max(e.reduce(OpKind::maximum_, x, all, false), 0);
  const ValueId low = e.min(e.reduce(OpKind::minimum_, x, all, false), 0);
  const ValueId span = e.sub(high, low);
  const ValueId scale =
      e.select(e.compare(ComparisonDirection::kEq, span, 0), e.like(span, 1), e.div(span, 255));
  const ValueId place = e.min(e.max(e.div(e.neg(low), scale), 0), 255);
  return {scale, e.cast(e.unary(OpKind::round_nearest_even_, place), ElementType::kUI8)};
}

// u8 with scale and zero point from the data's range.
void import_dynamic_quantize_linear(Node& n) {
  const Emit& e = n.emit;
  const Quantisation q = dynamic_range(e, n.in(0));
  n.set(0, quantized(e, e.div(n.in(0), q.scale), q.zero));
  n.set(1, q.scale);
  n.set(2, q.zero);
}

namespace {

// Off with the zero point, in i32; a vector counts along rows of the left operand.
ValueId centred(const Emit& e, ValueId x, std::optional<ValueId> zero, bool by_row) {
  const ValueId wide = e.cast(x, ElementType::kI32);
  if (!zero) return wide;
  ValueId z = e.cast(*zero, ElementType::kI32);
  if (by_row && e.rank(z) == 1 && e.dim(z, 0) != 1) z = e.unsqueeze(z, 1);
  return e.sub(wide, z);
}

}  // namespace

void import_matmul_integer(Node& n) {
  const Emit& e = n.emit;
  const auto zero = [&](size_t i) { return n.has(i) ? std::optional(n.in(i)) : std::nullopt; };
  n.set(0, e.matmul(centred(e, n.in(0), zero(2), true), centred(e, n.in(1), zero(3), false)));
}

// a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero.
void import_qlinear_matmul(Node& n) {
  const Emit& e = n.emit;
  const ValueId product_value =
      e.matmul(centred(e, n.in(0), n.in(2), true), centred(e, n.in(3), n.in(5), false));
  ValueId a_scale = e.cast(n.in(1), ElementType::kF32);
  if (e.rank(a_scale) == 1 && e.dim(a_scale, 0) != 1) a_scale = e.unsqueeze(a_scale, 1);
  const ValueId scale =
      e.div(e.mul(a_scale, e.cast(n.in(4), ElementType::kF32)), e.cast(n.in(6), ElementType::kF32));
  n.set(0, quantized(e, e.mul(e.cast(product_value, ElementType::kF32), scale), n.in(7)));
}

}  // namespace opentrn::import::onnx
