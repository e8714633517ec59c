// Ops that move elements and whose shapes are attributes.
#include "graph/eval/bodies.h"
#include "graph/eval/indexing.h"

namespace opentrn::graph::eval {

Tensor broadcast(const Call& call) {
  const Tensor& operand = call.tensor(0);
  Dims dims = copy_dims(call.op().integers(Attr::broadcast_sizes));
  Dims strides(dims.size(), 0);
  for (const int64_t stride : row_major_strides(operand.dims())) strides.push_back(stride);
  dims.insert(dims.end(), operand.dims().begin(), operand.dims().end());
  return strided_view(operand, call.result(dims), 0, strides);
}

Tensor broadcast_in_dim(const Call& call) {
  const Tensor& operand = call.tensor(0);
  const auto places = call.op().integers(Attr::broadcast_dimensions);
  if (!call.stated().is_static()) call.fail("the shape of its result is not stated");
  const Dims dims = copy_dims(call.stated().dims());
  const Dims from = row_major_strides(operand.dims());
  Dims strides(dims.size(), 0);
  if (places.size() != static_cast<size_t>(operand.rank()))
    call.fail(fmt::format("{} broadcast_dimensions for {}", places.size(), operand.type().to_string()));
  for (size_t axis = 0; axis < places.size(); ++axis) {
    const int64_t place = places[axis];
    const int64_t own = operand.dims()[axis];
    if (place < 0 || static_cast<size_t>(place) >= dims.size() ||
        (own != 1 && own != dims[static_cast<size_t>(place)]))
      call.fail(fmt::format("dimension {} of {} does not fit dimension {} of the result", axis,
                            operand.type().to_string(), place));
    if (own != 1) strides[static_cast<size_t>(place)] = from[axis];
  }
  return strided_view(operand, call.result(dims), 0, strides);
}

Tensor concatenate_op(const Call& call) {
  const int64_t axis = call.op().integer(Attr::dimension);
  const std::vector<Tensor> parts = call.tensors(0, call.operand_count());
  for (const Tensor& part : parts)
    if (part.storage().index() != parts[0].storage().index() || axis >= part.rank() || axis < 0)
      call.fail(fmt::format("{} cannot be joined along dimension {}", part.type().to_string(), axis));
  const Tensor joined = concatenate(parts, axis);
  return joined.with_type(call.result(joined.dims()));
}

Tensor iota(const Call& call) {
  if (!call.stated().is_static()) call.fail("the shape of its result is not stated");
  const Type type = call.result(call.stated().dims());
  const auto axis = static_cast<size_t>(call.op().integer(Attr::iota_dimension));
  if (axis >= type.dims().size()) call.fail(fmt::format("dimension {} of {}", axis, type.to_string()));
  Storage values = zeros(type.element(), type.element_count());
  std::visit(
      [&]<typename T>(std::vector<T>& elements) {
        for_each_index(type.dims(), [&](const Dims& index, int64_t linear) {
          elements[static_cast<size_t>(linear)] = static_cast<T>(index[axis]);
        });
      },
      values);
  return call.finish(type, std::move(values));
}

namespace {

// Low and high edges may be negative: they cut.
Tensor padded(const Call& call, const Tensor& operand, const Tensor& value, std::span<const int64_t> low,
              std::span<const int64_t> high, std::span<const int64_t> interior) {
  const auto rank = static_cast<size_t>(operand.rank());
  if (low.size() != rank || high.size() != rank || interior.size() != rank)
    call.fail(fmt::format("padding of another rank than {}", operand.type().to_string()));
  Dims dims(rank);
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t own = operand.dims()[axis];
    dims[axis] = low[axis] + own + std::max<int64_t>(own - 1, 0) * interior[axis] + high[axis];
    if (dims[axis] < 0 || interior[axis] < 0)
      call.fail(fmt::format("dimension {} would have {} elements", axis, dims[axis]));
  }
  const Dims strides = row_major_strides(operand.dims());
  Dims from(static_cast<size_t>(product(dims)), -1);
  for_each_index(dims, [&](const Dims& index, int64_t linear) {
    int64_t at = 0;
    for (size_t axis = 0; axis < rank; ++axis) {
      const int64_t spread = index[axis] - low[axis];
      const int64_t step = interior[axis] + 1;
      if (spread < 0 || spread % step != 0 || spread / step >= operand.dims()[axis]) return;
      at += spread / step * strides[axis];
    }
    from[static_cast<size_t>(linear)] = at;
  });
  return take(operand, call.result(dims), from, &value);
}

}  // namespace

Tensor pad(const Call& call) {
  return padded(call, call.tensor(0), call.tensor(1), call.op().integers(Attr::edge_padding_low),
                call.op().integers(Attr::edge_padding_high), call.op().integers(Attr::interior_padding));
}

Tensor dynamic_pad(const Call& call) {
  return padded(call, call.tensor(0), call.tensor(1), integers_of(call.tensor(2)),
                integers_of(call.tensor(3)), integers_of(call.tensor(4)));
}

Tensor reshape(const Call& call) {
  const Tensor& operand = call.tensor(0);
  if (!call.stated().is_static() || call.stated().element_count() != operand.size())
    call.fail(fmt::format("{} as {}", operand.type().to_string(), call.stated().to_string()));
  return operand.with_type(call.result(call.stated().dims()));
}

Tensor reverse(const Call& call) {
  const Tensor& operand = call.tensor(0);
  Dims strides = row_major_strides(operand.dims());
  int64_t offset = 0;
  for (const int64_t dimension : call.op().integers(Attr::dimensions)) {
    const auto axis = static_cast<size_t>(dimension);
    if (axis >= strides.size()) call.fail(fmt::format("it has no dimension {}", dimension));
    offset += (operand.dims()[axis] - 1) * strides[axis];
    strides[axis] = -strides[axis];
  }
  if (operand.size() == 0) return operand.with_type(call.result(operand.dims()));
  return strided_view(operand, call.result(operand.dims()), offset, strides);
}

namespace {

Tensor sliced(const Call& call, const Tensor& operand, std::span<const int64_t> starts,
              std::span<const int64_t> limits, std::span<const int64_t> steps) {
  const auto rank = static_cast<size_t>(operand.rank());
  if (starts.size() != rank || limits.size() != rank || steps.size() != rank)
    call.fail(fmt::format("indices of another rank than {}", operand.type().to_string()));
  Dims strides = row_major_strides(operand.dims());
  Dims dims(rank);
  int64_t offset = 0;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (starts[axis] < 0 || starts[axis] > limits[axis] || limits[axis] > operand.dims()[axis] ||
        steps[axis] < 1)
      call.fail(fmt::format("[{}:{}:{}] along dimension {} of {}", starts[axis], limits[axis], steps[axis],
                            axis, operand.type().to_string()));
    dims[axis] = (limits[axis] - starts[axis] + steps[axis] - 1) / steps[axis];
    offset += starts[axis] * strides[axis];
    strides[axis] *= steps[axis];
  }
  if (product(dims) == 0) offset = 0;
  return strided_view(operand, call.result(dims), offset, strides);
}

}  // namespace

Tensor slice(const Call& call) {
  return sliced(call, call.tensor(0), call.op().integers(Attr::start_indices),
                call.op().integers(Attr::limit_indices), call.op().integers(Attr::strides));
}

Tensor real_dynamic_slice(const Call& call) {
  return sliced(call, call.tensor(0), integers_of(call.tensor(1)), integers_of(call.tensor(2)),
                integers_of(call.tensor(3)));
}

Tensor transpose_op(const Call& call) {
  const Tensor& operand = call.tensor(0);
  const auto permutation = call.op().integers(Attr::permutation);
  if (permutation.size() != static_cast<size_t>(operand.rank()))
    call.fail(fmt::format("a permutation of {} for {}", permutation.size(), operand.type().to_string()));
  const Tensor moved = transpose(operand, permutation);
  return moved.with_type(call.result(moved.dims()));
}

Tensor get_dimension_size(const Call& call) {
  const Tensor& operand = call.tensor(0);
  const int64_t axis = call.op().integer(Attr::dimension);
  if (axis < 0 || axis >= operand.rank())
    call.fail(fmt::format("dimension {} of {}", axis, operand.type().to_string()));
  Storage values = zeros(call.stated().element(), 1);
  std::visit([&]<typename T>(
                 std::vector<T>& one) { one[0] = static_cast<T>(operand.dims()[static_cast<size_t>(axis)]); },
             values);
  return Tensor(call.stated(), std::move(values));
}

// A tensor whose dimension is at most what it was: here, with sizes known, the leading part of it.
Tensor set_dimension_size(const Call& call) {
  const Tensor& operand = call.tensor(0);
  const int64_t axis = call.op().integer(Attr::dimension);
  const int64_t size = integer_at(call.tensor(1), 0);
  if (axis < 0 || axis >= operand.rank() || size < 0 || size > operand.dims()[static_cast<size_t>(axis)])
    call.fail(fmt::format("size {} of dimension {} of {}", size, axis, operand.type().to_string()));
  const Tensor part = slice_along(operand, axis, 0, size);
  return part.with_type(call.result(part.dims()));
}

}  // namespace opentrn::graph::eval
