#include "graph/eval/indexing.h"

#include "base/interrupt.h"

namespace opentrn::graph::eval {

int64_t product(std::span<const int64_t> dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

Dims copy_dims(std::span<const int64_t> dims) { return {dims.begin(), dims.end()}; }

int64_t linear_index(std::span<const int64_t> index, std::span<const int64_t> strides) {
  int64_t at = 0;
  for (size_t axis = 0; axis < index.size(); ++axis) at += index[axis] * strides[axis];
  return at;
}

Tensor strided_view(const Tensor& source, Type type, int64_t offset, std::span<const int64_t> strides) {
  const Dims dims = copy_dims(type.dims());
  return visit_values(source, [&]<typename T>(const std::vector<T>& values) {
    std::vector<T> moved;
    moved.reserve(static_cast<size_t>(product(dims)));
    if (dims.empty()) {
      moved.push_back(values[static_cast<size_t>(offset)]);
      return Tensor(type, std::move(moved));
    }
    const std::span<const int64_t> outer(dims.data(), dims.size() - 1);
    const int64_t inner = dims.back();
    const int64_t step = strides[dims.size() - 1];
    if (inner == 0) return Tensor(type, std::move(moved));
    for_each_index(outer, [&](const Dims& index, int64_t) {
      interrupt::poll();
      int64_t at = offset + linear_index(index, strides);
      for (int64_t i = 0; i < inner; ++i, at += step) moved.push_back(values[static_cast<size_t>(at)]);
    });
    return Tensor(type, std::move(moved));
  });
}

Tensor take(const Tensor& source, Type type, std::span<const int64_t> from, const Tensor* fill) {
  return visit_values(source, [&]<typename T>(const std::vector<T>& values) {
    const T rest = fill ? fill->values<T>().front() : T{};
    std::vector<T> moved(from.size());
    for_each_element(from.size(),
                     [&](size_t i) { moved[i] = from[i] < 0 ? rest : values[static_cast<size_t>(from[i])]; });
    return Tensor(std::move(type), std::move(moved));
  });
}

Tensor transpose(const Tensor& source, std::span<const int64_t> permutation) {
  const Dims from = row_major_strides(source.dims());
  Dims dims;
  Dims strides;
  for (const int64_t axis : permutation) {
    dims.push_back(source.dims()[static_cast<size_t>(axis)]);
    strides.push_back(from[static_cast<size_t>(axis)]);
  }
  return strided_view(source, Type::tensor(source.element(), std::move(dims)), 0, strides);
}

Tensor slice_along(const Tensor& source, int64_t axis, int64_t start, int64_t length) {
  const Dims strides = row_major_strides(source.dims());
  Dims dims = copy_dims(source.dims());
  dims[static_cast<size_t>(axis)] = length;
  return strided_view(source, source.type().with_dims(dims), start * strides[static_cast<size_t>(axis)],
                      strides);
}

Tensor concatenate(std::span<const Tensor> parts, int64_t axis) {
  const auto at_axis = static_cast<size_t>(axis);
  Dims dims = copy_dims(parts.front().dims());
  const int64_t outer = product(std::span(dims).first(at_axis));
  const int64_t inner = product(std::span(dims).subspan(at_axis + 1));
  dims[at_axis] = 0;
  for (const Tensor& part : parts) dims[at_axis] += part.dims()[at_axis];
  return visit_values(parts.front(), [&]<typename T>(const std::vector<T>&) {
    std::vector<T> joined;
    joined.reserve(static_cast<size_t>(product(dims)));
    for (int64_t row = 0; row < outer; ++row) {
      for (const Tensor& part : parts) {
        const int64_t run = part.dims()[at_axis] * inner;
        const auto begin = part.values<T>().begin() + row * run;
        joined.insert(joined.end(), begin, begin + run);
      }
    }
    return Tensor(parts.front().type().with_dims(dims), std::move(joined));
  });
}

Tensor splat(Type type, const Tensor& scalar) {
  const Dims none(static_cast<size_t>(type.rank()), 0);
  return strided_view(scalar, std::move(type), 0, none);
}

Tensor zero_tensor(Type type) {
  Storage values = zeros(type.element(), type.element_count());
  return Tensor(std::move(type), std::move(values));
}

}  // namespace opentrn::graph::eval
