// What a mask leaves of an instruction's index space: boxes, one range of indices per axis.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace opentrn::nki {

// Indices start, start + step, ... (count of them) of one axis.
struct IndexRange {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;

  bool operator==(const IndexRange&) const = default;
};
using IndexBox = std::vector<IndexRange>;

// Boxes that cover exactly the true values of an array, row-major: one where they are a product of one range
// per axis; else runs of rows that allow the same columns go together.
std::vector<IndexBox> boxes_of(const bool* truth, std::span<const int64_t> shape);

// Boxes of a product of one set of indices per axis.
std::vector<IndexBox> boxes_of_axes(const std::vector<std::vector<bool>>& axes);

}  // namespace opentrn::nki
