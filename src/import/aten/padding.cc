// Gradients of padding by repeated edges. Forward, torch takes all padding but zeros apart into indices.
#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

// Along one axis: the gradients of what was in front of the first element are its, and so behind the last. A
// negative amount took elements away, whose gradient is zero.
Value edges_back(Body& body, Value gradient, int64_t axis, int64_t low, int64_t high) {
  Shape before(gradient.shape.size(), 0), behind = before;
  before.at(axis) = std::max<int64_t>(-low, 0);
  behind.at(axis) = std::max<int64_t>(-high, 0);
  if (low < 0 || high < 0) gradient = body.pad(gradient, before, behind);
  low = std::max<int64_t>(low, 0);
  high = std::max<int64_t>(high, 0);
  const int64_t size = gradient.shape.at(axis) - low - high;
  if (low == 0 && high == 0) return gradient;
  const auto sum = [&](int64_t start, int64_t limit) {
    const Value part = body.slice_axis(gradient, axis, start, limit);
    Shape one = part.shape;
    one.at(axis) = 1;
    return body.reshape(body.reduce("add", part, {axis}, 0), one);
  };
  if (size == 1) return sum(0, low + 1 + high);
  std::vector<Value> parts = {sum(0, low + 1)};
  if (size > 2) parts.push_back(body.slice_axis(gradient, axis, low + 1, low + size - 1));
  parts.push_back(sum(low + size - 1, low + size + high));
  return body.concatenate(parts, axis);
}

// padding: of the last dimension first.
Value replication_pad_backward(Call& call) {
  Body& body = call.body;
  const auto& [shape, dtype, _] = call.out();
  if (is_empty(shape)) return body.splat(0, dtype, shape);
  const Shape padding = call.at(2).integers();
  Value gradient = body.convert(call.value(0), math_dtype(dtype));
  for (size_t i = 0; 2 * i < padding.size(); ++i)
    gradient = edges_back(body, gradient, static_cast<int64_t>(shape.size() - 1 - i), padding[2 * i],
                          padding[2 * i + 1]);
  return body.convert(gradient, dtype);
}

}  // namespace

Table padding() {
  return {{{"replication_pad1d_backward.default", "replication_pad2d_backward.default",
            "replication_pad3d_backward.default"},
           replication_pad_backward}};
}

}  // namespace opentrn::import::aten
