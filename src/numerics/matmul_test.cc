#include "numerics/matmul.h"

#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "numerics/convert.h"
#include "numerics/dtype.h"
#include "numerics/simd_targets.h"

namespace opentrn::numerics {
namespace {

struct Case {
  int K, M, N;
};

enum class Values { kOrdinary, kWild };

std::vector<float> random_matrix(SplitMix64& rng, size_t n, Values values) {
  std::vector<float> matrix(n);
  for (float& x : matrix) {
    x = static_cast<float>(rng.uniform() * 2 - 1);
    if (values == Values::kWild && rng.below(8) == 0)
      x = std::bit_cast<float>(rng.next32());  // also NaN, inf
  }
  return matrix;
}

// As bf16, the upper halves of fp32 values; as fp16 and fp8, rounded. Also NaN, infinities and subnormals.
std::vector<uint16_t> as_16_bits(const std::vector<float>& matrix, DType dtype) {
  std::vector<uint16_t> codes(matrix.size());
  if (is_fp8(dtype)) store_f32(dtype, matrix.data(), codes.data(), codes.size());  // half of the bytes
  if (dtype == DType::kFloat16) store_f32(dtype, matrix.data(), codes.data(), codes.size());
  if (dtype == DType::kBFloat16)
    for (size_t i = 0; i < matrix.size(); ++i)
      codes[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(matrix[i]) >> 16);
  return codes;
}

// Random values, kept in fp32 and as `dtype`.
struct Operand {
  std::vector<float> floats;
  std::vector<uint16_t> codes;
  size_t pitch;
  DType dtype;

  Operand(SplitMix64& rng, int rows, size_t row_pitch, Values values, DType type)
      : floats(random_matrix(rng, static_cast<size_t>(rows) * row_pitch + 1, values)),
        codes(as_16_bits(floats, type)),
        pitch(row_pitch),
        dtype(type) {}
  MatmulOperand view() const {
    if (dtype == DType::kFloat32) return {floats.data(), pitch};
    return {codes.data(), pitch, dtype};
  }
};

// Columns of `moving`: where they begin, and in which runs; run 0: one.
struct Runs {
  int first = 0;
  int run = 0;
  int gap = 0;  // elements between runs

  // Elements from a row's beginning to beyond its last column.
  size_t extent(int columns) const {
    const int end = first + columns;
    return static_cast<size_t>(run == 0 ? end : end + end / run * gap);
  }
};

// Pitches are wider than the tile, so that writing outside it shows; `dense`: operands are fp32, and the rows
// of the result follow each other.
void expect_equal_to_reference(Case c, Values values, bool accumulate, uint64_t seed, Runs runs = {},
                               bool dense = false) {
  SplitMix64 rng(seed);
  constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat8E4M3,
                              DType::kFloat8E5M2};
  const auto type = [&] { return dense ? DType::kFloat32 : kTypes[rng.below(5)]; };
  const size_t columns_m = static_cast<size_t>(c.M), columns_n = static_cast<size_t>(c.N);
  const Operand stationary(rng, c.K, columns_m + 3, values, type());
  const Operand moving(rng, c.K, runs.extent(c.N) + 5, values, type());
  const size_t lda = columns_n + (dense ? 0 : 7);
  const std::vector<float> before = random_matrix(rng, columns_m * lda + 1, Values::kOrdinary);
  std::vector<float> fast = before, slow = before, split = before;
  MatmulTile tile{stationary.view(), moving.view(), fast.data(), c.K, c.M, c.N, lda, accumulate};
  tile.moving.first_column = runs.first;
  tile.moving.run = runs.run;
  tile.moving.run_pitch = static_cast<size_t>(runs.run + runs.gap);
  matmul_tile(tile);
  tile.acc = slow.data();
  matmul_tile_reference(tile);
  tile.acc = split.data();
  const int m = c.M / 3, n = c.N / 2;
  matmul_tile_range(tile, 0, m, 0, n);
  matmul_tile_range(tile, 0, m, n, c.N);
  matmul_tile_range(tile, m, c.M, 0, c.N);
  ASSERT_EQ(std::memcmp(fast.data(), slow.data(), fast.size() * sizeof(float)), 0)
      << "K " << c.K << " M " << c.M << " N " << c.N << " seed " << seed << ", stationary "
      << name(stationary.dtype) << ", moving " << name(moving.dtype);
  ASSERT_EQ(std::memcmp(split.data(), slow.data(), fast.size() * sizeof(float)), 0);
}

class MatmulTileTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { force_simd_target(GetParam()); }
  void TearDown() override { force_simd_target(""); }
};
INSTANTIATE_TEST_SUITE_P(Simd, MatmulTileTest, testing::ValuesIn(simd_targets()),
                         [](const auto& info) { return info.param; });

TEST_P(MatmulTileTest, FastEqualsReferenceBitForBit) {
  uint64_t seed = 1;
  for (const Case c : {Case{128, 128, 512},
                       {128, 128, 100},
                       {1, 1, 1},
                       {0, 3, 5},
                       {128, 1, 512},
                       {100, 2, 300},
                       {128, 8, 512},
                       {128, 128, 1},
                       {7, 13, 33},
                       {64, 31, 47}}) {
    for (const bool accumulate : {false, true}) {
      expect_equal_to_reference(c, Values::kOrdinary, accumulate, seed++);
      if (c.M < 128) expect_equal_to_reference(c, Values::kWild, accumulate, seed++);
    }
  }
}

TEST_P(MatmulTileTest, FastEqualsReferenceOnRandomShapes) {
  SplitMix64 rng(99);
  for (int i = 0; i < 150; ++i) {
    const Case c{static_cast<int>(rng.below(40)), static_cast<int>(rng.below(30)),
                 static_cast<int>(rng.below(90))};
    expect_equal_to_reference(c, i % 2 == 0 ? Values::kOrdinary : Values::kWild, i % 3 == 0, rng.next());
  }
}

TEST_P(MatmulTileTest, FewStepsOntoNarrowRowsWithoutGaps) {
  SplitMix64 rng(5);
  for (int i = 0; i < 120; ++i) {
    const Case c{static_cast<int>(1 + rng.below(5)), static_cast<int>(1 + rng.below(140)),
                 static_cast<int>(1 + rng.below(17))};
    const Runs runs{static_cast<int>(rng.below(3))};
    expect_equal_to_reference(c, i % 2 == 0 ? Values::kOrdinary : Values::kWild, i % 3 == 0, rng.next(), runs,
                              true);
  }
}

TEST_P(MatmulTileTest, ColumnsInRuns) {
  SplitMix64 rng(7);
  uint64_t seed = 1000;
  for (const int run : {1, 3, 7, 14, 16, 31, 56, 200}) {
    for (int i = 0; i < 3; ++i) {
      const Case c{static_cast<int>(rng.below(40)), static_cast<int>(i == 0 ? 128 : 1 + rng.below(40)),
                   static_cast<int>(1 + rng.below(120))};
      const Runs runs{static_cast<int>(rng.below(2) * rng.below(30)), run, static_cast<int>(rng.below(4))};
      expect_equal_to_reference(c, i % 2 == 0 ? Values::kOrdinary : Values::kWild, i % 3 == 0, seed++, runs);
    }
  }
  // Images of a few pixels: whole vectors of columns, and one to four beyond.
  for (const int columns : {49, 50, 51, 52, 53})
    for (const Runs runs : {Runs{}, Runs{0, 7, 2}})
      for (const int rows : {48, 128})
        expect_equal_to_reference({37, rows, columns}, Values::kWild, columns % 2 == 0, seed++, runs);
}

TEST(MatmulTile, SumsRunDownTheRowsWithOneRoundingEach) {
  // 2^24 absorbs each 1 when added one by one; adding the ones first would give 2^24 + 2.
  const float stationary[] = {0x1p24f, 1, 1};
  const float moving[] = {1, 1, 1};
  float acc = 0;
  matmul_tile(stationary, moving, &acc, 3, 1, 1, 1, 1, 1, false);
  EXPECT_EQ(acc, 0x1p24f);
  // fma keeps the product exact: (1 + 2^-23)(1 - 2^-23) - 1 is -2^-46, not 0.
  const float a[] = {-1, 1 + 0x1p-23f};
  const float b[] = {1, 1 - 0x1p-23f};
  matmul_tile(a, b, &acc, 2, 1, 1, 1, 1, 1, false);
  EXPECT_EQ(acc, -0x1p-46f);
}

TEST(MatmulTile, Bfloat16IsWidenedWithoutRounding) {
  const uint16_t one_and_a_half = 0x3fc0, negative_two = 0xc000;
  float acc = 0;
  matmul_tile({{&one_and_a_half, 1, DType::kBFloat16},
               {&negative_two, 1, DType::kBFloat16},
               &acc,
               1,
               1,
               1,
               1,
               false});
  EXPECT_EQ(acc, -3.0f);
}

TEST(MatmulTile, Float16IsWidenedWithoutRounding) {
  const uint16_t largest = 0x7bff, smallest = 0x0001;
  float acc = 0;
  matmul_tile({{&largest, 1, DType::kFloat16}, {&smallest, 1, DType::kFloat16}, &acc, 1, 1, 1, 1, false});
  EXPECT_EQ(acc, 65504.0f * 0x1p-24f);
}

TEST(MatmulTile, NanIsCanonical) {
  const float inf = std::numeric_limits<float>::infinity();
  const float stationary[] = {inf, inf};
  const float moving[] = {1, -1};
  float acc = 0;
  matmul_tile(stationary, moving, &acc, 2, 1, 1, 1, 1, 1, false);
  EXPECT_EQ(std::bit_cast<uint32_t>(acc), 0x7fc00000u);
}

}  // namespace
}  // namespace opentrn::numerics
