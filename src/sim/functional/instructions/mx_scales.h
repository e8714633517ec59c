// Where the scales of a microscaled tile lie.
//
// A group is 8 partitions x 4 packed values. Its scale stands in the same quadrant of 32 partitions, at row
// (group within the quadrant): data partition p has its scale in row 32 * (p / 32) + (p % 32) / 8.
// [doc: nki/deep-dives/mxfp-matmul.rst, "Scale Tensor"]
#pragma once

#include "sim/functional/context.h"

namespace opentrn::sim {

inline constexpr int64_t kQuadrantPartitions = 32;
inline constexpr int64_t kMxGroupRows = 8;

constexpr int64_t mx_scale_row(int64_t partition) {
  return partition / kQuadrantPartitions * kQuadrantPartitions +
         partition % kQuadrantPartitions / kMxGroupRows;
}

// The scale rows that a tile of `data` uses, read from a uint8 or float8_e8m0fnu operand.
class MxScales {
 public:
  MxScales(Context& cx, int slot, const View& data);
  const uint8_t* row_of(int64_t partition) const { return rows_ + partition / kMxGroupRows * elements_; }

 private:
  uint8_t* rows_;
  int64_t elements_;
};

// One row of a view, as a view: for operands of which only some rows are touched.
View row_view(const View& view, int64_t p);

}  // namespace opentrn::sim
