#include "import/onnx/attention_heads.h"

#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

ValueId split_heads(const Emit& e, ValueId x, int64_t heads) {
  const Dims d = e.dims(x);
  return e.transpose(e.reshape(x, {d[0], d[1], heads, d[2] / heads}), {0, 2, 1, 3});
}

ValueId join_heads(const Emit& e, ValueId x) {
  const Dims d = e.dims(x);
  return e.reshape(e.transpose(x, {0, 2, 1, 3}), {d[0], d[2], d[1] * d[3]});
}

ValueId repeat_heads(const Emit& e, ValueId x, int64_t times) {
  if (times == 1) return x;
  const Dims d = e.dims(x);
  const ValueId wide = e.builder().broadcast_in_dim(x, {d[0], d[1], times, d[2], d[3]}, {0, 1, 3, 4});
  return e.reshape(wide, {d[0], d[1] * times, d[2], d[3]});
}

ValueId masked(const Emit& e, ValueId scores, ValueId allowed) {
  return e.select(allowed, scores, e.like(scores, kMaskedScore));
}

namespace {

// What a hidden key's score is where rows without any key are possible: a number, since of minus infinities
// alone the softmax is NaN, which the transposes of an attention kernel would spread to other rows. Its
// exponential beside any other score is 0.
double hidden_score(ElementType element) { return element == ElementType::kF16 ? -3e4 : -1e30; }

ValueId all_of(const Emit& e, const Values& conditions) {
  ValueId all = conditions[0];
  for (size_t i = 1; i < conditions.size(); ++i) all = e.binary(OpKind::and_, all, conditions[i]);
  return all;
}

// Whether a query reads any key, [.., queries, 1]; none where each does.
std::optional<ValueId> reads_any(const Emit& e, const Masks& masks) {
  Values conditions;
  if (masks.bias) conditions.push_back(e.compare(ComparisonDirection::kGt, *masks.bias, kMaskedScore));
  if (masks.allowed) conditions.push_back(*masks.allowed);
  if (conditions.empty()) return std::nullopt;
  if (masks.causal) conditions.push_back(*masks.causal);
  const ValueId all = all_of(e, conditions);
  return e.reduce(OpKind::or_, all, {e.rank(all) - 1}, true);
}

ValueId softmax_with_sink(const Emit& e, ValueId x, ValueId sink) {
  const Dims last{e.rank(x) - 1};
  Dims rows = e.dims(x);
  rows.back() = 1;
  const ValueId other = e.broadcast_to(sink, rows);
  const ValueId top = e.max(e.reduce(OpKind::maximum_, x, last, true), other);
  const ValueId weights = e.exp(e.sub(x, top));
  return e.div(weights, e.add(e.sum(weights, last, true), e.exp(e.sub(other, top))));
}

}  // namespace

Attended attended(const Emit& e, ValueId scores, const Masks& masks, ValueId v, ElementType wide,
                  std::optional<ValueId> sink) {
  const ElementType element = e.element(scores);
  const double hidden = hidden_score(element);
  if (masks.bias) scores = e.add(scores, e.max(e.cast(*masks.bias, element), hidden));
  if (masks.allowed) scores = e.select(*masks.allowed, scores, e.like(scores, hidden));
  if (masks.causal) scores = masked(e, scores, *masks.causal);
  const ValueId x = e.cast(scores, wide);
  const ValueId softmax = sink ? softmax_with_sink(e, x, *sink) : e.softmax(x, 3);
  Attended made{e.cast(softmax, e.element(v)), {}};
  made.y = e.dot_general(made.weights, v, {0, 1}, {0, 1}, {3}, {2});
  if (const auto reads = reads_any(e, masks)) {
    made.weights = e.select(*reads, made.weights, e.like(made.weights, 0));
    made.y = e.select(*reads, made.y, e.like(made.y, 0));
  }
  return made;
}

ValueId rotated(const Emit& e, ValueId x, ValueId cosine, ValueId sine, int64_t size, bool interleaved) {
  const Dims d = e.dims(x);
  cosine = e.unsqueeze(cosine, 2);
  sine = e.unsqueeze(sine, 2);
  const ValueId turned = e.slice(x, 3, 0, size);
  const ValueId a = interleaved ? e.slice(turned, 3, 0, size, 2) : e.slice(turned, 3, 0, size / 2);
  const ValueId b = interleaved ? e.slice(turned, 3, 1, size, 2) : e.slice(turned, 3, size / 2, size);
  const ValueId real = e.sub(e.mul(cosine, a), e.mul(sine, b));
  const ValueId imaginary = e.add(e.mul(sine, a), e.mul(cosine, b));
  const ValueId made = interleaved ? e.reshape(e.concat({e.unsqueeze(real, 4), e.unsqueeze(imaginary, 4)}, 4),
                                               {d[0], d[1], d[2], size})
                                   : e.concat({real, imaginary}, 3);
  return size < d[3] ? e.concat({made, e.slice(x, 3, size, d[3])}, 3) : made;
}

}  // namespace opentrn::import::onnx
