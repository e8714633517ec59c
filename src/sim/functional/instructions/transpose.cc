// nc_transpose, nc_stream_shuffle.
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "arch/core_features.h"
#include "numerics/transpose.h"
#include "sim/functional/instructions/body.h"
#include "sim/functional/instructions/mx_scales.h"
#include "sim/functional/rows.h"
#include "sim/functional/transfer.h"

namespace opentrn::sim::bodies {

namespace {

// The Tensor Engine of NeuronCore-v2 multiplies by an identity: a column of data with an infinity or a NaN
// turns every product 0 * x of that column into NaN. [doc: nki.isa.nc_transpose]
void spread_non_finite(const View& transposed) {
  if (!is_float(transposed.dtype)) return;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ScratchScope scope;
  float* scratch = scope.floats(transposed.elements);
  float* out = scope.floats(transposed.elements);
  for (int64_t f = 0; f < transposed.partitions; ++f) {
    const float* row = load_row(transposed, f, scratch);
    int64_t bad = 0, where = -1;
    for (int64_t p = 0; p < transposed.elements; ++p)
      if (!std::isfinite(row[p])) ++bad, where = p;
    if (bad == 0) continue;
    std::fill_n(out, transposed.elements, nan);
    if (bad == 1) out[where] = row[where];
    store_row(transposed, f, out);
  }
}

// 8-bit elements as 16-bit ones with a zero upper half.
View widened(Context& cx, const View& view) {
  View wide = view;
  wide.dtype = DType::kUint16;
  wide.element_bytes = 2;
  wide = cx.scratch_like(wide);
  ScratchScope scope;
  int64_t* row = scope.array<int64_t>(view.elements);
  for (int64_t p = 0; p < view.partitions; ++p) {
    load_row_i64(view, p, row);  // raw bits
    store_row_i64(wide, p, row);
  }
  return wide;
}

}  // namespace

void nc_transpose(Context& cx) {
  using namespace isa::slot::nc_transpose;
  const bool on_tensor = cx.in_psum(kDst) && cx.engine() != isa::Engine::kVector;
  const bool computes =
      on_tensor && !arch::core_features(cx.generation()).matmul_transposes_bits;  // see spread_non_finite
  const std::optional<Unwritten> unwritten = computes ? std::nullopt : std::optional<Unwritten>({cx, kData});
  View data = computes ? cx.source(kData) : unwritten->source();
  const View dst = cx.destination(kDst, on_tensor ? Writer::kMatmul : Writer::kOther);
  // fp8 data become 16-bit elements whose upper half is zero. [doc: trainium2_arch.rst, transpose support]
  const bool widens = on_tensor && is_fp8(data.dtype) && dst.element_bytes == 2;
  if (dst.dtype != data.dtype && !widens)
    cx.broken("dtype", fmt::format("dst is {}, data is {}", name(dst.dtype), name(data.dtype)));
  if (widens) data = widened(cx, data);
  cx.expect_partitions(dst, kDst, data.elements);
  cx.expect_elements(dst, kDst, data.partitions);
  if (unwritten && unwritten->any()) {
    FlatView flags{.base = unwritten->flags().base, .element_bytes = 1};
    flags.rank = 2;
    flags.dims = {ByteDim{data.elements, 1}, ByteDim{data.partitions, data.elements}};
    unwritten->carry_to(cx, dst, flags);
  }
  if (dst.overlaps(data) || !data.free_contiguous()) data = cx.snapshot(data);
  const int bytes = data.element_bytes;
  const size_t rows = static_cast<size_t>(data.partitions), columns = static_cast<size_t>(data.elements);
  const bool direct = dst.free_contiguous() && dst.partition_stride >= 0 &&
                      dst.partition_stride % bytes == 0 && data.partition_stride >= 0 &&
                      data.partition_stride % bytes == 0;
  if (direct) {
    numerics::transpose(bytes, data.base, static_cast<size_t>(data.partition_stride / bytes), rows, columns,
                        dst.base, static_cast<size_t>(dst.partition_stride / bytes));
  } else {
    if (data.partition_stride < 0) data = cx.snapshot(data);
    const View result = cx.scratch_like(dst);
    numerics::transpose(bytes, data.base, static_cast<size_t>(data.partition_stride / bytes), rows, columns,
                        result.base, rows);
    transfer(cx, flatten(result), flatten(dst), dst.dtype, dst.dtype, dst.total());
  }
  if (computes) spread_non_finite(dst);
}

// Output partition i of every quadrant of 32 copies input partition mask[i] of that quadrant; 255 leaves it.
// A source of fewer partitions than a quadrant may be broadcast. [doc: nki.isa.nc_stream_shuffle]
void nc_stream_shuffle(Context& cx) {
  using namespace isa::slot::nc_stream_shuffle;
  constexpr int64_t kUnmodified = 255, kNone = -1;
  const std::span<const int64_t> mask = cx.list(kAShuffleMask);
  if (mask.size() != static_cast<size_t>(kQuadrantPartitions))
    cx.broken("shuffle_mask", fmt::format("{} entries; a quadrant has {}", mask.size(), kQuadrantPartitions));
  const View src = cx.unchecked(kSrc);
  const View dst = cx.unchecked(kDst);
  if (dst.dtype != src.dtype)
    cx.broken("dtype", fmt::format("dst is {}, src is {}", name(dst.dtype), name(src.dtype)));
  cx.expect_elements(dst, kDst, src.elements);

  std::array<int64_t, kPartitionsMax> source_of{};  // by partition of dst
  std::array<bool, kPartitionsMax> checked{};
  bool whole = true;
  for (int64_t p = 0; p < dst.partitions; ++p) {
    const int64_t from = mask[static_cast<size_t>(p % kQuadrantPartitions)];
    source_of[p] = kNone;
    whole &= from != kUnmodified;
    if (from == kUnmodified) continue;
    const int64_t partition = p / kQuadrantPartitions * kQuadrantPartitions + from;
    if (from < 0 || from >= kQuadrantPartitions || partition >= src.partitions)
      cx.broken("shuffle_mask", fmt::format("entry {} takes partition {} of {}", p % kQuadrantPartitions,
                                            partition, src.partitions));
    if (!std::exchange(checked[partition], true)) cx.check_initialised(row_view(src, partition), kSrc);
    source_of[p] = partition;
  }
  const auto moves = [&](int64_t p) { return source_of[p] != kNone; };
  if (whole) cx.mark_written(dst);
  for (int64_t p = 0; p < dst.partitions && !whole; ++p)
    if (moves(p)) cx.mark_written(row_view(dst, p));
  const View values = dst.overlaps(src) ? cx.snapshot(src) : src;
  const int64_t work = dst.repeats() ? 0 : dst.total() * dst.element_bytes / 16;
  const bool plain = dst.free_contiguous() && values.free_contiguous();
  const size_t row_bytes = static_cast<size_t>(dst.elements * dst.element_bytes);
  const auto shuffle = [&](const View& to, int64_t p0) {
    for (int64_t p = 0; p < to.partitions; ++p) {
      if (!moves(p0 + p)) continue;
      const int64_t from = source_of[static_cast<size_t>(p0 + p)];
      if (plain)
        std::memcpy(to.row(p), values.row(from), row_bytes);
      else
        transfer_alone(flatten(row_view(values, from)), flatten(row_view(to, p)), dst.dtype, dst.dtype);
    }
  };
  View row = values;
  row.partition_stride = 0;
  if (values.partitions == 1 && cx.defer_copy(dst, row)) return;
  if (cx.defers())
    defer_rows<0>(cx, {}, dst, [&](auto&, const View& to, int64_t p0) { shuffle(to, p0); });
  else
    cx.parallel(dst.partitions, work,
                [&](int64_t begin, int64_t end) { shuffle(dst.part(begin, end), begin); });
}

}  // namespace opentrn::sim::bodies
