// Ops whose shape or place comes from an operand.
#include "graph/eval/bodies.h"
#include "graph/eval/indexing.h"

namespace opentrn::graph::eval {

namespace {

// A shape operand, refused where a size is negative or the tensor would not fit in memory counts.
Dims shape_operand(const Call& call, size_t operand) {
  const Dims dims = integers_of(call.tensor(operand));
  for (const int64_t dim : dims)
    if (dim < 0) call.fail(fmt::format("a dimension of size {}", dim));
  (void)Type::tensor(ElementType::kI8, dims).element_count();  // faults when the product overflows
  return dims;
}

// Start indices are clamped so that the window stays inside. Scalars from operand `first` on.
Dims clamped_starts(const Call& call, size_t first, std::span<const int64_t> dims,
                    std::span<const int64_t> window) {
  if (call.operand_count() != first + dims.size())
    call.fail(fmt::format("{} start indices for rank {}", call.operand_count() - first, dims.size()));
  Dims starts;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (window[axis] > dims[axis])
      call.fail(fmt::format("a window of {} in dimension {} of size {}", window[axis], axis, dims[axis]));
    starts.push_back(
        std::clamp<int64_t>(integer_at(call.tensor(first + axis), 0), 0, dims[axis] - window[axis]));
  }
  return starts;
}

}  // namespace

Tensor dynamic_broadcast_in_dim(const Call& call) {
  const Tensor& operand = call.tensor(0);
  const Dims dims = shape_operand(call, 1);
  const auto places = call.op().integers(Attr::broadcast_dimensions);
  const Dims from = row_major_strides(operand.dims());
  Dims strides(dims.size(), 0);
  for (size_t axis = 0; axis < places.size(); ++axis) {
    const int64_t own = operand.dims()[axis];
    const int64_t place = places[axis];
    if (place < 0 || static_cast<size_t>(place) >= dims.size() ||
        (own != 1 && own != dims[static_cast<size_t>(place)]))
      call.fail(fmt::format("dimension {} of {} does not fit dimension {} of the result", axis,
                            operand.type().to_string(), place));
    if (own != 1) strides[static_cast<size_t>(place)] = from[axis];
  }
  return strided_view(operand, call.result(dims), 0, strides);
}

Tensor dynamic_iota(const Call& call) {
  const Type type = call.result(shape_operand(call, 0));
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

Tensor dynamic_reshape(const Call& call) {
  const Tensor& operand = call.tensor(0);
  const Type type = call.result(shape_operand(call, 1));
  if (type.element_count() != operand.size())
    call.fail(fmt::format("{} as {}", operand.type().to_string(), type.to_string()));
  return operand.with_type(type);
}

Tensor dynamic_slice(const Call& call) {
  const Tensor& operand = call.tensor(0);
  const auto sizes = call.op().integers(Attr::slice_sizes);
  if (sizes.size() != static_cast<size_t>(operand.rank()))
    call.fail(fmt::format("{} slice_sizes for {}", sizes.size(), operand.type().to_string()));
  const Dims starts = clamped_starts(call, 1, operand.dims(), sizes);
  const Dims strides = row_major_strides(operand.dims());
  if (product(sizes) == 0) return zero_tensor(call.result(sizes));
  return strided_view(operand, call.result(sizes), linear_index(starts, strides), strides);
}

Tensor dynamic_update_slice(const Call& call) {
  const Tensor& operand = call.tensor(0);
  const Tensor& update = call.tensor(1);
  if (update.rank() != operand.rank() || update.storage().index() != operand.storage().index())
    call.fail(fmt::format("{} in {}", update.type().to_string(), operand.type().to_string()));
  const Dims starts = clamped_starts(call, 2, operand.dims(), update.dims());
  const Dims strides = row_major_strides(operand.dims());
  return visit_values(operand, [&]<typename T>(std::vector<T> values) {
    const std::vector<T>& news = update.values<T>();
    const int64_t offset = linear_index(starts, strides);
    for_each_index(update.dims(), [&](const Dims& index, int64_t linear) {
      values[static_cast<size_t>(offset + linear_index(index, strides))] = news[static_cast<size_t>(linear)];
    });
    return Tensor(call.result(operand.dims()), std::move(values));
  });
}

}  // namespace opentrn::graph::eval
