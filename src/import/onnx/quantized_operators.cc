// Operators of com.microsoft on whole numbers with scale and zero point, as ONNX Runtime's quantisation tools
// write them: computed in fp32 from what the numbers stand for, or as products of whole numbers.
#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

// Operands of a number: itself, scale, zero point, from input `i` on. Without a zero point it is 0.
ValueId real(const Node& n, size_t i) {
  const Emit& e = n.emit;
  ValueId x = e.cast(n.in(i), ElementType::kI32);
  if (n.has(i + 2)) x = e.sub(x, e.cast(n.in(i + 2), ElementType::kI32));
  return e.mul(e.cast(x, ElementType::kF32), n.in(i + 1));
}

// To the scale and zero point at input `i`, in the zero point's type or that of the first operand.
void set_quantized(Node& n, ValueId y, size_t i, ElementType absent) {
  const Emit& e = n.emit;
  const ValueId zero = n.has(i + 1) ? n.in(i + 1) : e.scalar(absent, 0);
  n.set(0, quantized(e, e.div(y, n.in(i)), e.rank(zero) == 0 ? zero : e.reshape(zero, {})));
}

// A product of whole numbers a (as from dynamic_range or an input) and input b, times the scales; `b_zero`
// counts along columns where it is a vector.
ValueId scaled_product(const Emit& e, ValueId a, ValueId a_scale, std::optional<ValueId> a_zero, ValueId b,
                       ValueId b_scale, std::optional<ValueId> b_zero) {
  const auto whole = [&](ValueId x, std::optional<ValueId> zero) {
    const ValueId wide = e.cast(x, ElementType::kI32);
    return zero ? e.sub(wide, e.cast(*zero, ElementType::kI32)) : wide;
  };
  const ValueId sums = e.cast(e.matmul(whole(a, a_zero), whole(b, b_zero)), ElementType::kF32);
  return e.mul(sums, e.mul(a_scale, b_scale));
}

std::optional<ValueId> maybe(const Node& n, size_t i) {
  return n.has(i) ? std::optional(n.in(i)) : std::nullopt;
}

}  // namespace

void import_qlinear_add(Node& n) { set_quantized(n, n.emit.add(real(n, 0), real(n, 3)), 6, n.element(0)); }
void import_qlinear_mul(Node& n) { set_quantized(n, n.emit.mul(real(n, 0), real(n, 3)), 6, n.element(0)); }
void import_qlinear_sigmoid(Node& n) { set_quantized(n, n.emit.sigmoid(real(n, 0)), 3, n.element(0)); }
void import_qlinear_leaky_relu(Node& n) {
  set_quantized(n, leaky_relu(n.emit, real(n, 0), n.real("alpha", 0.01)), 3, n.element(0));
}

void import_qlinear_global_average_pool(Node& n) {
  const bool is_last = n.flag("channels_last", false);
  const int64_t rank = n.rank(0);
  n.check(rank >= 3, "input of rank {}", rank);
  const Dims axes = is_last ? range(1, rank - 1) : range(2, rank);
  set_quantized(n, n.emit.mean(real(n, 0), axes, true), 3, n.element(0));
}

// Scale and zero point of the result, then number, scale and zero point of each operand.
void import_qlinear_concat(Node& n) {
  n.check(n.input_count() >= 5 && n.input_count() % 3 == 2, "{} inputs", n.input_count());
  Values parts;
  for (size_t i = 2; i < n.input_count(); i += 3) parts.push_back(real(n, i));
  const int64_t axis = n.axis(n.integer("axis", 0), n.rank(2));
  set_quantized(n, n.emit.concat(std::move(parts), axis), 0, n.element(2));
}

// A, scale, zero; B, scale, zero; C in whole numbers of both scales; scale and zero of the result, or fp32.
void import_qgemm(Node& n) {
  const Emit& e = n.emit;
  n.check(n.rank(0) == 2 && n.rank(3) == 2, "operands of rank {} and {}", n.rank(0), n.rank(3));
  const auto turned = [&](size_t i, std::string_view name) {
    return n.flag(name, false) ? e.transpose(n.in(i), {1, 0}) : n.in(i);
  };
  const double alpha = n.real("alpha", 1);
  ValueId scale = e.mul(n.in(1), n.in(4));
  if (alpha != 1) scale = e.mul(scale, alpha);
  const ValueId one = e.scalar(ElementType::kF32, 1);
  ValueId sums =
      scaled_product(e, turned(0, "transA"), one, maybe(n, 2), turned(3, "transB"), one, maybe(n, 5));
  if (n.has(6)) sums = e.add(sums, e.cast(n.in(6), ElementType::kF32));
  const ValueId y = e.mul(sums, scale);
  if (n.has(7)) return set_quantized(n, y, 7, n.element(0));
  n.set(0, y);
}

// A in fp32 is made whole by its own range.
void import_dynamic_quantize_matmul(Node& n) {
  const Emit& e = n.emit;
  const Quantisation q = dynamic_range(e, n.in(0));
  const ValueId a = quantized(e, e.div(n.in(0), q.scale), q.zero);
  const ValueId y = scaled_product(e, a, q.scale, q.zero, n.in(1), n.in(2), maybe(n, 3));
  n.set(0, n.has(4) ? e.add(y, n.in(4)) : y);
}

// A, B, scale of A, scale of B, zero of A, zero of B, bias.
void import_matmul_integer_to_float(Node& n) {
  const Emit& e = n.emit;
  const ValueId y = scaled_product(e, n.in(0), n.in(2), maybe(n, 4), n.in(1), n.in(3), maybe(n, 5));
  n.set(0, n.has(6) ? e.add(y, n.in(6)) : y);
}

}  // namespace opentrn::import::onnx
