// nc_matmul, nc_matmul_mx, nc_matmul_sparse.
//
// Operands become fp32 tiles [K, M] and [K, N] with the contraction outermost; numerics::matmul_tile adds up
// along K in row order and then onto PSUM. Where the contraction also runs along the free axis (double_row,
// the four values of an _x4 element), partition p contributes its values one after the other. [assumed order]
#include <algorithm>
#include <cstring>
#include <mutex>

#include <fmt/format.h>

#include "arch/core_features.h"
#include "isa/tensor_label.h"
#include "numerics/alu.h"
#include "numerics/chosen_sums.h"
#include "numerics/matmul.h"
#include "numerics/mx.h"
#include "numerics/sparsity.h"
#include "sim/functional/instructions/body.h"
#include "sim/functional/instructions/mx_scales.h"
#include "sim/functional/rows.h"

namespace opentrn::sim::bodies {

namespace {

constexpr int kOverwrite = 0;
constexpr int kAccumulate = 1;
constexpr int kAutomatic = -1;

// Multiply-adds that take about as long as one element operation of the other bodies.
constexpr int64_t kMultiplyAddsPerWork = 8;

struct Matrix {
  const void* data;
  int64_t rows;
  int64_t columns;
  size_t pitch;  // elements
  DType dtype = DType::kFloat32;
  int64_t run = 0;  // as in numerics::MatmulOperand
  size_t run_pitch = 0;

  numerics::MatmulOperand operand() const { return {data, pitch, dtype, static_cast<int>(run), run_pitch}; }
  // Of a matrix of fp32.
  const float* row(int64_t k) const {
    return static_cast<const float*>(data) + k * static_cast<int64_t>(pitch);
  }
};

// What is wanted of the elements: those that the tile kernel takes stay in place, as a `stationary` or as a
// `moving` operand, or all become fp32.
enum class Widen { kStationaryIfNeeded, kMovingIfNeeded, kAll };

bool usable_in_place(const View& view, Widen widen) {
  const int64_t bytes = view.element_bytes;
  const bool type =
      widen == Widen::kAll ? view.dtype == DType::kFloat32 : numerics::is_matmul_operand(view.dtype);
  return type && view.partition_stride > 0 && view.partition_stride % bytes == 0 &&
         reinterpret_cast<uintptr_t>(view.base) % static_cast<uintptr_t>(bytes) == 0;
}

// Rows of pixels, each without gaps.
bool has_runs(const View& view) {
  const ByteDim& outer = view.free[0];
  return view.free_rank == 2 && view.free[1].stride == view.element_bytes && outer.stride > 0 &&
         outer.stride % view.element_bytes == 0;
}

// A tile as rows, in place when they are what is wanted already.
Matrix as_matrix(Context& cx, const View& view, Widen widen = Widen::kAll) {
  if (usable_in_place(view, widen)) {
    const Matrix matrix{view.base, view.partitions, view.elements,
                        static_cast<size_t>(view.partition_stride / view.element_bytes), view.dtype};
    if (view.free_contiguous()) return matrix;
    if (widen == Widen::kMovingIfNeeded && has_runs(view)) {
      Matrix with_runs = matrix;
      with_runs.run = view.free[1].count;
      with_runs.run_pitch = static_cast<size_t>(view.free[0].stride / view.element_bytes);
      return with_runs;
    }
  }
  float* data = cx.scratch.floats(view.total());
  const int64_t n = view.elements;
  cx.parallel(view.partitions, view.total(), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const float* row = load_row(view, p, data + p * n);
      if (row != data + p * n) std::memcpy(data + p * n, row, static_cast<size_t>(n) * sizeof(float));
    }
  });
  return {data, view.partitions, n, static_cast<size_t>(n)};
}

void expect_product_shape(const Context& cx, const Matrix& stationary, const Matrix& moving, const View& dst,
                          int slot) {
  if (stationary.rows != moving.rows)
    cx.broken("shape",
              fmt::format("stationary contracts over {} rows, moving over {}", stationary.rows, moving.rows));
  if (dst.partitions != stationary.columns || dst.elements != moving.columns)
    cx.broken("shape", fmt::format("the product is {} x {}, {} is {} x {}", stationary.columns,
                                   moving.columns, cx.operand_name(slot), dst.partitions, dst.elements));
}

// Writes or adds a product to dst, by whole rows.
class ProductTarget {
 public:
  // Reads the mask before marking dst as written.
  ProductTarget(Context& cx, int slot, int64_t accumulate) : cx_(cx) {
    if (accumulate < kAutomatic || accumulate > kAccumulate)
      cx.broken("attribute", fmt::format("accumulate is {}", accumulate));
    if (cx.is_tensor_indirect(cx.operand(slot))) {
      if (accumulate == kAutomatic)
        cx.broken("accumulate", "an indirect dst needs an explicit accumulate",
                  "pass accumulate=True or False");
      mode_ = static_cast<int>(accumulate);
      view_ = mode_ == kAccumulate ? cx.in_out(slot, Writer::kMatmul) : cx.destination(slot, Writer::kMatmul);
      return;
    }
    view_ = cx.unchecked_as_it_is(slot);
    mode_ = accumulate == kOverwrite ? kOverwrite : decide(slot, accumulate);
    if (view_.buffer->awaits_fill()) cx.settle_fill(view_, mode_ == kOverwrite);
    cx.mark_written(view_, Writer::kMatmul);
  }

  const View& view() const { return view_; }
  // fp32 rows that matmul_tile may add to directly.
  bool direct() const {
    return mode_ != kAutomatic && view_.free_rank <= 1 &&
           is_plain_float(view_.dtype, view_.base, view_.free_stride()) && view_.partition_stride > 0 &&
           view_.partition_stride % 4 == 0;
  }
  bool accumulates() const { return mode_ == kAccumulate; }

  // Adds rows of a finished product where the mode says so, rounds and stores them.
  void store_product_row(int64_t p, float* product, float* scratch) const {
    const int64_t n = view_.elements;
    if (mode_ == kAccumulate) {
      numerics::alu_tensor_tensor(AluOp::kAdd, load_row(view_, p, scratch), product, product,
                                  static_cast<size_t>(n));
    } else if (mode_ == kAutomatic) {
      const float* before = load_row(view_, p, scratch);
      for (int64_t i = 0; i < n; ++i)
        if (adds_[p * n + i] != 0)
          numerics::alu_tensor_tensor(AluOp::kAdd, before + i, product + i, product + i, 1);
    }
    store_row(view_, p, product);
  }

 private:
  int decide(int slot, int64_t accumulate) {
    std::lock_guard guard(view_.buffer->mask_lock());
    const ByteMask& mask = view_.buffer->accumulatable();
    bool all = true, none = true;
    for_each_element_range([&](int64_t first, int64_t bytes) {
      all &= mask.test_all(first, bytes);
      none &= mask.test_none(first, bytes);
    });
    if (all) return kAccumulate;
    if (accumulate == kAccumulate) {
      if (!cx_.core.checks().psum_accumulation) return kAccumulate;
      cx_.fail(FaultKind::kProgram, "nc_matmul.accumulate_uninitialised",
               fmt::format("accumulate=True onto {}, part of which no matmul has initialised",
                           isa::tensor_label(cx_.program, view_.tensor)),
               "the first matmul of a group needs accumulate=False or None");
    }
    if (none) return kOverwrite;
    // Mixed: element by element.
    adds_ = cx_.scratch.array<uint8_t>(view_.total());
    int64_t i = 0;
    for_runs(view_, [&](std::byte* at, int64_t n, int64_t stride) {
      for (int64_t k = 0; k < n; ++k)
        adds_[i++] = mask.test_all(view_.buffer->logical(at + k * stride), view_.element_bytes) ? 1 : 0;
    });
    return kAutomatic;
  }

  template <typename Range>
  void for_each_element_range(Range&& range) const {
    for_runs(view_, [&](std::byte* at, int64_t n, int64_t stride) {
      if (stride == view_.element_bytes) return range(view_.buffer->logical(at), n * stride);
      for (int64_t k = 0; k < n; ++k) range(view_.buffer->logical(at + k * stride), view_.element_bytes);
    });
  }

  Context& cx_;
  View view_;
  int mode_ = kOverwrite;
  uint8_t* adds_ = nullptr;
};

// What a product left beside its destination goes there.
void store_product(Context& cx, const numerics::MatmulTile& tile, const ProductTarget& target) {
  if (target.direct()) return;
  const View& dst = target.view();
  float* scratch = cx.scratch.floats(dst.elements);
  for (int64_t p = 0; p < dst.partitions; ++p)
    target.store_product_row(p, tile.acc + p * static_cast<int64_t>(tile.acc_pitch), scratch);
}

void multiply(Context& cx, const Matrix& stationary, const Matrix& moving, const ProductTarget& target) {
  const View& dst = target.view();
  numerics::MatmulTile tile{};
  tile.stationary = stationary.operand();
  tile.moving = moving.operand();
  tile.K = static_cast<int>(stationary.rows);
  tile.M = static_cast<int>(stationary.columns);
  tile.N = static_cast<int>(moving.columns);
  const bool direct = target.direct();
  if (direct) {
    tile.acc = reinterpret_cast<float*>(dst.base);
    tile.acc_pitch = static_cast<size_t>(dst.partition_stride / 4);
    tile.accumulate = target.accumulates();
  } else {
    tile.acc = cx.scratch.floats(dst.total());
    tile.acc_pitch = static_cast<size_t>(moving.columns);
    tile.accumulate = false;
  }
  if (!dst.repeats() && numerics::add_chosen_rows(tile)) return store_product(cx, tile, target);
  const int64_t work = int64_t{tile.K} * tile.M * tile.N / kMultiplyAddsPerWork;
  // Threads share the longer side of the result, in pieces that suit the kernel's register tiles. Each piece
  // packs the other operand anew, so there are but two for each thread.
  const bool by_column = tile.N >= 2 * tile.M;
  const int64_t unit = by_column ? 64 : 8;
  const int64_t length = by_column ? tile.N : tile.M;
  const int64_t pieces = 2 * cx.threads();
  const int64_t grain = std::max<int64_t>(1, (length + pieces * unit - 1) / (pieces * unit)) * unit;
  cx.parallel((length + grain - 1) / grain, dst.repeats() ? 0 : work, [&](int64_t begin, int64_t end) {
    const int first = static_cast<int>(begin * grain);
    const int last = static_cast<int>(std::min(end * grain, length));
    if (by_column)
      numerics::matmul_tile_range(tile, 0, tile.M, first, last);
    else
      numerics::matmul_tile_range(tile, first, last, 0, tile.N);
  });
  store_product(cx, tile, target);
}

// [P, 2, n] as [2 P, n].
Matrix double_rows(Context& cx, const View& view, int slot) {
  const isa::Pattern& pattern = cx.program.pattern(cx.operand(slot));
  if (pattern.rank < 2 || pattern.dims[1].count != 2 || view.elements % 2 != 0)
    cx.broken("double_row", fmt::format("the first free dimension of {} must be 2", cx.operand_name(slot)));
  Matrix matrix = as_matrix(cx, view, Widen::kStationaryIfNeeded);
  if (matrix.pitch != static_cast<size_t>(matrix.columns)) {
    const int64_t element = size_bytes(matrix.dtype), row = matrix.columns * element;
    std::byte* packed = cx.scratch.bytes(view.partitions * row);
    for (int64_t p = 0; p < view.partitions; ++p)
      std::memcpy(
          packed + p * row,
          static_cast<const std::byte*>(matrix.data) + p * static_cast<int64_t>(matrix.pitch) * element,
          static_cast<size_t>(row));
    matrix.data = packed;
  }
  matrix.rows *= 2;
  matrix.columns /= 2;
  matrix.pitch = static_cast<size_t>(matrix.columns);
  return matrix;
}

// For each column the only row that holds a one; empty unless all values are zeros and ones like that.
const int32_t* selection(Context& cx, const Matrix& matrix) {
  int32_t* chosen = cx.scratch.array<int32_t>(matrix.columns);
  std::fill_n(chosen, matrix.columns, -1);
  for (int64_t k = 0; k < matrix.rows; ++k) {
    const float* row = matrix.row(k);
    for (int64_t n = 0; n < matrix.columns; ++n) {
      if (row[n] == 0.0f) continue;
      if (row[n] != 1.0f || chosen[n] >= 0) return nullptr;
      chosen[n] = static_cast<int32_t>(k);
    }
  }
  return std::find(chosen, chosen + matrix.columns, -1) == chosen + matrix.columns ? chosen : nullptr;
}

// Transpose mode moves bits: one operand is an identity or a permutation, the other the data. The guides load
// the data as stationary; the other way round is accepted too. [doc: trainium2_arch.rst, transpose support]
void transpose_by_matmul(Context& cx, const View& stationary, const View& moving, ProductTarget& target) {
  const View& dst = target.view();
  const Matrix left = as_matrix(cx, stationary);
  const Matrix right = as_matrix(cx, moving);
  expect_product_shape(cx, left, right, dst, isa::slot::nc_matmul::kDst);
  const int32_t* from_moving = selection(cx, right);
  const int32_t* from_stationary = from_moving != nullptr ? nullptr : selection(cx, left);
  if (from_moving == nullptr && from_stationary == nullptr)
    cx.broken("is_transpose", "neither stationary nor moving is an identity or a permutation of it",
              "is_transpose=True moves data; multiply without it");
  View data = cx.snapshot(from_moving != nullptr ? stationary : moving);
  const int bytes = data.element_bytes;
  // fp8 data become 16-bit elements whose upper half is zero. [doc: trainium2_arch.rst, transpose support]
  const bool widens = is_fp8(data.dtype) && dst.element_bytes == 2;
  const int step = widens ? 2 : bytes;
  const bool same_bits = widens || data.dtype == dst.dtype;
  ScratchScope scope;
  std::byte* row = scope.bytes(dst.elements * step);
  std::memset(row, 0, static_cast<size_t>(dst.elements * step));
  float* real = scope.floats(dst.elements);
  for (int64_t m = 0; m < dst.partitions; ++m) {
    for (int64_t n = 0; n < dst.elements; ++n) {
      const int64_t k = from_moving != nullptr ? from_moving[n] : from_stationary[m];
      const int64_t column = from_moving != nullptr ? m : n;
      std::memcpy(row + n * step, data.row(k) + column * bytes, static_cast<size_t>(bytes));
    }
    const std::byte* from = row;
    if (same_bits) {
      for_runs_of_partition(dst, m, [&](std::byte* at, int64_t count, int64_t stride) {
        numerics::copy_bits(step, from, 1, at, stride / step, static_cast<size_t>(count));
        from += count * step;
      });
    } else {
      load_run(data.dtype, row, 1, real, dst.elements);
      store_row(dst, m, real);
    }
  }
}

}  // namespace

void nc_matmul(Context& cx) {
  using namespace isa::slot::nc_matmul;
  View stationary = cx.source(kStationary);
  View moving = cx.source(kMoving);
  if (stationary.partitions != moving.partitions)
    cx.expect_partitions(moving, kMoving, stationary.partitions);
  const bool transposes =
      cx.boolean(kAIsTranspose) && arch::core_features(cx.generation()).matmul_transposes_bits;
  if (transposes && cx.integer(kAAccumulate) == kAccumulate)
    cx.broken("is_transpose", "transpose mode moves bits and cannot accumulate", "leave accumulate unset");
  ProductTarget target(cx, kDst, transposes ? kOverwrite : cx.integer(kAAccumulate));
  cx.separate(target.view(), stationary, moving);
  if (transposes) return transpose_by_matmul(cx, stationary, moving, target);
  const bool double_row = cx.integer(kAPerfMode) == static_cast<int64_t>(isa::MatmulPerfMode::kDoubleRow);
  const Matrix left = double_row ? double_rows(cx, stationary, kStationary)
                                 : as_matrix(cx, stationary, Widen::kStationaryIfNeeded);
  const Matrix right =
      double_row ? double_rows(cx, moving, kMoving) : as_matrix(cx, moving, Widen::kMovingIfNeeded);
  expect_product_shape(cx, left, right, target.view(), kDst);
  multiply(cx, left, right, target);
}

namespace {

// [P, n] packed elements with their scales as [4 P, n].
Matrix dequantize(Context& cx, const View& packed, int slot, const MxScales& scales) {
  if (!is_packed_x4(packed.dtype))
    cx.broken("dtype", fmt::format("{} is {}", cx.operand_name(slot), name(packed.dtype)), "use an _x4 type");
  const int64_t n = packed.elements;
  const View dense = packed.free_contiguous() ? packed : cx.snapshot(packed);
  float* data = cx.scratch.floats(packed.partitions * numerics::kMxPack * n);
  cx.parallel(packed.partitions, packed.total() * numerics::kMxPack, [&](int64_t begin, int64_t end) {
    ScratchScope scope;
    float* row = scope.floats(n * numerics::kMxPack);
    for (int64_t p = begin; p < end; ++p) {
      numerics::dequantize_mx(packed.dtype, dense.row(p), scales.row_of(p), row, static_cast<size_t>(n));
      for (int j = 0; j < numerics::kMxPack; ++j) {
        float* out = data + (p * numerics::kMxPack + j) * n;
        for (int64_t i = 0; i < n; ++i) out[i] = row[i * numerics::kMxPack + j];
      }
    }
  });
  return {data, packed.partitions * numerics::kMxPack, n, static_cast<size_t>(n)};
}

}  // namespace

void nc_matmul_mx(Context& cx) {
  using namespace isa::slot::nc_matmul_mx;
  View stationary = cx.source(kStationary);
  View moving = cx.source(kMoving);
  const MxScales stationary_scale(cx, kStationaryScale, stationary);
  const MxScales moving_scale(cx, kMovingScale, moving);
  ProductTarget target(cx, kDst, cx.integer(kAAccumulate));
  cx.separate(target.view(), stationary, moving);
  const Matrix left = dequantize(cx, stationary, kStationary, stationary_scale);
  const Matrix right = dequantize(cx, moving, kMoving, moving_scale);
  expect_product_shape(cx, left, right, target.view(), kDst);
  multiply(cx, left, right, target);
}

// stationary is compressed: of N positions along the contraction M are kept, each with a 4-bit tag in
// `indices`, four tags to a uint16. moving is [P, N/M, n]. A group is M partitions of stationary and moving;
// tag t names partition t / (N/M) of the group and ratio index t % (N/M) [assumed: the order in which a dense
// [P * N/M, n] matrix is stored as [P, N/M, n]]. [doc: trainium2_arch.rst, M:N structured sparsity]
void nc_matmul_sparse(Context& cx) {
  using namespace isa::slot::nc_matmul_sparse;
  const int64_t code = cx.integer(kAPattern);
  if (code < 0 || code > 9999) cx.broken("pattern", fmt::format("{} is not M * 100 + N", code));
  const numerics::SparsityPattern pattern{static_cast<int>(code / 100), static_cast<int>(code % 100)};
  const auto patterns = numerics::sparsity_patterns();
  if (std::find(patterns.begin(), patterns.end(), pattern) == patterns.end())
    cx.broken("pattern", fmt::format("{}:{} is not a sparsity pattern of the Tensor Engine", pattern.kept,
                                     pattern.group));
  View stationary = cx.source(kStationary);
  View moving = cx.source(kMoving);
  View indices = cx.source(kIndices);
  ProductTarget target(cx, kDst, cx.integer(kAAccumulate));
  const View& dst = target.view();
  cx.separate(dst, stationary, moving, indices);
  const int64_t ratio = pattern.compression();
  const int64_t columns = stationary.elements;
  if (moving.partitions != stationary.partitions || stationary.partitions % pattern.kept != 0)
    cx.broken("shape", fmt::format("{} partitions; groups have {}", stationary.partitions, pattern.kept));
  if (moving.elements % ratio != 0 || columns % 4 != 0 || indices.dtype != DType::kUint16)
    cx.broken("shape", "moving must be [P, N/M, n], stationary a multiple of 4 wide, indices uint16");
  cx.expect_partitions(indices, kIndices, stationary.partitions);
  cx.expect_elements(indices, kIndices, columns / 4);
  const int64_t n = moving.elements / ratio;
  cx.expect_partitions(dst, kDst, columns);
  cx.expect_elements(dst, kDst, n);

  const Matrix left = as_matrix(cx, stationary);
  const Matrix right = as_matrix(cx, moving);
  uint8_t* tags = cx.scratch.array<uint8_t>(stationary.total());
  const View packed = cx.snapshot(indices);
  for (int64_t k = 0; k < stationary.partitions; ++k)
    numerics::unpack_tags(reinterpret_cast<const uint16_t*>(packed.row(k)), static_cast<size_t>(columns),
                          tags + k * columns);
  float* chosen = cx.scratch.floats(left.rows * n);
  float* weights = cx.scratch.floats(left.rows);
  float* product = cx.scratch.floats(n);
  float* scratch = cx.scratch.floats(n);
  for (int64_t m = 0; m < columns; ++m) {
    uint32_t used = 0;  // tags of the group
    for (int64_t k = 0; k < left.rows; ++k) {
      const int tag = tags[k * columns + m];
      if (k % pattern.kept == 0) used = 0;
      if (tag >= pattern.group)
        cx.broken("tag",
                  fmt::format("tag {} at [{}, {}]; groups have {} positions", tag, k, m, pattern.group));
      if ((used >> tag & 1) != 0)
        cx.broken(
            "tag",
            fmt::format("tag {} at [{}, {}] stands twice in its group: {} different positions of {} are "
                        "kept",
                        tag, k, m, pattern.kept, pattern.group),
            "a weight of 0 fills a group that keeps fewer; it takes a position of its own");
      used |= 1u << tag;
      const int64_t row = k / pattern.kept * pattern.kept + tag / ratio;
      const float* from = right.row(row) + tag % ratio * n;
      std::copy_n(from, n, chosen + k * n);
      weights[k] = left.row(k)[m];
    }
    numerics::matmul_tile(weights, chosen, product, static_cast<int>(left.rows), 1, static_cast<int>(n), 1,
                          static_cast<size_t>(n), static_cast<size_t>(n), false);
    target.store_product_row(m, product, scratch);
  }
}

}  // namespace opentrn::sim::bodies
