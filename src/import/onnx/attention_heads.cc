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

ValueId masked_softmax(const Emit& e, ValueId x, std::optional<ValueId> sink) {
  const int64_t axis = e.rank(x) - 1;
  ValueId top = e.reduce(OpKind::maximum_, x, {axis}, true);
  if (sink) top = e.max(top, *sink);
  const ValueId empty = e.compare(ComparisonDirection::kEq, top, kMaskedScore);
  const ValueId safe = e.select(empty, e.like(top, 0), top);
  const ValueId weights = e.exp(e.sub(x, safe));
  ValueId total = e.sum(weights, {axis}, true);
  if (sink) total = e.add(total, e.exp(e.sub(*sink, safe)));
  return e.div(weights, e.select(empty, e.like(total, 1), total));
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
