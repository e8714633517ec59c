// Activation functions.
#include <cmath>
#include <numbers>

#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

ValueId positive(const Emit& e, ValueId x) { return e.max(x, 0); }
ValueId is_positive(const Emit& e, ValueId x) { return e.compare(ComparisonDirection::kGt, x, 0); }
ValueId expm1(const Emit& e, ValueId x) { return e.unary(OpKind::exponential_minus_one_, x); }

}  // namespace

// max(x, 0) + log(1 + exp(-|x|)), which does not overflow.
ValueId softplus(const Emit& e, ValueId x) {
  const ValueId tail = e.unary(OpKind::log_plus_one_, e.exp(e.neg(e.unary(OpKind::abs_, x))));
  return e.add(positive(e, x), tail);
}

ValueId gelu(const Emit& e, ValueId x, bool tanh_form) {
  if (tanh_form) {
    const ValueId cube = e.mul(e.mul(x, x), x);
    const ValueId inner = e.mul(e.add(x, e.mul(cube, 0.044715)), std::sqrt(2 / std::numbers::pi));
    return e.mul(e.mul(x, 0.5), e.add(e.tanh(inner), 1));
  }
  const ValueId erf = e.unary(OpKind::chlo_erf_, e.mul(x, std::numbers::sqrt2 / 2));
  return e.mul(e.mul(x, 0.5), e.add(erf, 1));
}

ValueId hard_sigmoid(const Emit& e, ValueId x, double alpha, double beta) {
  return e.min(e.max(e.add(e.mul(x, alpha), beta), 0), 1);
}

ValueId elu(const Emit& e, ValueId x, double alpha) {
  return e.select(is_positive(e, x), x, e.mul(expm1(e, e.min(x, 0)), alpha));
}

ValueId leaky_relu(const Emit& e, ValueId x, double alpha) {
  return e.select(e.compare(ComparisonDirection::kLt, x, 0), e.mul(x, alpha), x);
}

void import_relu(Node& n) { n.set(0, positive(n.emit, n.in(0))); }
void import_leaky_relu(Node& n) { n.set(0, leaky_relu(n.emit, n.in(0), n.real("alpha", 0.01))); }
void import_elu(Node& n) { n.set(0, elu(n.emit, n.in(0), n.real("alpha", 1))); }
void import_sigmoid(Node& n) { n.set(0, n.emit.sigmoid(n.in(0))); }
void import_softplus(Node& n) { n.set(0, softplus(n.emit, n.in(0))); }
void import_gelu(Node& n) { n.set(0, gelu(n.emit, n.in(0), n.string("approximate", "none") == "tanh")); }

void import_celu(Node& n) {
  const Emit& e = n.emit;
  const double alpha = n.real("alpha", 1);
  const ValueId x = n.in(0);
  n.set(0, e.add(positive(e, x), e.min(e.mul(expm1(e, e.div(x, alpha)), alpha), 0)));
}

void import_selu(Node& n) {
  const Emit& e = n.emit;
  const double alpha = n.real("alpha", 1.67326319217681884765625);
  const double gamma = n.real("gamma", 1.05070102214813232421875);
  n.set(0, e.mul(elu(e, n.in(0), alpha), gamma));
}

void import_hard_sigmoid(Node& n) {
  n.set(0, hard_sigmoid(n.emit, n.in(0), n.real("alpha", 0.2), n.real("beta", 0.5)));
}

void import_hard_swish(Node& n) {
  n.set(0, n.emit.mul(n.in(0), hard_sigmoid(n.emit, n.in(0), 1.0 / 6, 0.5)));
}

void import_mish(Node& n) {
  const Emit& e = n.emit;
  n.set(0, e.mul(n.in(0), e.tanh(softplus(e, n.in(0)))));
}

void import_softsign(Node& n) {
  const Emit& e = n.emit;
  n.set(0, e.div(n.in(0), e.add(e.unary(OpKind::abs_, n.in(0)), 1)));
}

void import_swish(Node& n) {
  const Emit& e = n.emit;
  n.set(0, e.mul(n.in(0), e.sigmoid(e.mul(n.in(0), n.real("alpha", 1)))));
}

void import_thresholded_relu(Node& n) {
  const Emit& e = n.emit;
  const ValueId x = n.in(0);
  n.set(0, e.select(e.compare(ComparisonDirection::kGt, x, n.real("alpha", 1)), x, e.like(x, 0)));
}

void import_shrink(Node& n) {
  const Emit& e = n.emit;
  const ValueId x = n.in(0);
  const double bias = n.real("bias", 0);
  const double limit = n.real("lambd", 0.5);
  const ValueId high = e.select(e.compare(ComparisonDirection::kGt, x, limit), e.sub(x, bias), e.like(x, 0));
  n.set(0, e.select(e.compare(ComparisonDirection::kLt, x, -limit), e.add(x, bias), high));
}

namespace {

// Before opset 13 the dimensions from `axis` on count as one.
template <typename F>
void along_axis(Node& n, F&& f) {
  const Emit& e = n.emit;
  const ValueId x = n.in(0);
  const bool flattened = n.opset() < 13;
  const int64_t axis = n.axis(n.integer("axis", flattened ? 1 : -1), std::max<int64_t>(n.rank(0), 1));
  if (n.rank(0) == 0) return n.set(0, e.reshape(f(e.reshape(x, {1}), 0), {}));
  if (!flattened) return n.set(0, f(x, axis));
  const Dims dims = n.dims(0);
  const Dims matrix{product({dims.begin(), dims.begin() + axis}), product({dims.begin() + axis, dims.end()})};
  n.set(0, e.reshape(f(e.reshape(x, matrix), 1), dims));
}

}  // namespace

ValueId log_softmax(const Emit& e, ValueId x, int64_t axis) {
  const ValueId shifted = e.sub(x, e.reduce(OpKind::maximum_, x, {axis}, true));
  return e.sub(shifted, e.log(e.sum(e.exp(shifted), {axis}, true)));
}

void import_softmax(Node& n) {
  along_axis(n, [&](ValueId x, int64_t axis) { return n.emit.softmax(x, axis); });
}

void import_log_softmax(Node& n) {
  along_axis(n, [&](ValueId x, int64_t axis) { return log_softmax(n.emit, x, axis); });
}

void import_hardmax(Node& n) {
  const Emit& e = n.emit;
  along_axis(n, [&](ValueId x, int64_t axis) {
    const ValueId best = e.arg_extreme(x, axis, true, false);
    const ValueId index = e.iota(ElementType::kI64, e.dims(x), axis);
    return e.cast(e.compare(ComparisonDirection::kEq, index, best), e.element(x));
  });
}

}  // namespace opentrn::import::onnx
