// The windows of reduce_window and select_and_scatter, as their attributes say.
#pragma once

#include <functional>
#include <numeric>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"

namespace opentrn::compiler {

struct Windows {
  Dims size, stride, base_dilation, dilation, low, high;

  Windows(const Function& function, const Op& op) {
    const auto rank = static_cast<size_t>(function.type(op.operands[0]).rank());
    size = op.integers_or(Attr::window_dimensions, rank, 1);
    stride = op.integers_or(Attr::window_strides, rank, 1);
    base_dilation = op.integers_or(Attr::base_dilations, rank, 1);
    dilation = op.integers_or(Attr::window_dilations, rank, 1);
    low.assign(rank, 0);
    high.assign(rank, 0);
    if (!op.has(Attr::padding)) return;
    const auto& padding = op.matrix(Attr::padding).values;
    for (size_t d = 0; d < rank; ++d) {
      low[d] = padding[2 * d];
      high[d] = padding[2 * d + 1];
    }
  }

  int64_t places() const {
    return std::accumulate(size.begin(), size.end(), int64_t{1}, std::multiplies<>());
  }
};

}  // namespace opentrn::compiler
