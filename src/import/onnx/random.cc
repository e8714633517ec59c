// Operators that draw random numbers. ONNX says how they are distributed, not which they are: here words of
// Philox, of a key that each run gives, or of the node's `seed` (Node::random_words).
#include <numbers>

#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

bool is_real(ElementType element) { return graph::is_float(element) && graph::bit_width(element) >= 16; }

// Upper bits of words as whole numbers in fp32, which holds them exactly.
ValueId top_bits(const Emit& e, ValueId words, int bits) {
  const ValueId shift = e.like(words, 32 - bits);
  const ValueId top = e.binary(OpKind::shift_right_logical_, words, shift);
  const ValueId whole =
      e.builder().add(OpKind::bitcast_convert_, {top}, {}, {Type::tensor(ElementType::kI32, e.dims(words))});
  return e.cast(whole, ElementType::kF32);
}

// In [0, 1), in steps of 2^-24.
ValueId unit(Node& n, const Dims& dims) {
  return n.emit.mul(top_bits(n.emit, n.random_words(dims), 24), 0x1p-24);
}

// In (0, 1): the middles of steps of 2^-23, so that neither end has an infinite logarithm or quantile.
ValueId open_unit(Node& n, const Dims& dims) {
  const Emit& e = n.emit;
  return e.mul(e.add(top_bits(e, n.random_words(dims), 23), 0.5), 0x1p-23);
}

// The attribute's type; else the first input's, where the operator takes it from there; else fp32.
ElementType result_type(Node& n, bool like_input) {
  const ElementType element = n.data_type("dtype").value_or(like_input ? n.element(0) : ElementType::kF32);
  n.check(is_real(element), "dtype is {}", graph::name(element));
  return element;
}

// 16 bits may round a number below `high` up to it.
ValueId below(const Emit& e, ValueId x, double low, double high) {
  return e.select(e.compare(ComparisonDirection::kGe, x, high), e.like(x, low), x);
}

void uniform(Node& n, const Dims& dims, bool like_input) {
  const Emit& e = n.emit;
  const ElementType element = result_type(n, like_input);
  const double low = n.real("low", 0), high = n.real("high", 1);
  n.check(low <= high, "low {} is above high {}", low, high);
  const ValueId scaled = e.add(e.mul(unit(n, dims), high - low), low);
  const ValueId made = e.cast(scaled, element);
  n.set(0, low < high ? below(e, made, low, high) : made);
}

// The quantile of a uniform number: sqrt 2 erf_inv(2u - 1).
void normal(Node& n, const Dims& dims, bool like_input) {
  const Emit& e = n.emit;
  const ElementType element = result_type(n, like_input);
  const double mean = n.real("mean", 0), scale = n.real("scale", 1);
  n.check(scale >= 0, "scale is {}", scale);
  const ValueId centred = e.sub(e.mul(open_unit(n, dims), 2), 1);
  const ValueId standard = e.unary(OpKind::chlo_erf_inv_, centred);
  n.set(0, e.cast(e.add(e.mul(standard, scale * std::numbers::sqrt2), mean), element));
}

Dims shape_of(Node& n) {
  const auto dims = n.integers("shape");
  n.check(dims.has_value(), "it has no shape");
  for (const int64_t dim : *dims) n.check(dim >= 0, "a dimension is {}", dim);
  return *dims;
}

}  // namespace

void import_random_uniform(Node& n) { uniform(n, shape_of(n), false); }
void import_random_uniform_like(Node& n) { uniform(n, n.dims(0), true); }
void import_random_normal(Node& n) { normal(n, shape_of(n), false); }
void import_random_normal_like(Node& n) { normal(n, n.dims(0), true); }

void import_bernoulli(Node& n) {
  const Emit& e = n.emit;
  const ValueId chance = e.cast(n.in(0), ElementType::kF32);
  const ValueId drawn = e.compare(ComparisonDirection::kLt, unit(n, n.dims(0)), chance);
  n.set(0, e.cast(drawn, n.data_type("dtype").value_or(n.element(0))));
}

// The largest of logits with Gumbel noise is a draw from their softmax.
void import_multinomial(Node& n) {
  const Emit& e = n.emit;
  const int64_t samples = n.integer("sample_size", 1);
  const ElementType element = n.data_type("dtype").value_or(ElementType::kI32);
  n.check(n.rank(0) == 2 && n.dims(0)[1] > 0, "input of rank {}", n.rank(0));
  n.check(samples > 0, "sample_size is {}", samples);
  n.check(element == ElementType::kI32 || element == ElementType::kI64, "dtype is {}", graph::name(element));
  const int64_t batch = n.dims(0)[0], classes = n.dims(0)[1];
  const ValueId noise = e.neg(e.log(e.neg(e.log(open_unit(n, {batch, samples, classes})))));
  const ValueId logits = e.unsqueeze(e.cast(n.in(0), ElementType::kF32), 1);
  const ValueId places = e.arg_extreme(e.add(logits, noise), 2, true, false);
  n.set(0, e.cast(e.reshape(places, {batch, samples}), element));
}

// Since opset 12 `training_mode` says whether elements are dropped; before, it never does.
void import_dropout(Node& n) {
  const Emit& e = n.emit;
  const bool trains = n.opset() >= 12 && n.has(2) && n.integer(2) != 0;
  const double ratio = !trains ? 0 : n.has(1) ? n.real(1) : 0.5;
  n.check(0 <= ratio && ratio < 1, "ratio is {}, not in [0, 1)", ratio);
  if (ratio == 0) {
    n.set(0, n.in(0));
    n.set(1, e.full(n.opset() < 10 ? n.element(0) : ElementType::kI1, n.dims(0), 1));
    return;
  }
  const ValueId kept = e.compare(ComparisonDirection::kGe, unit(n, n.dims(0)), ratio);
  n.set(0, e.select(kept, e.mul(n.in(0), 1 / (1 - ratio)), e.like(n.in(0), 0)));
  n.set(1, kept);
}

}  // namespace opentrn::import::onnx
