// Ops whose result has the operands' shape.
#include "graph/shape/rules.h"

namespace opentrn::graph::shape {

namespace {

void want_same_shape(const Context& c, const Type& a, const Type& b, int constraint) {
  c.check(shapes_agree(a.dims(), b.dims()), constraint,
          "operands are {} and {}; their shapes must be the same", a.to_string(), b.to_string());
}

void want_same_element(const Context& c, const Type& a, const Type& b, int constraint) {
  c.check(same_element(a, b), constraint, "operands are {} and {}; their elements must be the same",
          a.to_string(), b.to_string());
}

bool per_axis(const Type& type) { return type.quantization() && type.quantization()->per_axis(); }

void check_quantized_add(const Context& c, const Type& lhs, const Type& rhs) {
  const Type* result = c.has_stated() ? &c.stated()[0] : nullptr;
  const Quantization* p = lhs.quantization();
  const Quantization* q = rhs.quantization();
  const Quantization* r = result ? result->quantization() : nullptr;
  c.check(p && q && (r || !result), 2, "{} and {}: operands and result are all quantized, or none is",
          lhs.to_string(), rhs.to_string());
  c.check(p->storage == q->storage && (!r || p->storage == r->storage), 3,
          "storage types of {} and {} and of the result differ", lhs.to_string(), rhs.to_string());
  c.check(p->expressed == q->expressed && (!r || p->expressed == r->expressed), 4,
          "expressed types of {} and {} and of the result differ", lhs.to_string(), rhs.to_string());
  if (!r) return;
  c.check((p->per_axis() || q->per_axis()) == r->per_axis(), 5,
          "the result is quantized per axis when an operand is; it is {}", result->to_string());
  c.check(!p->per_axis() || p->axis == r->axis, 6, "lhs is quantized along axis {}, the result along {}",
          p->axis, r->axis);
  c.check(!q->per_axis() || q->axis == r->axis, 7, "rhs is quantized along axis {}, the result along {}",
          q->axis, r->axis);
}

}  // namespace

Types unary(const Context& c) { return {c.tensor(0, c.elements())}; }

Types abs(const Context& c) {
  const Type& operand = c.tensor(0, c.elements());
  if (!is_complex(operand.element())) return {operand};
  return {operand.with_element(real_part(operand.element()))};
}

Types real_or_imag(const Context& c) {
  const Type& operand = c.tensor(0, c.elements());
  return {operand.with_element(real_part(operand.element()))};
}

Types predicate(const Context& c) { return {c.tensor(0, c.elements()).with_element(ElementType::kI1)}; }

Types convert(const Context& c) {
  const Type& operand = c.tensor(0, c.elements());
  return {operand.with_element(c.stated_tensor(0, c.elements()).element())};
}

Types reduce_precision(const Context& c) {
  const Type& operand = c.tensor(0, c.elements());
  c.check(c.integer(Attr::exponent_bits) >= 1, 2, "exponent_bits is {}; it must be at least 1",
          c.integer(Attr::exponent_bits));
  c.check(c.integer(Attr::mantissa_bits) >= 0, 3, "mantissa_bits is {}; it must not be negative",
          c.integer(Attr::mantissa_bits));
  return {operand};
}

Types uniform_quantize(const Context& c) {
  const Type& operand = c.tensor(0, kFloats | kQuantized);
  const Type& result = c.stated_tensor(0, kQuantized);
  const ElementType from = operand.quantization() ? operand.quantization()->expressed : operand.element();
  c.check(from == result.quantization()->expressed, 2, "{} cannot be quantized to {}, which expresses {}",
          operand.to_string(), result.to_string(), name(result.quantization()->expressed));
  return {merged(typed(result, {operand.dims().begin(), operand.dims().end()}), operand)};
}

Types uniform_dequantize(const Context& c) {
  const Type& operand = c.tensor(0, kQuantized);
  return {operand.with_element(operand.quantization()->expressed)};
}

Types binary(const Context& c) {
  const Type& lhs = c.tensor(0, c.elements());
  const Type& rhs = c.tensor(1, c.elements());
  want_same_element(c, lhs, rhs, 1);
  want_same_shape(c, lhs, rhs, 1);
  return {merged(lhs, rhs)};
}

Types add(const Context& c) {
  const Type& lhs = c.tensor(0, c.elements());
  const Type& rhs = c.tensor(1, c.elements());
  want_same_shape(c, lhs, rhs, 1);
  const bool quantized = lhs.quantization() || rhs.quantization();
  if (!quantized) {
    want_same_element(c, lhs, rhs, 1);
    return {merged(lhs, rhs)};
  }
  check_quantized_add(c, lhs, rhs);
  if (c.has_stated()) return {merged(typed(c.stated()[0], merged(lhs, rhs).dims_vector()), lhs)};
  return {per_axis(rhs) ? merged(rhs, lhs) : merged(lhs, rhs)};
}

Types compare(const Context& c) {
  const Type& lhs = c.tensor(0, c.elements());
  const Type& rhs = c.tensor(1, c.elements());
  want_same_element(c, lhs, rhs, 1);
  want_same_shape(c, lhs, rhs, 2);
  const auto type = c.op().enumeration(Attr::compare_type, ComparisonType::kNone);
  const ElementType element = lhs.quantization() ? lhs.quantization()->expressed : lhs.element();
  const bool fits =
      type == ComparisonType::kNone || (type == ComparisonType::kSigned && is_signed_integer(element)) ||
      (type == ComparisonType::kUnsigned && (is_unsigned_integer(element) || is_bool(element))) ||
      (type == ComparisonType::kFloat && (is_float(element) || is_complex(element))) ||
      (type == ComparisonType::kTotalOrder && is_float(element));
  c.check(fits, 3, "compare_type does not suit {}", lhs.to_string());
  return {merged(lhs, rhs).with_element(ElementType::kI1)};
}

Types complex(const Context& c) {
  const Type& lhs = c.tensor(0, kFloats);
  const Type& rhs = c.tensor(1, kFloats);
  const ElementType element = lhs.element();
  if (element != ElementType::kF32 && element != ElementType::kF64)
    c.fail("I1", fmt::format("operand 0 is {}; its elements may be f32 or f64", lhs.to_string()));
  want_same_element(c, lhs, rhs, 1);
  want_same_shape(c, lhs, rhs, 1);
  return {merged(lhs, rhs).with_element(element == ElementType::kF32 ? ElementType::kComplexF32
                                                                     : ElementType::kComplexF64)};
}

Types clamp(const Context& c) {
  const Type& low = c.tensor(0, c.elements());
  const Type& operand = c.tensor(1, c.elements());
  const Type& high = c.tensor(2, c.elements());
  c.check(low.rank() == 0 || shapes_agree(low.dims(), operand.dims()), 1,
          "min is {}; it must be a scalar or of the operand's shape, {}", low.to_string(),
          operand.to_string());
  c.check(high.rank() == 0 || shapes_agree(high.dims(), operand.dims()), 2,
          "max is {}; it must be a scalar or of the operand's shape, {}", high.to_string(),
          operand.to_string());
  c.check(same_element(low, operand) && same_element(high, operand), 3,
          "min, operand and max are {}, {} and {}; their elements must be the same", low.to_string(),
          operand.to_string(), high.to_string());
  return {operand};
}

Types select(const Context& c) {
  const Type& pred = c.tensor(0, kBools);
  const Type& on_true = c.tensor(1);
  const Type& on_false = c.tensor(2);
  c.check(pred.rank() == 0 || shapes_agree(pred.dims(), on_true.dims()), 1,
          "pred is {}; it must be a scalar or of the shape of {}", pred.to_string(), on_true.to_string());
  want_same_element(c, on_true, on_false, 2);
  want_same_shape(c, on_true, on_false, 2);
  return {merged(on_true, on_false)};
}

Types bitcast_convert(const Context& c) {
  const Type& operand = c.tensor(0, kAnyElement);
  const Type& result = c.stated_tensor(0);
  c.check(is_complex(operand.element()) == is_complex(result.element()), 2, "{} to {}: complex stays complex",
          operand.to_string(), result.to_string());
  const int from = bit_width(operand.element());
  const int to = bit_width(result.element());
  Dims dims = operand.dims_vector();
  if (to < from) {
    c.check(from % to == 0, 1, "{} bits do not divide into elements of {} bits", from, to);
    dims.push_back(from / to);
  } else if (to > from) {
    c.check(!dims.empty() && to % from == 0 && agrees(dims.back(), to / from), 1,
            "{} to {}: the last dimension must be {}", operand.to_string(), result.to_string(), to / from);
    dims.pop_back();
  }
  return {typed(result, std::move(dims))};
}

}  // namespace opentrn::graph::shape
