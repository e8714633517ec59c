#include "sim/functional/instructions/mx_scales.h"

#include <fmt/format.h>

#include "numerics/convert.h"

namespace opentrn::sim {

View row_view(const View& view, int64_t p) {
  View row = view;
  row.base = view.row(p);
  row.partitions = 1;
  row.row_begin = view.row_begin + p;
  row.row_end = row.row_begin + 1;
  return row;
}

MxScales::MxScales(Context& cx, int slot, const View& data) : elements_(data.elements) {
  // An indirect operand is gathered; else only the rows that hold scales have to be initialised.
  const bool indirect = cx.is_tensor_indirect(cx.operand(slot));
  const View scales = indirect ? cx.source(slot) : cx.unchecked(slot);
  if (scales.dtype != DType::kUint8 && scales.dtype != DType::kFloat8E8M0Fnu)
    cx.broken("scale_dtype", fmt::format("{} is {}", cx.operand_name(slot), name(scales.dtype)),
              "use float8_e8m0fnu or uint8");
  cx.expect_elements(scales, slot, data.elements);
  if (data.partitions % kMxGroupRows != 0)
    cx.broken("shape", fmt::format("{} partitions; a scale covers {}", data.partitions, kMxGroupRows));
  const int64_t last = mx_scale_row(data.partitions - 1);
  if (last >= scales.partitions)
    cx.broken("shape", fmt::format("{} has {} partitions; the scales of {} data partitions reach row {}",
                                   cx.operand_name(slot), scales.partitions, data.partitions, last));
  const int64_t groups = data.partitions / kMxGroupRows;
  rows_ = cx.scratch.array<uint8_t>(groups * elements_);
  for (int64_t g = 0; g < groups; ++g) {
    const View row = row_view(scales, mx_scale_row(g * kMxGroupRows));
    if (!indirect) cx.check_initialised(row, slot);
    uint8_t* to = rows_ + g * elements_;
    for_runs_of_partition(row, 0, [&](std::byte* at, int64_t n, int64_t stride) {
      numerics::copy_bits(1, at, stride, to, 1, static_cast<size_t>(n));
      to += n;
    });
  }
}

}  // namespace opentrn::sim
