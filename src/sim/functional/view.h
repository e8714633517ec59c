// View: a resolved access. Where the bytes are, and how to walk them.
//
// An isa access is an offset and [step, count] pairs in elements over a flat tensor. Resolving it checks
// every bound, turns steps into byte strides of the buffer (whose rows may be further apart than they are
// long), drops dimensions of one element and merges neighbours that are contiguous, so that most tiles end
// up as `partitions` rows of one run. A View lives on the stack of one instruction.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "isa/program.h"
#include "numerics/convert.h"
#include "sim/functional/buffer.h"

namespace opentrn::sim {

struct ByteDim {
  int64_t count;
  int64_t stride;  // bytes
};

// What an out-of-bounds index becomes under oob_mode.skip.
inline constexpr int64_t kSkippedIndex = std::numeric_limits<int64_t>::min();

struct View {
  std::byte* base = nullptr;
  Buffer* buffer = nullptr;  // null: scratch memory, all initialised
  DType dtype = DType::kFloat32;
  uint8_t element_bytes = 4;
  uint8_t free_rank = 0;  // collapsed free dimensions
  isa::MemorySpace space = isa::MemorySpace::kSbuf;
  isa::TensorId tensor = 0;
  int64_t partitions = 1;
  int64_t partition_stride = 0;                 // bytes
  int64_t elements = 1;                         // per partition
  std::array<ByteDim, isa::kMaxRank - 1> free;  // the first free_rank of them
  // For overlap tests: rows [row_begin, row_end) and bytes [column_begin, column_end) of the tensor.
  int64_t row_begin = 0, row_end = 1, column_begin = 0, column_end = 0;
  // Indirect dimension (DMA): byte offsets by index replace that dimension's stride. `table_dim` counts
  // uncollapsed dimensions: 0 is the partition, d > 0 is free[d - 1]; -1 when there is none.
  const int64_t* table = nullptr;
  int table_dim = -1;
  // Of a destination: how fp32 becomes `dtype`; the counter is that of the first element.
  numerics::Rounding rounding{};
  bool skipped = false;  // a scalar index out of bounds under oob_mode.skip: nothing is transferred

  int64_t total() const { return partitions * elements; }
  // For elements from `position` on, counted row by row.
  numerics::Rounding rounding_from(int64_t position) const {
    numerics::Rounding result = rounding;
    result.counter += static_cast<uint64_t>(position);
    return result;
  }
  std::byte* row(int64_t p) const { return base + p * partition_stride; }
  // Partitions [begin, end). Of a tile in a folded buffer they must lie in one band of it.
  View part(int64_t begin, int64_t end) const;
  bool free_contiguous() const {
    return free_rank == 0 || (free_rank == 1 && free[0].stride == element_bytes);
  }
  // Stride of the only free dimension, for free_rank <= 1.
  int64_t free_stride() const { return free_rank == 0 ? element_bytes : free[0].stride; }
  // All elements back to back.
  bool dense() const {
    return table == nullptr && free_contiguous() &&
           (partitions == 1 || partition_stride == elements * element_bytes);
  }
  // No element is visited twice as far as strides of zero tell.
  bool repeats() const {
    if (partitions > 1 && partition_stride == 0) return true;
    for (int i = 0; i < free_rank; ++i)
      if (free[i].count > 1 && free[i].stride == 0) return true;
    return false;
  }
  bool same_walk(const View& other) const;
  bool overlaps(const View& other) const {
    return buffer != nullptr && buffer == other.buffer && row_begin < other.row_end &&
           other.row_begin < row_end && column_begin < other.column_end && other.column_begin < column_end;
  }
};

// Merges and drops dimensions in place; returns the new rank.
int collapse(ByteDim* dims, int rank);

// All dimensions of a view, partition first, collapsed as far as an indirect dimension allows.
struct FlatView {
  std::byte* base;
  int element_bytes;
  int rank = 0;
  std::array<ByteDim, isa::kMaxRank> dims{};
  const int64_t* table = nullptr;
  int table_dim = -1;
};
FlatView flatten(const View& view);

// Walks a FlatView row-major in runs: blocks of the innermost dimension.
class RunCursor {
 public:
  explicit RunCursor(const FlatView& view);
  // The rest of the current run; remaining() == 0 at the end.
  std::byte* address() const { return address_; }
  int64_t remaining() const { return remaining_; }
  int64_t stride() const { return run_stride_; }
  bool skipped() const { return skipped_; }
  void advance(int64_t elements);

 private:
  void locate();

  const FlatView& view_;
  int outer_rank_;
  int64_t run_count_, run_stride_;
  std::array<int64_t, isa::kMaxRank> index_{};
  std::byte* address_ = nullptr;
  int64_t remaining_ = 0;
  bool skipped_ = false;
};

// run(address, count, stride) over the free dimensions of one partition.
template <typename Run>
void for_runs_of_partition(const View& view, int64_t p, Run&& run) {
  std::byte* const row = view.row(p);
  if (view.free_rank <= 1) {
    run(row, view.elements, view.free_stride());
    return;
  }
  const int outer = view.free_rank - 1;
  const ByteDim inner = view.free[outer];
  std::array<int64_t, isa::kMaxRank> index{};
  std::byte* at = row;
  while (true) {
    run(at, inner.count, inner.stride);
    int d = outer - 1;
    for (; d >= 0; --d) {
      at += view.free[d].stride;
      if (++index[d] < view.free[d].count) break;
      at -= index[d] * view.free[d].stride;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

// run(address, count, stride) over the whole view, skipped indices left out.
template <typename Run>
void for_runs(const View& view, Run&& run) {
  if (view.table != nullptr) {
    const FlatView flat = flatten(view);
    for (RunCursor cursor(flat); cursor.remaining() > 0; cursor.advance(cursor.remaining()))
      if (!cursor.skipped()) run(cursor.address(), cursor.remaining(), cursor.stride());
    return;
  }
  if (view.dense()) {
    run(view.base, view.total(), int64_t{view.element_bytes});
    return;
  }
  for (int64_t p = 0; p < view.partitions; ++p) for_runs_of_partition(view, p, run);
}

}  // namespace opentrn::sim
