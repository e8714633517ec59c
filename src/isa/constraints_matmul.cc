// Rules of the Tensor engine, and of the Vector engine's quantization for it.
#include <algorithm>

#include "isa/constraints_context.h"
#include "numerics/sparsity.h"

namespace opentrn::isa::constraint {

namespace {

constexpr int64_t kQuadrant = 32;
constexpr DTypes kFp8Legacy = {DType::kFloat8E4M3, DType::kFloat8E5M2};
constexpr DTypes kFp8Ocp = {DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kFloat8E4M3Fn};
// FP8_E3 is only in the architecture guide (trainium2_arch.rst, footnote 1).
constexpr DTypes kMatmulTypes = {DType::kFloat8E3M4, DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kBFloat16,
                                 DType::kFloat16,    DType::kTFloat32,   DType::kFloat32};
constexpr DTypes kIndirectTypes = {DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat8E5M2,
                                   DType::kFloat8E4M3Fn};
constexpr DTypes kMxTypes = {DType::kFloat8E5M2x4, DType::kFloat8E4M3FnX4, DType::kFloat4E2M1FnX4};
constexpr DTypes kMxScaleTypes = {DType::kFloat8E8M0Fnu, DType::kUint8};
constexpr DTypes kFp32 = {DType::kFloat32};
constexpr DTypes kFp32OrBf16 = {DType::kFloat32, DType::kBFloat16};

// Columns that fit: one PSUM bank of fp32 up to v3, all banks from v4 on.
int64_t moving_columns_max(const Check& c, DType dst) {
  const Limits& max = limits(c.generation);
  if (c.generation < 4) return max.psum_bank_bytes_per_partition / size_bytes(DType::kFloat32);
  return max.psum_bytes_per_partition / size_bytes(dst);
}

struct TileSlots {
  int row, column, rows, columns;
};

bool tiled(const Check& c, const TileSlots& s) { return c.integer(s.rows) != 0 || c.integer(s.columns) != 0; }

bool array_slice(int64_t size, int64_t position, bool small_tiles) {
  if (size != 128 && size != 64 && !(size == 32 && small_tiles)) return false;
  return position >= 0 && position % size == 0 && position <= 128 - size;
}

void check_tiling(const Check& c, int number, const TileSlots& s) {
  if (!tiled(c, s)) {
    if (c.integer(s.row) != 0 || c.integer(s.column) != 0)
      c.fail(number, fmt::format("tile_position is ({}, {}) without tile_size; tiling needs both",
                                 c.integer(s.row), c.integer(s.column)));
    return;
  }
  const bool small_tiles = c.generation >= 3;
  if (!array_slice(c.integer(s.rows), c.integer(s.row), small_tiles) ||
      !array_slice(c.integer(s.columns), c.integer(s.column), small_tiles))
    c.fail(number, fmt::format("tile_size is ({}, {}) at ({}, {}); sizes are {}64 or 128, positions "
                               "multiples of them inside the "
                               "128 x 128 array",
                               c.integer(s.rows), c.integer(s.columns), c.integer(s.row), c.integer(s.column),
                               small_tiles ? "32, " : ""));
}

void product_shape(const Check& c, int number, int64_t m, int64_t n) {
  const Tile& dst = c.tile(slot::nc_matmul::kDst);
  if (dst.partitions != m || dst.free != n) [[unlikely]]
    c.fail(number, fmt::format("dst is {} x {}; the product is {} x {}", dst.partitions, dst.free, m, n),
           "dst has the columns of stationary as partitions and the columns of moving as elements");
}

// Where the compiler places dst, a tensor of more than a bank begins with a bank, and a smaller one lies in
// one.
void one_psum_bank(const Check& c, int number) {
  const Tile& dst = c.tile(slot::nc_matmul::kDst);
  const int64_t bank = limits(c.generation).psum_bank_bytes_per_partition;
  const int64_t row = dst.tensor->row_bytes();
  if (c.generation >= 4 || !dst.in_psum() || row == 0) return;
  if (!dst.tensor->address && row <= bank) [[likely]]
    return;
  const int64_t size = size_bytes(dst.dtype());
  const int64_t start =
      (dst.tensor->address ? dst.tensor->address->byte_offset : 0) + dst.operand->offset * size % row;
  int64_t last = start;
  for (const Dim& dim : dst.pattern->view().subspan(1)) last += dim.step * (dim.count - 1) * size;
  if (start / bank == last / bank) [[likely]]
    return;
  c.fail(number,
         fmt::format(
             "dst reaches from byte {} to byte {} of a partition; a bank of PSUM holds {}, and a product "
             "goes into one",
             start, last + size - 1, bank),
         "split the product by the columns of moving at the bank's end");
}

bool exists_sparsity(int64_t code) {
  const auto all = numerics::sparsity_patterns();
  return std::any_of(all.begin(), all.end(),
                     [&](const numerics::SparsityPattern& p) { return p.kept * 100 + p.group == code; });
}

std::string sparsity_names() {
  std::string text;
  for (const numerics::SparsityPattern& p : numerics::sparsity_patterns())
    text += fmt::format("{}{}:{}", text.empty() ? "" : ", ", p.kept, p.group);
  return text;
}

bool any_indirect(const Check& c, int operands) {
  for (int i = 0; i < operands; ++i)
    if (c.indirect(i, IndirectKind::kTensor)) return true;
  return false;
}

void check_double_row(const Check& c) {
  using namespace slot::nc_matmul;
  if (c.generation < 3) c.fail(8, "perf_mode double_row needs NeuronCore-v3 or newer");
  const DTypes fp8 = c.generation >= 4 ? kFp8Ocp : kFp8Legacy;
  for (int operand : {int{kStationary}, int{kMoving}}) {
    c.dtype_in(9, operand, fp8);
    const Pattern& p = *c.tile(operand).pattern;
    if (p.rank < 3 || p.dims[1].count != 2)
      c.fail(10,
             fmt::format("the first free dimension of {} must be 2 in double_row mode", c.slot_name(operand)),
             "shape the tile as [K/2, 2, columns]");
  }
  if (c.integer(kATileColumns) != 0 && c.integer(kATileColumns) != 128)
    c.fail(11, fmt::format("double_row with column tiles of {}; only row tiling is possible",
                           c.integer(kATileColumns)));
}

// Legacy e4m3 and OCP e4m3fn are different readings of the same bits.
bool mixes_e4m3(DType a, DType b) {
  return (a == DType::kFloat8E4M3 && b == DType::kFloat8E4M3Fn) ||
         (a == DType::kFloat8E4M3Fn && b == DType::kFloat8E4M3);
}

}  // namespace

void check_nc_matmul(const Check& c) {
  using namespace slot::nc_matmul;
  constexpr TileSlots kTiling = {kATileRow, kATileColumn, kATileRows, kATileColumns};
  const Tile &stationary = c.tile(kStationary), &moving = c.tile(kMoving), &dst = c.tile(kDst);
  const Limits& max = limits(c.generation);
  const bool double_row = static_cast<MatmulPerfMode>(c.integer(kAPerfMode)) == MatmulPerfMode::kDoubleRow;
  if (double_row) check_double_row(c);
  const int64_t m = double_row ? stationary.free / 2 : stationary.free;
  const int64_t n = double_row ? moving.free / 2 : moving.free;

  c.same_partitions(1, kStationary, kMoving);
  check_tiling(c, 7, kTiling);
  const bool tiles = tiled(c, kTiling);
  const int64_t k_max = tiles ? c.integer(kATileRows) : max.contraction_max;
  if (stationary.partitions > k_max) [[unlikely]]
    c.fail(2,
           fmt::format("stationary and moving have {} partitions; at most {} are possible",
                       stationary.partitions, k_max),
           "split the contraction and accumulate in PSUM");
  const int64_t m_max = tiles ? c.integer(kATileColumns) : max.stationary_columns_max;
  if (m > m_max) [[unlikely]]
    c.fail(3, fmt::format("stationary has {} columns; at most {} are possible", m, m_max),
           "tile its free dimension");
  const int64_t n_max = moving_columns_max(c, dst.dtype());
  if (n > n_max) [[unlikely]]
    c.fail(4,
           fmt::format("moving has {} columns; at most {} are possible into {}", n, n_max, name(dst.dtype())),
           "tile its free dimension by nl.tile_size.gemm_moving_fmax");
  product_shape(c, 5, m, n);
  one_psum_bank(c, 19);

  const bool transposes = c.boolean(kAIsTranspose);
  const DType a = stationary.dtype(), b = moving.dtype();
  if (!transposes) {
    const DTypes allowed = c.generation >= 4 ? kMatmulTypes | DTypes{DType::kFloat8E4M3Fn} : kMatmulTypes;
    c.dtype_in(6, kStationary, allowed);
    c.dtype_in(6, kMoving, allowed);
    if (kFp32Class.has(a) != kFp32Class.has(b)) [[unlikely]]
      c.fail(12,
             fmt::format("stationary is {}, moving is {}; a 32-bit operand needs a 32-bit partner", name(a),
                         name(b)),
             "convert one of them with tensor_copy");
    c.dtype_in(14, kDst, c.generation >= 4 ? kFp32OrBf16 : kFp32);
  }
  if (mixes_e4m3(a, b)) [[unlikely]]
    c.fail(13, "float8_e4m3 and float8_e4m3fn cannot meet in one matmul",
           "use the same format on both sides");
  if (c.integer(kAAccumulate) < -1 || c.integer(kAAccumulate) > 1) [[unlikely]]
    c.fail(15, fmt::format("accumulate is {}; None, False and True exist", c.integer(kAAccumulate)));
  if (!any_indirect(c, 3)) [[likely]]
    return;
  if (tiles && (c.integer(kATileRow) != 0 || c.integer(kATileColumn) != 0))
    c.fail(16, "an indirect operand with a tile_position other than (0, 0)");
  if (transposes && c.indirect(kMoving, IndirectKind::kTensor))
    c.fail(17, "moving cannot be indirect when is_transpose is set");
  for (int operand : {int{kStationary}, int{kMoving}})
    if (c.indirect(operand, IndirectKind::kTensor)) c.dtype_in(18, operand, kIndirectTypes);
}

void check_nc_matmul_mx(const Check& c) {
  using namespace slot::nc_matmul_mx;
  constexpr TileSlots kTiling = {kATileRow, kATileColumn, kATileRows, kATileColumns};
  const Tile &stationary = c.tile(kStationary), &moving = c.tile(kMoving), &dst = c.tile(kDst);
  const Limits& max = limits(c.generation);
  c.same_partitions(1, kStationary, kMoving);
  if (stationary.partitions % kQuadrant != 0)
    c.fail(2, fmt::format("stationary has {} partitions; a multiple of {} is needed", stationary.partitions,
                          kQuadrant));
  if (stationary.free % 2 != 0 || stationary.free > max.stationary_columns_max)
    c.fail(3, fmt::format("stationary has {} columns; an even number up to {} is needed", stationary.free,
                          max.stationary_columns_max));
  c.dtype_in(7, kDst, kFp32OrBf16);
  const int64_t n_max = moving_columns_max(c, dst.dtype());
  if (moving.free > n_max)
    c.fail(4, fmt::format("moving has {} columns; at most {} are possible into {}", moving.free, n_max,
                          name(dst.dtype())));
  product_shape(c, 5, stationary.free, moving.free);
  c.dtype_in(6, kStationary, kMxTypes);
  c.dtype_in(6, kMoving, kMxTypes);
  c.dtype_in(8, kStationaryScale, kMxScaleTypes);
  c.dtype_in(8, kMovingScale, kMxScaleTypes);
  check_tiling(c, 9, kTiling);
  if (!tiled(c, kTiling)) return;
  if (c.integer(kATileColumns) != 128 || c.integer(kATileColumn) != 0)
    c.fail(10, fmt::format("column tiles of {} at {}; only row tiling is possible", c.integer(kATileColumns),
                           c.integer(kATileColumn)));
  if (stationary.partitions > c.integer(kATileRows))
    c.fail(11, fmt::format("stationary has {} partitions in row tiles of {}", stationary.partitions,
                           c.integer(kATileRows)));
}

void check_nc_matmul_sparse(const Check& c) {
  using namespace slot::nc_matmul_sparse;
  const int64_t pattern = c.integer(kAPattern);
  if (!exists_sparsity(pattern))
    c.fail(1, fmt::format("pattern {}:{}; {} exist", pattern / 100, pattern % 100, sparsity_names()));
  c.same_partitions(2, kStationary, kMoving);
  if (c.tile(kStationary).free > limits(c.generation).stationary_columns_max)
    c.fail(3, fmt::format("stationary has {} columns; at most {} are possible", c.tile(kStationary).free,
                          limits(c.generation).stationary_columns_max));
  one_psum_bank(c, 4);
}

void check_quantize_mx(const Check& c) {
  using namespace slot::quantize_mx;
  const Tile &src = c.tile(kSrc), &dst = c.tile(kDst);
  c.dtype_in(1, kSrc, {DType::kFloat16, DType::kBFloat16});
  c.dtype_in(2, kDst, {DType::kFloat8E5M2x4, DType::kFloat8E4M3FnX4});
  c.dtype_in(3, kDstScale, kMxScaleTypes);
  if (src.partitions % kQuadrant != 0)
    c.fail(4, fmt::format("src has {} partitions; a multiple of {} is needed", src.partitions, kQuadrant));
  if (src.free % 4 != 0)
    c.fail(5, fmt::format("src has {} elements per partition; a multiple of 4 is needed", src.free));
  if (dst.partitions != src.partitions || dst.free * 4 != src.free)
    c.fail(6, fmt::format("dst is {} x {}; src of {} x {} gives {} x {}", dst.partitions, dst.free,
                          src.partitions, src.free, src.partitions, src.free / 4));
}

}  // namespace opentrn::isa::constraint
