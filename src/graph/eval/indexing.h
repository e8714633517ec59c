// Walking tensors by index, and the one body of the ops that only move elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/interrupt.h"
#include "graph/eval/tensor.h"

namespace opentrn::graph::eval {

using Dims = std::vector<int64_t>;

int64_t product(std::span<const int64_t> dims);
Dims copy_dims(std::span<const int64_t> dims);

// Elements between two looks at whether the work is to end: well below a millisecond of most bodies.
constexpr int64_t kPollEvery = 1 << 14;

// body(i) for every i below `count`.
template <typename Body>
void for_each_element(size_t count, Body&& body) {
  for (size_t begin = 0; begin < count; begin += kPollEvery) {
    interrupt::poll();
    const size_t end = std::min(count, begin + kPollEvery);
    for (size_t i = begin; i < end; ++i) body(i);
  }
}

// Calls visit(index, linear) for every index of `dims` in row-major order; not at all when one is 0.
template <typename Visit>
void for_each_index(std::span<const int64_t> dims, Visit&& visit) {
  const int64_t count = product(dims);
  Dims index(dims.size());
  for (int64_t linear = 0; linear < count; ++linear) {
    if (linear % kPollEvery == 0) interrupt::poll();
    visit(static_cast<const Dims&>(index), linear);
    for (size_t axis = dims.size(); axis-- > 0;) {
      if (++index[axis] < dims[axis]) break;
      index[axis] = 0;
    }
  }
}

int64_t linear_index(std::span<const int64_t> index, std::span<const int64_t> strides);

// result[i] = source[offset + i . strides], strides one per result dimension, 0 to repeat.
Tensor strided_view(const Tensor& source, Type type, int64_t offset, std::span<const int64_t> strides);
// result[i] = source[from[i]]; the element `fill` where from[i] is -1.
Tensor take(const Tensor& source, Type type, std::span<const int64_t> from, const Tensor* fill = nullptr);

Tensor transpose(const Tensor& source, std::span<const int64_t> permutation);
// A part along one dimension, of `length` from `start`.
Tensor slice_along(const Tensor& source, int64_t axis, int64_t start, int64_t length);
Tensor concatenate(std::span<const Tensor> parts, int64_t axis);
Tensor splat(Type type, const Tensor& scalar);
Tensor zero_tensor(Type type);

}  // namespace opentrn::graph::eval
