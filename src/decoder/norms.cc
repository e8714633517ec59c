#include "decoder/norms.h"

#include <cstdint>
#include <vector>

namespace opentrn::decoder {

using graph::Builder;
using graph::OpKind;
using graph::ValueId;

namespace {

using Dims = std::vector<int64_t>;

ValueId scaled(Builder& builder, ValueId value, double factor) {
  return builder.add(OpKind::multiply_, {value, builder.splat(builder.type(value), factor)});
}

// Of each row, in a tensor without the last dimension.
ValueId mean_of(Builder& builder, ValueId value) {
  const Dims dims = builder.type(value).dims_vector();
  const auto last = static_cast<int64_t>(dims.size()) - 1;
  return scaled(builder, builder.reduce(OpKind::add_, value, {last}), 1.0 / static_cast<double>(dims.back()));
}

// x over the root of its rows' mean squares, times `scale`.
ValueId evened(Builder& builder, ValueId x, ValueId mean_square, ValueId scale, double epsilon) {
  const Dims dims = builder.type(x).dims_vector();
  const auto last = static_cast<int64_t>(dims.size()) - 1;
  Dims places;
  for (int64_t i = 0; i < last; ++i) places.push_back(i);
  const ValueId safe =
      builder.add(OpKind::add_, {mean_square, builder.splat(builder.type(mean_square), epsilon)});
  const ValueId root = builder.broadcast_in_dim(builder.add(OpKind::rsqrt_, {safe}), dims, places);
  const ValueId even = builder.add(OpKind::multiply_, {x, root});
  return builder.add(OpKind::multiply_, {even, builder.broadcast_in_dim(scale, dims, {last})});
}

}  // namespace

ValueId layer_normed(Builder& builder, ValueId x, ValueId scale, double epsilon) {
  const Dims dims = builder.type(x).dims_vector();
  const ValueId mean = builder.broadcast_in_dim(mean_of(builder, x), dims, {0});
  const ValueId centred = builder.add(OpKind::subtract_, {x, mean});
  const ValueId variance = mean_of(builder, builder.add(OpKind::multiply_, {centred, centred}));
  return evened(builder, centred, variance, scale, epsilon);
}

ValueId rms_normed(Builder& builder, ValueId x, ValueId scale, double epsilon) {
  return evened(builder, x, mean_of(builder, builder.add(OpKind::multiply_, {x, x})), scale, epsilon);
}

}  // namespace opentrn::decoder
