#include "sim/functional/transfer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "numerics/convert.h"
#include "sim/functional/rows.h"

namespace opentrn::sim {

namespace {

void move_run(DType src_dtype, const std::byte* from, int64_t from_stride, DType dst_dtype, std::byte* to,
              int64_t to_stride, int64_t n) {
  const int from_bytes = size_bytes(src_dtype);
  const int to_bytes = size_bytes(dst_dtype);
  if (src_dtype != dst_dtype) {
    numerics::convert(src_dtype, from, from_stride / from_bytes, dst_dtype, to, to_stride / to_bytes,
                      static_cast<size_t>(n));
  } else if (from_stride == from_bytes && to_stride == to_bytes) {
    if (from != to) std::memcpy(to, from, static_cast<size_t>(n * to_bytes));
  } else if (to_bytes == 4 && n < kShortRun) {
    move_words<uint32_t>(from, from_stride, to, to_stride, n);
  } else {
    numerics::copy_bits(to_bytes, from, from_stride / from_bytes, to, to_stride / to_bytes,
                        static_cast<size_t>(n));
  }
}

// The part [begin, end) of the outermost dimension.
FlatView slice(const FlatView& view, int64_t begin, int64_t end) {
  FlatView part = view;
  part.dims[0].count = end - begin;
  if (part.table_dim == 0)
    part.table += begin;
  else
    part.base += begin * part.dims[0].stride;
  return part;
}

// Distinct indices of the outermost dimension touch distinct memory.
bool outer_is_disjoint(const FlatView& view) {
  if (view.table != nullptr) return false;
  int64_t extent = view.element_bytes;
  for (int d = 1; d < view.rank; ++d) extent += std::abs(view.dims[d].stride) * (view.dims[d].count - 1);
  return std::abs(view.dims[0].stride) >= extent;
}

// Splits a merged outermost run into `outer` pieces, so that two walks can be cut at the same elements.
bool split_outer(FlatView& view, int64_t outer) {
  if (view.rank == 0 || view.table_dim == 0) return false;
  if (view.dims[0].count == outer) return true;
  if (view.dims[0].count % outer != 0 || view.rank == isa::kMaxRank) return false;
  const int64_t inner = view.dims[0].count / outer;
  for (int d = view.rank; d > 0; --d) view.dims[d] = view.dims[d - 1];
  view.dims[0] = {outer, view.dims[0].stride * inner};
  view.dims[1].count = inner;
  ++view.rank;
  if (view.table_dim >= 0) ++view.table_dim;
  return true;
}

// Whether both are the same bytes in the same order, as where a tile lies in what it is copied to.
bool is_itself(const FlatView& src, const FlatView& dst) {
  if (src.base != dst.base || src.rank != dst.rank || src.table != nullptr || dst.table != nullptr)
    return false;
  for (int d = 0; d < src.rank; ++d)
    if (src.dims[d].count != dst.dims[d].count || src.dims[d].stride != dst.dims[d].stride) return false;
  return true;
}

// A loop that both walks share.
struct JointDim {
  int64_t count, from, to;  // strides in bytes
};

// Loops, outermost first, that visit the elements of two walks in their order.
struct JointLoops {
  std::array<JointDim, 2 * isa::kMaxRank> dims;
  int rank = 0;
};

// None where a table says where elements are, or where runs of one walk end inside of the other's.
std::optional<JointLoops> joint_loops(const FlatView& src, const FlatView& dst) {
  if (src.table != nullptr || dst.table != nullptr) return std::nullopt;
  JointLoops loops;  // innermost first until the end
  int s = src.rank, d = dst.rank;
  ByteDim from{1, 0}, to{1, 0};
  while (true) {
    if (from.count == 1 && s > 0) {
      from = src.dims[--s];
      continue;
    }
    if (to.count == 1 && d > 0) {
      to = dst.dims[--d];
      continue;
    }
    if (from.count == 1 || to.count == 1) break;
    const int64_t n = std::min(from.count, to.count);
    if (n == 0 || from.count % n != 0 || to.count % n != 0) return std::nullopt;
    loops.dims[loops.rank++] = {n, from.stride, to.stride};
    from = {from.count / n, from.stride * n};
    to = {to.count / n, to.stride * n};
  }
  if (from.count != to.count) return std::nullopt;  // walks of different lengths end with the shorter one
  std::reverse(loops.dims.begin(), loops.dims.begin() + loops.rank);
  return loops;
}

// Rows of kColumns elements, in the order of the walk.
template <typename Word, int kColumns>
void copy_narrow(const std::byte* from, std::byte* to, JointDim rows, JointDim columns) {
  for (int64_t r = 0; r < rows.count; ++r, from += rows.from, to += rows.to)
    for (int c = 0; c < kColumns; ++c)
      std::memcpy(to + c * columns.to, from + c * columns.from, sizeof(Word));
}

// Rows of rows.count x columns.count elements.
template <typename Word>
void copy_plane(const std::byte* from, std::byte* to, JointDim rows, JointDim columns) {
  if (columns.count == 2) return copy_narrow<Word, 2>(from, to, rows, columns);
  if (columns.count == 3) return copy_narrow<Word, 3>(from, to, rows, columns);
  if (columns.count == 4) return copy_narrow<Word, 4>(from, to, rows, columns);
  const bool dense = columns.from == sizeof(Word) && columns.to == sizeof(Word);
  for (int64_t r = 0; r < rows.count; ++r, from += rows.from, to += rows.to) {
    if (dense)
      std::memmove(to, from, static_cast<size_t>(columns.count) * sizeof(Word));
    else if (columns.count < kShortRun)
      move_words<Word>(from, columns.from, to, columns.to, columns.count);
    else
      numerics::copy_bits(sizeof(Word), from, columns.from / static_cast<int64_t>(sizeof(Word)), to,
                          columns.to / static_cast<int64_t>(sizeof(Word)),
                          static_cast<size_t>(columns.count));
  }
}

template <typename Word>
void copy_words(const std::byte* from, std::byte* to, const JointLoops& loops) {
  const JointDim one{1, 0, 0};
  const int rank = loops.rank;
  const JointDim columns = rank > 0 ? loops.dims[rank - 1] : JointDim{1, sizeof(Word), sizeof(Word)};
  const JointDim rows = rank > 1 ? loops.dims[rank - 2] : one;
  std::array<int64_t, 2 * isa::kMaxRank> index{};
  while (true) {
    copy_plane<Word>(from, to, rows, columns);
    int d = rank - 3;
    for (; d >= 0; --d) {
      const JointDim& dim = loops.dims[d];
      from += dim.from, to += dim.to;
      if (++index[d] < dim.count) break;
      from -= dim.count * dim.from, to -= dim.count * dim.to;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

void copy_elements(const std::byte* from, std::byte* to, int element_bytes, const JointLoops& loops) {
  switch (element_bytes) {
    case 1: return copy_words<uint8_t>(from, to, loops);
    case 2: return copy_words<uint16_t>(from, to, loops);
    case 4: return copy_words<uint32_t>(from, to, loops);
    case 8: return copy_words<uint64_t>(from, to, loops);
    default: OPENTRN_CHECK(false, "elements of {} bytes", element_bytes);
  }
}

}  // namespace

void transfer_alone(const FlatView& src, const FlatView& dst, DType src_dtype, DType dst_dtype) {
  if (src_dtype == dst_dtype) {
    if (is_itself(src, dst)) return;
    if (const std::optional<JointLoops> loops = joint_loops(src, dst))
      return copy_elements(src.base, dst.base, size_bytes(dst_dtype), *loops);
  }
  RunCursor from(src), to(dst);
  while (to.remaining() > 0 && from.remaining() > 0) {
    const int64_t n = std::min(from.remaining(), to.remaining());
    if (!from.skipped() && !to.skipped())
      move_run(src_dtype, from.address(), from.stride(), dst_dtype, to.address(), to.stride(), n);
    from.advance(n);
    to.advance(n);
  }
}

void transfer(const Context& cx, const FlatView& src, const FlatView& dst, DType src_dtype, DType dst_dtype,
              int64_t total) {
  // A byte moved costs less than an element operation of the other bodies.
  const int64_t work = total * size_bytes(dst_dtype) / (src_dtype == dst_dtype ? 16 : 4);
  if (work >= kParallelWorkMin && src.rank > 0 && dst.rank > 0) {
    FlatView from = src, to = dst;
    int64_t outer = std::min(src.dims[0].count, dst.dims[0].count);
    if (src.rank == 1 && dst.rank == 1 && outer % 64 == 0) outer = 64;
    if (outer > 1 && split_outer(from, outer) && split_outer(to, outer) && outer_is_disjoint(to)) {
      cx.parallel(outer, work, [&](int64_t begin, int64_t end) {
        transfer_alone(slice(from, begin, end), slice(to, begin, end), src_dtype, dst_dtype);
      });
      return;
    }
  }
  transfer_alone(src, dst, src_dtype, dst_dtype);
}

void transfer(const Context& cx, const View& src, const View& dst) {
  if (!cx.defers()) return transfer(cx, flatten(src), flatten(dst), src.dtype, dst.dtype, dst.total());
  if (src.dtype == dst.dtype && cx.defer_copy(dst, src)) return;
  cx.defer(isa::is_hbm(dst.space) ? src : dst, [&](int64_t begin, int64_t end) {
    transfer_alone(flatten(src.part(begin, end)), flatten(dst.part(begin, end)), src.dtype, dst.dtype);
  });
}

}  // namespace opentrn::sim
