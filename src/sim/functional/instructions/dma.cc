// dma_copy, dma_compute.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "numerics/alu.h"
#include "sim/functional/instructions/body.h"
#include "sim/functional/rows.h"
#include "sim/functional/transfer.h"

namespace opentrn::sim::bodies {

namespace {

void expect_same_total(const Context& cx, const View& dst, const View& src, int slot) {
  if (dst.total() == src.total()) return;
  cx.broken("shape",
            fmt::format("{} has {} elements, dst has {}", cx.operand_name(slot), src.total(), dst.total()));
}

// A DMA that writes an element twice leaves whichever descriptor came last.
void refuse_repeated_writes(const Context& cx, const View& dst) {
  if (dst.table == nullptr && dst.repeats())
    cx.broken("dst_overlap", "dst visits an element more than once; which value stays is undefined",
              "broadcast on the source side instead");
}

bool shares_memory(const View& a, const View& b) {
  return a.buffer != nullptr && a.buffer == b.buffer &&
         (a.table != nullptr || b.table != nullptr || a.overlaps(b)) && !a.same_walk(b);
}

// Read-modify-write through equal indices would lose updates. [doc: nki.isa.dma_compute, unique_indices]
void require_unique_indices(const Context& cx, const View& dst, bool promised) {
  if (!promised)
    cx.fail(FaultKind::kNotModelled, "dma_compute.unique_indices", "unique_indices=False is not supported",
            "NKI 0.6 does not support it either");
  const int64_t count = dst.table_dim == 0 ? dst.partitions : dst.free[dst.table_dim - 1].count;
  std::vector<int64_t> offsets(dst.table, dst.table + count);
  std::erase(offsets, kSkippedIndex);
  std::sort(offsets.begin(), offsets.end());
  if (std::adjacent_find(offsets.begin(), offsets.end()) != offsets.end())
    cx.broken("unique_indices", "two rows of dst have the same index", "indices of a scatter must differ");
}

}  // namespace

// Same type: bits. Different types: through fp32. [doc: nki.isa.dma_copy]
void dma_copy(Context& cx) {
  using namespace isa::slot::dma_copy;
  cx.skip_indices_out_of_bounds = cx.skip_out_of_bounds(kAOobMode);
  const Unwritten unwritten(cx, kSrc);
  View src = unwritten.source();
  const View dst = cx.destination(kDst);
  expect_same_total(cx, dst, src, kSrc);
  if (src.skipped || dst.skipped) return;
  refuse_repeated_writes(cx, dst);
  unwritten.carry_to(cx, dst);
  if (shares_memory(dst, src)) {
    if (src.table != nullptr)
      cx.broken("overlap", "an indirect DMA reads and writes the same tensor", "go through another tensor");
    src = cx.snapshot(src);
  }
  transfer(cx, src, dst);
}

// dst = srcs[0] + srcs[1] + ..., left to right in fp32, rounded once. [doc: nki.isa.dma_compute]
//
// A skipped index leaves its element of dst alone (scatter) or adds nothing from that source (gather)
// [assumed: "silently skips any operations involving out-of-bounds indices"].
void dma_compute(Context& cx) {
  using namespace isa::slot::dma_compute;
  cx.skip_indices_out_of_bounds = cx.skip_out_of_bounds(kAOobMode);
  const AluOp op = cx.alu(kAReduceOp);
  if (op != AluOp::kAdd)
    cx.broken("reduce_op", fmt::format("{} is not supported by the DMA engines", name(op)), "only nl.add is");
  const int sources = cx.operand_count() - kSrc0;
  if (sources > 16) cx.broken("srcs", fmt::format("{} sources; at most 16", sources));
  std::array<View, 16> src;
  for (int i = 0; i < sources; ++i) src[i] = cx.source(kSrc0 + i);
  const View dst = cx.destination(kDst);
  for (int i = 0; i < sources; ++i) expect_same_total(cx, dst, src[i], kSrc0 + i);
  if (dst.skipped) return;
  if (dst.table == nullptr)
    refuse_repeated_writes(cx, dst);
  else
    require_unique_indices(cx, dst, cx.boolean(kAUniqueIndices));

  // Everything is read before dst is written, so its overlap with a source does not matter.
  const int64_t total = dst.total();
  float* sum = cx.scratch.floats(total);
  float* value = cx.scratch.floats(total);
  for (int i = 0; i < sources; ++i) {
    const View& view = src[i];
    float* const target = i == 0 ? sum : value;
    const FlatView flat = flatten(view);
    int64_t at = 0;
    for (RunCursor from(flat); from.remaining() > 0;) {
      const int64_t n = from.remaining();
      if (from.skipped() || view.skipped)
        std::fill_n(target + at, n, 0.0f);
      else
        load_run(view.dtype, from.address(), from.stride() / view.element_bytes, target + at, n);
      at += n;
      from.advance(n);
    }
    if (i > 0) numerics::alu_tensor_tensor(AluOp::kAdd, sum, value, sum, static_cast<size_t>(total));
  }
  const FlatView flat = flatten(dst);
  int64_t at = 0;
  for (RunCursor to(flat); to.remaining() > 0;) {
    const int64_t n = to.remaining();
    if (!to.skipped()) store_run(dst.dtype, sum + at, to.address(), to.stride() / dst.element_bytes, n);
    at += n;
    to.advance(n);
  }
}

}  // namespace opentrn::sim::bodies
