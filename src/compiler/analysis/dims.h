// Lists of dimensions, as attributes have them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/module.h"

namespace opentrn::compiler {

using Dims = std::vector<int64_t>;

// None where the op does not say.
inline Dims dims_of(const graph::Op& op, graph::Attr attr) {
  if (!op.has(attr)) return {};
  const auto list = op.integers(attr);
  return {list.begin(), list.end()};
}

// Strides and dilations that change nothing.
inline bool is_ones(std::span<const int64_t> list) {
  return std::ranges::all_of(list, [](int64_t value) { return value == 1; });
}

// Elements along these dimensions.
inline int64_t count_of(const graph::Type& type, std::span<const int64_t> dimensions) {
  int64_t count = 1;
  for (const int64_t d : dimensions) count *= type.dim(static_cast<int>(d));
  return count;
}

}  // namespace opentrn::compiler
