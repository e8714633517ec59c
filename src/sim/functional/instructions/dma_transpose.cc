// dma_transpose.
#include <fmt/format.h>

#include "sim/functional/instructions/body.h"
#include "sim/functional/transfer.h"

namespace opentrn::sim::bodies {

namespace {

std::array<int64_t, 4> axes_of(const Context& cx, int rank) {
  const std::span<const int64_t> given = cx.list(isa::slot::dma_transpose::kAAxes);
  std::array<int64_t, 4> axes{};
  if (rank == 2)
    axes = {1, 0};
  else if (rank == 3)
    axes = {2, 1, 0};
  else if (rank == 4)
    axes = {3, 1, 2, 0};
  else
    cx.broken("axes", fmt::format("src has {} dimensions", rank), "2, 3 or 4 dimensions can be transposed");
  if (!given.empty() && !std::equal(given.begin(), given.end(), axes.begin(), axes.begin() + rank))
    cx.broken("axes", fmt::format("this permutation of {} dimensions is not supported", rank),
              "(1, 0), (2, 1, 0) and (3, 1, 2, 0) are");
  return axes;
}

}  // namespace

// Dimension i of dst is dimension axes[i] of src. A vector offset on src gathers its outermost dimension
// first. [doc: nki.isa.dma_transpose]
void dma_transpose(Context& cx) {
  using namespace isa::slot::dma_transpose;
  cx.skip_indices_out_of_bounds = cx.skip_out_of_bounds(kAOobMode);
  cx.keep_dimensions = true;
  const Unwritten unwritten(cx, kSrc);
  const View src = unwritten.source();
  const View dst = cx.destination(kDst);
  const int rank = src.free_rank + 1;
  const std::array<int64_t, 4> axes = axes_of(cx, rank);
  if (src.dtype != dst.dtype)
    cx.broken("dtype", fmt::format("dst is {}, src is {}", name(dst.dtype), name(src.dtype)));
  if (src.total() != dst.total())
    cx.broken("shape", fmt::format("src has {} elements, dst has {}", src.total(), dst.total()));
  if (src.skipped || dst.skipped) return;
  if (dst.repeats()) cx.broken("dst_overlap", "dst visits an element more than once");
  if (src.buffer == dst.buffer && (src.table != nullptr || dst.overlaps(src)))
    cx.broken("overlap", "a transpose cannot read and write the same bytes", "go through another tensor");

  const auto dim = [&](const View& view, int64_t d) {
    return d == 0 ? ByteDim{view.partitions, view.partition_stride} : view.free[d - 1];
  };
  FlatView permuted{.base = src.base, .element_bytes = src.element_bytes};
  FlatView flags{.base = unwritten.flags().base, .element_bytes = 1};
  permuted.rank = flags.rank = rank;
  for (int i = 0; i < rank; ++i) {
    permuted.dims[i] = dim(src, axes[i]);
    flags.dims[i] = dim(unwritten.flags(), axes[i]);
    if (axes[i] == src.table_dim) permuted.table_dim = i;
    if (dst.free_rank + 1 == rank && dim(dst, i).count != permuted.dims[i].count)
      cx.broken("shape", fmt::format("dimension {} of dst has {} elements, {} expected", i, dim(dst, i).count,
                                     permuted.dims[i].count));
  }
  if (unwritten.any()) unwritten.carry_to(cx, dst, flags);
  permuted.table = src.table;
  if (permuted.table == nullptr) permuted.rank = collapse(permuted.dims.data(), rank);
  transfer(cx, permuted, flatten(dst), src.dtype, dst.dtype, dst.total());
}

}  // namespace opentrn::sim::bodies
