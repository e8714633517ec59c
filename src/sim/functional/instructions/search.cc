// max8, nc_find_index8, nc_match_replace8, sequence_bounds, nonzero_with_count, topk.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "sim/functional/instructions/body.h"
#include "sim/functional/instructions/mx_scales.h"
#include "sim/functional/rows.h"
#include "sim/functional/unwritten.h"

namespace opentrn::sim::bodies {

namespace {

constexpr int64_t kSearched = 8;
constexpr int64_t kAbsent = -1;  // becomes all ones in an unsigned index

// Order of "largest first". NaN counts as smaller than everything [assumed].
bool larger(float a, float b) {
  if (std::isnan(a)) return false;
  return std::isnan(b) || a > b;
}

void require_index_type(const Context& cx, const View& view, int slot) {
  if (!is_integer(view.dtype))
    cx.broken("dtype", fmt::format("{} is {}", cx.operand_name(slot), name(view.dtype)),
              "use uint16 or uint32");
}

// Elements that are looked at together: a loop over so many becomes vector instructions.
constexpr int64_t kTogether = 32;

// The first element from `begin` on that equals the number; n when there is none.
int64_t first_equal(const float* row, int64_t begin, int64_t n, float number) {
  for (; begin + kTogether <= n; begin += kTogether) {
    int any = 0;
    for (int64_t i = 0; i < kTogether; ++i) any |= row[begin + i] == number ? 1 : 0;
    if (any != 0) break;
  }
  while (begin < n && !(row[begin] == number)) ++begin;
  return begin;
}

// Pairs vals[order[0]], vals[order[1]], ... each with the first element equal to it that is not taken yet.
template <typename Order>
void match(const float* row, int64_t n, const float* vals, const Order& order, int64_t* found) {
  std::fill_n(found, kSearched, kAbsent);
  for (int64_t j : order) {
    int64_t i = first_equal(row, 0, n, vals[j]);
    while (i < n && std::find(found, found + kSearched, i) != found + kSearched)
      i = first_equal(row, i + 1, n, vals[j]);
    if (i < n) found[j] = i;
  }
}

// The largest elements in order; of equal ones those that come first.
void largest(const float* row, int64_t n, std::array<float, kSearched>& best) {
  int64_t count = 0;
  const auto offer = [&](float value) {
    if (count == kSearched && !larger(value, best[kSearched - 1])) return;
    int64_t at = count < kSearched ? count++ : kSearched - 1;
    for (; at > 0 && larger(value, best[static_cast<size_t>(at - 1)]); --at)
      best[static_cast<size_t>(at)] = best[static_cast<size_t>(at - 1)];
    best[static_cast<size_t>(at)] = value;
  };
  int64_t i = 0;
  for (; i < std::min(n, kSearched); ++i) offer(row[i]);
  while (i < n) {
    const int64_t end = std::min(n, i + kTogether);
    const float least = best[kSearched - 1];
    int any = end - i < kTogether ? 1 : 0;
    // Not "smaller or equal" is true of a NaN on either side, which offer() looks at.
    if (any == 0)
      for (int64_t j = 0; j < kTogether; ++j) any |= row[i + j] <= least ? 0 : 1;
    if (any != 0)
      for (; i < end; ++i) offer(row[i]);
    i = end;
  }
}

constexpr std::array<int64_t, kSearched> kAscending = {0, 1, 2, 3, 4, 5, 6, 7};
constexpr std::array<int64_t, kSearched> kDescending = {7, 6, 5, 4, 3, 2, 1, 0};

}  // namespace

void max8(Context& cx) {
  using namespace isa::slot::max8;
  View src = cx.source(kSrc);
  const View dst = cx.destination(kDst);
  cx.expect_partitions(dst, kDst, src.partitions);
  cx.expect_elements(dst, kDst, kSearched);
  if (src.elements < kSearched)
    cx.broken("shape", fmt::format("{} elements per partition; at least {} needed", src.elements, kSearched));
  cx.separate(dst, src);
  cx.parallel(src.partitions, src.total(), [&](int64_t begin, int64_t end) {
    ScratchScope scope;
    float* scratch = scope.floats(src.elements);
    for (int64_t p = begin; p < end; ++p) {
      const float* row = load_row(src, p, scratch);
      std::array<float, kSearched> best;
      largest(row, src.elements, best);
      store_row(dst, p, best.data());
    }
  });
}

// First position of each value; equal values take successive positions; all ones where there is none.
void nc_find_index8(Context& cx) {
  using namespace isa::slot::nc_find_index8;
  View data = cx.source(kData);
  View vals = cx.source(kVals);
  const View dst = cx.destination(kDst);
  require_index_type(cx, dst, kDst);
  cx.expect_partitions(vals, kVals, data.partitions);
  cx.expect_elements(vals, kVals, kSearched);
  cx.expect_partitions(dst, kDst, data.partitions);
  cx.expect_elements(dst, kDst, kSearched);
  cx.separate(dst, data, vals);
  cx.parallel(data.partitions, data.total() * 2, [&](int64_t begin, int64_t end) {
    ScratchScope scope;
    float* scratch = scope.floats(data.elements);
    std::array<float, kSearched> wanted;
    std::array<int64_t, kSearched> found;
    for (int64_t p = begin; p < end; ++p) {
      const float* row = load_row(data, p, scratch);
      match(row, data.elements, load_row(vals, p, wanted.data()), kAscending, found.data());
      store_row_i64(dst, p, found.data());
    }
  });
}

// dst = data with the first match of each value replaced; values are taken from the last to the first, so of
// equal ones the last column gets the first position. [doc: nki.isa.nc_match_replace8]
void nc_match_replace8(Context& cx) {
  using namespace isa::slot::nc_match_replace8;
  const float replacement = static_cast<float>(cx.real(kAImm));
  View data = cx.source(kData);
  View vals = cx.source(kVals);
  const View dst = cx.destination(kDst);
  cx.expect_same_shape(dst, data, kDst, kData);
  cx.expect_partitions(vals, kVals, data.partitions);
  cx.expect_elements(vals, kVals, kSearched);
  const bool wants_index = cx.has(kDstIdx);
  View index;
  if (wants_index) {
    index = cx.destination(kDstIdx);
    require_index_type(cx, index, kDstIdx);
    cx.expect_partitions(index, kDstIdx, data.partitions);
    cx.expect_elements(index, kDstIdx, kSearched);
    cx.separate(index, data, vals);
  }
  cx.separate(dst, data, vals);
  cx.parallel(data.partitions, data.total() * 2, [&](int64_t begin, int64_t end) {
    ScratchScope scope;
    float* scratch = scope.floats(data.elements);
    float* out = scope.floats(data.elements);
    std::array<float, kSearched> wanted;
    std::array<int64_t, kSearched> found;
    for (int64_t p = begin; p < end; ++p) {
      const float* row = load_row(data, p, scratch);
      match(row, data.elements, load_row(vals, p, wanted.data()), kDescending, found.data());
      std::copy_n(row, data.elements, out);
      for (int64_t at : found)
        if (at != kAbsent) out[at] = replacement;
      store_row(dst, p, out);
      if (wants_index) store_row_i64(index, p, found.data());
    }
  });
}

// Per element the start and the end of its run of equal ids; padding (id 0) gets n and -1. All starts come
// first, then all ends. [doc: nki.isa.sequence_bounds]
void sequence_bounds(Context& cx) {
  using namespace isa::slot::sequence_bounds;
  View ids = cx.source(kSegmentIds);
  const View dst = cx.destination(kDst);
  const int64_t n = ids.elements;
  cx.expect_partitions(dst, kDst, ids.partitions);
  cx.expect_elements(dst, kDst, 2 * n);
  cx.separate(dst, ids);
  float* scratch = cx.scratch.floats(n);
  float* bounds = cx.scratch.floats(2 * n);
  for (int64_t p = 0; p < ids.partitions; ++p) {
    const float* row = load_row(ids, p, scratch);
    for (int64_t begin = 0; begin < n;) {
      int64_t end = begin + 1;
      while (end < n && row[end] == row[begin]) ++end;
      const bool padding = row[begin] == 0.0f;
      std::fill(bounds + begin, bounds + end, static_cast<float>(padding ? n : begin));
      std::fill(bounds + n + begin, bounds + n + end, padding ? -1.0f : static_cast<float>(end));
      begin = end;
    }
    store_row(dst, p, bounds);
  }
}

// Only the first partition of each GpSimd core: indices of nonzeros, padding, count. [doc:
// nonzero_with_count]
void nonzero_with_count(Context& cx) {
  using namespace isa::slot::nonzero_with_count;
  const View src = cx.unchecked(kSrc);
  const View dst = cx.unchecked(kDst);
  const int64_t n = src.elements;
  if (dst.dtype != DType::kInt32) cx.broken("dtype", fmt::format("dst is {}", name(dst.dtype)), "use int32");
  cx.expect_partitions(dst, kDst, src.partitions);
  cx.expect_elements(dst, kDst, n + 1);
  const int64_t offset = static_cast<int32_t>(cx.integer(kAIndexOffset));
  const int64_t padding = cx.integer(kAPaddingVal);
  float* scratch = cx.scratch.floats(n);
  int64_t* out = cx.scratch.array<int64_t>(n + 1);
  // Each core counts by itself: one whose row nobody wrote spoils its own result only.
  bool any_written = false;
  for (int64_t p = 0; p < src.partitions; p += kGpSimdCorePartitions) {
    if (cx.first_unwritten(row_view(src, p)) >= 0) {
      leave_unwritten(cx, row_view(dst, p), kSrc);
      continue;
    }
    any_written = true;
    const float* row = load_row(src, p, scratch);
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i)
      if (row[i] != 0.0f) out[count++] = i + offset;
    std::fill(out + count, out + n, padding);
    out[n] = count;
    cx.mark_written(row_view(dst, p));
    store_row_i64(dst, p, out);
  }
  if (!any_written) cx.check_initialised(row_view(src, 0), kSrc);
}

// A group of 16 partitions holds one list: element i in partition i % 16, column i / 16. Every partition of
// the group gets the group's K largest values, ascending, and their positions [assumed: the page says both
// that a partition works alone and that the list spans 16]. Of equal values the lower position counts as
// larger [assumed].
void topk(Context& cx) {
  using namespace isa::slot::topk;
  const View src = cx.source(kSrc);
  const int64_t n = cx.integer(kAN);
  if (src.partitions % kGpSimdCorePartitions != 0)
    cx.broken("shape", fmt::format("{} partitions; a multiple of 16 is needed", src.partitions));
  if (n < 1 || n > src.elements * kGpSimdCorePartitions)
    cx.broken("n", fmt::format("n = {}; a group holds {}", n, src.elements * kGpSimdCorePartitions));
  float* values = cx.scratch.floats(src.total());
  for (int64_t p = 0; p < src.partitions; ++p) {
    const float* row = load_row(src, p, values + p * src.elements);
    if (row != values + p * src.elements) std::copy_n(row, src.elements, values + p * src.elements);
  }
  const View val_dst = cx.destination(kValDst);
  const View idx_dst = cx.destination(kIdxDst);
  require_index_type(cx, idx_dst, kIdxDst);
  const int64_t k = val_dst.elements;
  cx.expect_partitions(val_dst, kValDst, src.partitions);
  cx.expect_same_shape(val_dst, idx_dst, kValDst, kIdxDst);
  if (k > n) cx.broken("shape", fmt::format("K = {} of n = {}", k, n));
  float* list = cx.scratch.floats(n);
  int64_t* order = cx.scratch.array<int64_t>(n);
  float* best = cx.scratch.floats(k);
  int64_t* where = cx.scratch.array<int64_t>(k);
  for (int64_t first = 0; first < src.partitions; first += kGpSimdCorePartitions) {
    for (int64_t i = 0; i < n; ++i)
      list[i] = values[(first + i % kGpSimdCorePartitions) * src.elements + i / kGpSimdCorePartitions];
    std::iota(order, order + n, int64_t{0});
    std::partial_sort(order, order + k, order + n, [&](int64_t a, int64_t b) {
      return larger(list[a], list[b]) || (!larger(list[b], list[a]) && a < b);
    });
    for (int64_t i = 0; i < k; ++i) {
      where[i] = order[k - 1 - i];
      best[i] = list[where[i]];
    }
    for (int64_t p = first; p < first + kGpSimdCorePartitions; ++p) {
      store_row(val_dst, p, best);
      store_row_i64(idx_dst, p, where);
    }
  }
}

}  // namespace opentrn::sim::bodies
