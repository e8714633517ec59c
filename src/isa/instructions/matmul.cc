// Products of the Tensor engine.
#include <algorithm>
#include <string>

#include "isa/array_placement.h"
#include "isa/instructions/row.h"
#include "numerics/sparsity.h"

namespace opentrn::isa::instructions {

namespace {

constexpr DTypes kFp8Legacy = {DType::kFloat8E4M3, DType::kFloat8E5M2};
constexpr DTypes kFp8Ocp = {DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kFloat8E4M3Fn};
// FP8_E3 is only in the architecture guide (trainium2_arch.rst, footnote 1).
constexpr DTypes kMatmulTypes = {DType::kFloat8E3M4, DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kBFloat16,
                                 DType::kFloat16,    DType::kTFloat32,   DType::kFloat32};
constexpr DTypes kIndirectTypes = {DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat8E5M2,
                                   DType::kFloat8E4M3Fn};
constexpr DTypes kMxTypes = {DType::kFloat8E5M2x4, DType::kFloat8E4M3FnX4, DType::kFloat4E2M1FnX4};
constexpr DTypes kFp32OrBf16 = {DType::kFloat32, DType::kBFloat16};

// Columns that fit: one PSUM bank of fp32 up to v3, all banks from v4 on.
int64_t moving_columns_max(const Check& c, DType dst) {
  const Limits& max = limits(c.generation);
  if (!c.can.matmul_over_banks) return max.psum_bank_bytes_per_partition / size_bytes(DType::kFloat32);
  return max.psum_bytes_per_partition / size_bytes(dst);
}

bool tiled(const Check& c, const ArraySlots& s) {
  return c.integer(s.rows) != 0 || c.integer(s.columns) != 0;
}

bool array_slice(int64_t size, int64_t position, bool small_tiles) {
  if (size != 128 && size != 64 && !(size == 32 && small_tiles)) return false;
  return position >= 0 && position % size == 0 && position <= 128 - size;
}

void check_tiling(const Check& c, int number, const ArraySlots& s) {
  if (!tiled(c, s)) {
    if (c.integer(s.row) != 0 || c.integer(s.column) != 0)
      c.fail(number, fmt::format("tile_position is ({}, {}) without tile_size; tiling needs both",
                                 c.integer(s.row), c.integer(s.column)));
    return;
  }
  const bool small_tiles = c.can.matmul_small_tiles;
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
  if (c.can.matmul_over_banks || !dst.in_psum() || row == 0) return;
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
  if (!c.can.matmul_double_row) c.fail(8, "perf_mode double_row needs NeuronCore-v3 or newer");
  const DTypes fp8 = c.can.matmul_fp8_e4m3fn ? kFp8Ocp : kFp8Legacy;
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

std::string first_partitions(QuadrantMask quadrants) {
  std::string text;
  for (int q = 0; q < kQuadrants; ++q)
    if (quadrants >> q & 1) text += fmt::format("{}{}", text.empty() ? "" : " or ", q * kQuadrant);
  return text;
}

// Both matrices enter the array through the rows of their partitions.
void start_alike(const Check& c, int number, int stationary, int moving) {
  const QuadrantMask a = possible_starts(c.program, c.operand(stationary), c.moves_rows),
                     b = possible_starts(c.program, c.operand(moving), c.moves_rows);
  if ((a & b) == 0) [[unlikely]]
    c.fail(
        number,
        fmt::format("stationary starts on partition {}, moving on {}; a partition feeds the row of the array "
                    "with its number, so both start on the same one",
                    first_partitions(a), first_partitions(b)),
        "copy one of them to the partitions of the other");
}

// Partition p of SBUF feeds row p of the array (trainium2_arch.rst, 'with each partition feeding data into
// each row of processing elements'), and what leaves column c goes to partition c of PSUM (the figure 'Tensor
// Engine and SRAM Connectivity'; every kernel of nki-library with column tiles has dst at tile_position[1]).
// Without a tile the columns are those that dst's partitions ask for: the performance guide's 'partition
// vectorization' sends products of 64 columns to partitions 64 to 127.
void check_placement(const Check& c, const ArraySlots& s) {
  const QuadrantMask rows = array_quadrants(c.integer(s.row), c.integer(s.rows)),
                     columns = array_quadrants(c.integer(s.column), c.integer(s.columns));
  const auto begins = [&](int slot) { return possible_starts(c.program, c.operand(slot), c.moves_rows); };
  const auto lies = [&](int slot, QuadrantMask allowed) {
    return (begins(slot) & starts_within(allowed, c.tile(slot).partitions)) != 0;
  };
  for (int slot : {s.stationary, s.moving})
    if (!lies(slot, rows)) [[unlikely]]
      c.fail(
          s.rows_rule,
          fmt::format("{} lies on the {} partitions from {}; tile_position ({}, {}) with tile_size ({}, {}) "
                      "takes rows {} to {} of the array, which the partitions of the same numbers feed",
                      c.slot_name(slot), c.tile(slot).partitions, first_partitions(begins(slot)),
                      c.integer(s.row), c.integer(s.column), c.integer(s.rows), c.integer(s.columns),
                      c.integer(s.row), c.integer(s.row) + c.integer(s.rows) - 1),
          "choose the tile_position[0] on which the operands start, or copy them there");
  if (!lies(s.dst, columns)) [[unlikely]]
    c.fail(
        s.columns_rule,
        fmt::format("dst lies on the {} partitions from {}; tile_position ({}, {}) with tile_size ({}, {}) "
                    "takes columns {} to {} of the array, which write the partitions of the same numbers",
                    c.tile(s.dst).partitions, first_partitions(begins(s.dst)), c.integer(s.row),
                    c.integer(s.column), c.integer(s.rows), c.integer(s.columns), c.integer(s.column),
                    c.integer(s.column) + c.integer(s.columns) - 1),
        "slice dst from partition tile_position[1] on");
  start_alike(c, s.alike_rule, s.stationary, s.moving);
}

// Legacy e4m3 and OCP e4m3fn are different readings of the same bits.
bool mixes_e4m3(DType a, DType b) {
  return (a == DType::kFloat8E4M3 && b == DType::kFloat8E4M3Fn) ||
         (a == DType::kFloat8E4M3Fn && b == DType::kFloat8E4M3);
}

// -- nc_matmul
constexpr OperandSlot kNcMatmulOperands[] = {inout("dst", kInPsum, kIndirectTile),
                                             in("stationary", kInSbuf, kIndirectTile),
                                             in("moving", kInSbuf, kIndirectTile)};
constexpr AttributeSlot kNcMatmulAttributes[] = {
    {"accumulate", K::kInt},         {"is_stationary_onezero", K::kBool},
    {"is_moving_onezero", K::kBool}, {"is_transpose", K::kBool},
    {"tile_row", K::kInt},           {"tile_column", K::kInt},
    {"tile_rows", K::kInt},          {"tile_columns", K::kInt},
    {"perf_mode", K::kPerfMode}};
constexpr ArraySlots kNcMatmulArray = {
    .dst = slot::nc_matmul::kDst,
    .stationary = slot::nc_matmul::kStationary,
    .moving = slot::nc_matmul::kMoving,
    .row = slot::nc_matmul::kATileRow,
    .column = slot::nc_matmul::kATileColumn,
    .rows = slot::nc_matmul::kATileRows,
    .columns = slot::nc_matmul::kATileColumns,
    .rows_rule = 20,
    .columns_rule = 21,
    .alike_rule = 22,
};
constexpr Parameter kNcMatmulParameters[] = {
    operand("dst", slot::nc_matmul::kDst),
    operand("stationary", slot::nc_matmul::kStationary),
    operand("moving", slot::nc_matmul::kMoving),
    untimed(attribute("is_stationary_onezero", slot::nc_matmul::kAIsStationaryOneZero, 0)),
    untimed(attribute("is_moving_onezero", slot::nc_matmul::kAIsMovingOneZero, 0)),
    attribute("is_transpose", slot::nc_matmul::kAIsTranspose, 0),
    unset("accumulate", slot::nc_matmul::kAAccumulate),
    {"tile_position", ParameterRole::kTilePosition, slot::nc_matmul::kATileRow, false, false},
    {"tile_size", ParameterRole::kTilePosition, slot::nc_matmul::kATileRows, false, false},
    attribute("perf_mode", slot::nc_matmul::kAPerfMode, 0),
    name()};
constexpr Constraint kNcMatmulConstraints[] = {
    {"nc_matmul.C1", "stationary and moving have the same partitions.", "nki.isa.nc_matmul, 'Tile size'"},
    {"nc_matmul.C2", "The contraction is at most 128, or the rows of the tile.",
     "nki.isa.nc_matmul, 'Tile size'"},
    {"nc_matmul.C3", "stationary has at most 128 columns, or the columns of the tile.",
     "nki.isa.nc_matmul, 'Tile size'"},
    {"nc_matmul.C4",
     "moving has at most 512 columns; from NeuronCore-v4 on 4096 into float32 and 8192 into bfloat16.",
     "nki.isa.nc_matmul, 'Tile size'"},
    {"nc_matmul.C5", "dst has the columns of stationary as partitions and the columns of moving as elements.",
     "nki.isa.nc_matmul, 'Layout'"},
    {"nc_matmul.C6",
     "Operands are fp8, bfloat16, float16, tfloat32 or float32; float8_e4m3fn from NeuronCore-v4 on (unless "
     "transposing).",
     "nki.isa.nc_matmul, 'Data types'"},
    {"nc_matmul.C7",
     "tile_size is 64 or 128, or 32 from NeuronCore-v3 on; tile_position is a multiple of it inside the "
     "array; both are set.",
     "nki.isa.nc_matmul, 'Tiling mode'"},
    {"nc_matmul.C8", "perf_mode double_row needs NeuronCore-v3.", "nki.isa.nc_matmul, 'Performance mode'"},
    {"nc_matmul.C9",
     "In double_row mode both operands are float8_e4m3 or float8_e5m2, or float8_e4m3fn from NeuronCore-v4 "
     "on.",
     "nki.isa.nc_matmul, 'Data types'"},
    {"nc_matmul.C10", "In double_row mode the first free dimension of both operands is 2.",
     "nki.isa.nc_matmul, 'Layout'"},
    {"nc_matmul.C11", "double_row cannot be combined with column tiling.",
     "nki.isa.nc_matmul, 'Performance mode'"},
    {"nc_matmul.C12", "A 32-bit operand needs a 32-bit partner.", "nki.isa.nc_matmul, 'Data types'"},
    {"nc_matmul.C13", "float8_e4m3 and float8_e4m3fn cannot be mixed.", "nki.isa.nc_matmul, 'Data types'"},
    {"nc_matmul.C14", "dst is float32, or bfloat16 from NeuronCore-v4 on (unless transposing).",
     "nki.isa.nc_matmul, 'Data types'"},
    {"nc_matmul.C15", "accumulate is None, False or True.", "nki.isa.nc_matmul, accumulate"},
    {"nc_matmul.C16", "With an indirect operand tile_position is (0, 0).",
     "nki.isa.nc_matmul, 'Tensor indirection'"},
    {"nc_matmul.C17", "With is_transpose moving is not indirect.", "nki.isa.nc_matmul, 'Tensor indirection'"},
    {"nc_matmul.C18", "Indirect operands are float16, bfloat16 or fp8.",
     "nki.isa.nc_matmul, 'Tensor indirection'"},
    {"nc_matmul.C19", "Up to NeuronCore-v3 dst lies in one bank of PSUM.",
     "trainium_inferentia2_arch.rst, 'each nc_matmul can only write to a single PSUM bank'"},
    {"nc_matmul.C20", "With a row tile stationary and moving lie on the partitions of the tile's rows.",
     "trainium2_arch.rst, 'with each partition feeding data into each row of processing elements'"},
    {"nc_matmul.C21", "With a column tile dst lies on the partitions of the tile's columns.",
     "trainium_inferentia2_arch.rst, 'Tensor Engine and SRAM Connectivity'; nki-library, router_topk.py"},
    {"nc_matmul.C22", "stationary and moving start on the same partition.",
     "trainium2_arch.rst, 'with each partition feeding data into each row of processing elements'"}};

void check_nc_matmul(const Check& c) {
  using namespace slot::nc_matmul;
  const Tile &stationary = c.tile(kStationary), &moving = c.tile(kMoving), &dst = c.tile(kDst);
  const Limits& max = limits(c.generation);
  const bool double_row = static_cast<MatmulPerfMode>(c.integer(kAPerfMode)) == MatmulPerfMode::kDoubleRow;
  if (double_row) check_double_row(c);
  const int64_t m = double_row ? stationary.free / 2 : stationary.free;
  const int64_t n = double_row ? moving.free / 2 : moving.free;

  c.same_partitions(1, kStationary, kMoving);
  check_tiling(c, 7, kNcMatmulArray);
  const bool tiles = tiled(c, kNcMatmulArray);
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
  check_placement(c, kNcMatmulArray);

  const bool transposes = c.boolean(kAIsTranspose);
  const DType a = stationary.dtype(), b = moving.dtype();
  if (!transposes) {
    const DTypes allowed =
        c.can.matmul_fp8_e4m3fn ? kMatmulTypes | DTypes{DType::kFloat8E4M3Fn} : kMatmulTypes;
    c.dtype_in(6, kStationary, allowed);
    c.dtype_in(6, kMoving, allowed);
    if (kFp32Class.has(a) != kFp32Class.has(b)) [[unlikely]]
      c.fail(12,
             fmt::format("stationary is {}, moving is {}; a 32-bit operand needs a 32-bit partner", name(a),
                         name(b)),
             "convert one of them with tensor_copy");
    c.dtype_in(14, kDst, c.can.matmul_bf16_result ? kFp32OrBf16 : kFp32);
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

}  // namespace

constexpr InstructionDefinition nc_matmul = {
    .opcode = Opcode::kNcMatmul,
    .name = "nc_matmul",
    .engines = kOnTensor,
    .first_generation = Generation::kV1,
    .operands = kNcMatmulOperands,
    .attributes = kNcMatmulAttributes,
    .signature = {Engine::kTensor, kNcMatmulParameters},
    .summary =
        "dst[M, N] = or += stationary[K, M].T @ moving[K, N]; dst in PSUM.\n\ndouble_row: operands are [K, "
        "2, M] and [K, 2, N], the second dimension belongs to the contraction. is_transpose (v3+): moving is "
        "an identity, the bits of stationary are transposed unchanged.",
    .constraints = kNcMatmulConstraints,
    .array = &kNcMatmulArray,
    .check = check_nc_matmul,
};

namespace {

// -- nc_matmul_mx
constexpr OperandSlot kNcMatmulMxOperands[] = {
    inout("dst", kInPsum, kIndirectTile), in("stationary", kInSbuf, kIndirectTile),
    in("moving", kInSbuf, kIndirectTile), in("stationary_scale", kInSbuf, kIndirectTile),
    in("moving_scale", kInSbuf, kIndirectTile)};
constexpr AttributeSlot kNcMatmulMxAttributes[] = {{"accumulate", K::kInt},
                                                   {"tile_row", K::kInt},
                                                   {"tile_column", K::kInt},
                                                   {"tile_rows", K::kInt},
                                                   {"tile_columns", K::kInt}};
constexpr ArraySlots kNcMatmulMxArray = {
    .dst = slot::nc_matmul_mx::kDst,
    .stationary = slot::nc_matmul_mx::kStationary,
    .moving = slot::nc_matmul_mx::kMoving,
    .row = slot::nc_matmul_mx::kATileRow,
    .column = slot::nc_matmul_mx::kATileColumn,
    .rows = slot::nc_matmul_mx::kATileRows,
    .columns = slot::nc_matmul_mx::kATileColumns,
    .rows_rule = 12,
    .columns_rule = 10,
    .alike_rule = 13,
};
constexpr Parameter kNcMatmulMxParameters[] = {
    operand("dst", 0),
    operand("stationary", 1),
    operand("moving", 2),
    operand("stationary_scale", 3),
    operand("moving_scale", 4),
    {"tile_position", ParameterRole::kTilePosition, slot::nc_matmul_mx::kATileRow},
    {"tile_size", ParameterRole::kTilePosition, slot::nc_matmul_mx::kATileRows},
    unset("accumulate", slot::nc_matmul_mx::kAAccumulate),
    name()};
constexpr Constraint kNcMatmulMxConstraints[] = {
    {"nc_matmul_mx.C1", "stationary and moving have the same partitions.",
     "nki.isa.nc_matmul_mx, 'Tile size'"},
    {"nc_matmul_mx.C2", "The partitions are a multiple of 32.", "nki.isa.nc_matmul_mx, 'Tile size'"},
    {"nc_matmul_mx.C3", "stationary has an even number of columns, at most 128.",
     "nki.isa.nc_matmul_mx, 'Tile size'"},
    {"nc_matmul_mx.C4", "moving has at most 4096 columns into float32 and 8192 into bfloat16.",
     "nki.isa.nc_matmul_mx, 'Tile size'"},
    {"nc_matmul_mx.C5",
     "dst has the columns of stationary as partitions and the columns of moving as elements.",
     "nki.isa.nc_matmul_mx, 'Layout'"},
    {"nc_matmul_mx.C6", "Operands are of a packed x4 type.", "nki.isa.nc_matmul_mx, 'Data types'"},
    {"nc_matmul_mx.C7", "dst is float32 or bfloat16.", "nki.isa.nc_matmul_mx, 'Data types'"},
    {"nc_matmul_mx.C8", "Scales are float8_e8m0fnu or uint8.", "nki.isa.nc_matmul_mx, 'Data types'"},
    {"nc_matmul_mx.C9",
     "tile_size is 32, 64 or 128; tile_position is a multiple of it inside the array; both are set.",
     "nki.isa.nc_matmul_mx, 'Tiling mode'"},
    {"nc_matmul_mx.C10", "Only row tiling is possible: column_size 128, start_column 0.",
     "nki.isa.nc_matmul_mx, 'Tiling mode'"},
    {"nc_matmul_mx.C11", "The contraction fits the rows of the tile.", "nki.isa.nc_matmul_mx, 'Tiling mode'"},
    {"nc_matmul_mx.C12", "With a row tile stationary and moving lie on the partitions of the tile's rows.",
     "trainium2_arch.rst, 'with each partition feeding data into each row of processing elements'"},
    {"nc_matmul_mx.C13", "stationary and moving start on the same partition.",
     "trainium2_arch.rst, 'with each partition feeding data into each row of processing elements'"}};

void check_nc_matmul_mx(const Check& c) {
  using namespace slot::nc_matmul_mx;
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
  check_tiling(c, 9, kNcMatmulMxArray);
  if (!tiled(c, kNcMatmulMxArray)) return check_placement(c, kNcMatmulMxArray);
  if (c.integer(kATileColumns) != 128 || c.integer(kATileColumn) != 0)
    c.fail(10, fmt::format("column tiles of {} at {}; only row tiling is possible", c.integer(kATileColumns),
                           c.integer(kATileColumn)));
  if (stationary.partitions > c.integer(kATileRows))
    c.fail(11, fmt::format("stationary has {} partitions in row tiles of {}", stationary.partitions,
                           c.integer(kATileRows)));
  check_placement(c, kNcMatmulMxArray);
}

}  // namespace

constexpr InstructionDefinition nc_matmul_mx = {
    .opcode = Opcode::kNcMatmulMx,
    .name = "nc_matmul_mx",
    .engines = kOnTensor,
    .first_generation = Generation::kV4,
    .operands = kNcMatmulMxOperands,
    .attributes = kNcMatmulMxAttributes,
    .signature = {Engine::kTensor, kNcMatmulMxParameters},
    .summary =
        "Matrix product of MX-quantized operands: contraction over partitions and the 4 packed values of "
        "each.",
    .constraints = kNcMatmulMxConstraints,
    .array = &kNcMatmulMxArray,
    .check = check_nc_matmul_mx,
};

namespace {

// -- nc_matmul_sparse
constexpr OperandSlot kNcMatmulSparseOperands[] = {inout("dst", kInPsum), in("stationary", kInSbuf),
                                                   in("moving", kInSbuf), in("indices", kInSbuf)};
constexpr AttributeSlot kNcMatmulSparseAttributes[] = {{"accumulate", K::kInt}, {"pattern", K::kInt}};
constexpr ArraySlots kNcMatmulSparseArray = {
    .dst = slot::nc_matmul_sparse::kDst,
    .stationary = slot::nc_matmul_sparse::kStationary,
    .moving = slot::nc_matmul_sparse::kMoving,
    .alike_rule = 5,
};
constexpr Parameter kNcMatmulSparseParameters[] = {operand("dst", 0),
                                                   operand("stationary", 1),
                                                   operand("moving", 2),
                                                   operand("indices", 3),
                                                   attribute("pattern", slot::nc_matmul_sparse::kAPattern),
                                                   unset("accumulate", slot::nc_matmul_sparse::kAAccumulate),
                                                   name()};
constexpr Constraint kNcMatmulSparseConstraints[] = {
    {"nc_matmul_sparse.C1", "The pattern is 4:16, 4:12, 4:8, 2:8, 2:4, 1:4 or 1:2.",
     "neuron-core-v3.rst, 'Structured Sparsity'"},
    {"nc_matmul_sparse.C2", "stationary and moving have the same partitions.",
     "trainium2_arch.rst, 'M:N structured sparsity'"},
    {"nc_matmul_sparse.C3", "stationary has at most 128 columns.",
     "trainium2_arch.rst, 'M:N structured sparsity'"},
    {"nc_matmul_sparse.C4", "Up to NeuronCore-v3 dst lies in one bank of PSUM.",
     "trainium_inferentia2_arch.rst, 'each nc_matmul can only write to a single PSUM bank'"},
    {"nc_matmul_sparse.C5", "stationary and moving start on the same partition.",
     "trainium2_arch.rst, 'with each partition feeding data into each row of processing elements'"}};

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
  start_alike(c, kNcMatmulSparseArray.alike_rule, kStationary, kMoving);
}

}  // namespace

constexpr InstructionDefinition nc_matmul_sparse = {
    .opcode = Opcode::kNcMatmulSparse,
    .name = "nc_matmul_sparse",
    .engines = kOnTensor,
    .first_generation = Generation::kV3,
    .operands = kNcMatmulSparseOperands,
    .attributes = kNcMatmulSparseAttributes,
    .signature = {Engine::kTensor, kNcMatmulSparseParameters, /*in_nki=*/false},
    .summary =
        "dst[m, n] += sum over k of stationary[k, m] * the moving value that its tag chooses.\n\npattern: "
        "\"4:16\", \"4:12\", \"4:8\", \"2:8\", \"2:4\", \"1:4\" or \"1:2\": M values kept of N along the "
        "contraction; R = N / M. stationary: [K, m], the kept values; indices: [K, m / 4] uint16, four 4-bit "
        "tags each, the first in the low bits; moving: [K, R, n]. Groups are M partitions; tag t means "
        "partition t // R of the group, and index t % R. Source: trainium2_arch.rst, \"M:N Structured "
        "Sparsity\", for the layout; neuron-core-v3.rst for the patterns; NeuronCore-v3 and later. Raises "
        "InputError "
        "for another pattern.",
    .constraints = kNcMatmulSparseConstraints,
    .array = &kNcMatmulSparseArray,
    .check = check_nc_matmul_sparse,
};

}  // namespace opentrn::isa::instructions
