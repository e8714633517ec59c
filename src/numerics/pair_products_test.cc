#include "numerics/pair_products.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "numerics/convert.h"
#include "numerics/simd_targets.h"

namespace opentrn::numerics {
namespace {
namespace pair_products {

constexpr uint16_t kNan = 0x7fc1, kInfinity = 0x7f80, kSubnormal = 0x0001, kOne = 0x3f80;

// Ranges of columns that multiply_pairs() gave to others, which compute them by the contract.
std::vector<std::pair<int, int>> passed_on;  // first_column and count
void by_contract(const MatmulTile& part) {
  passed_on.emplace_back(part.moving.first_column, part.N);
  matmul_tile_reference(part);
}

int columns_passed_on() {
  int columns = 0;
  for (const auto& [first, count] : passed_on) columns += count;
  return columns;
}

struct Shape {
  int K, M, N;
};

// Numbers whose biased exponents are in [low, high], with signs; some are zeros, and one in `specials` is a
// subnormal number, an infinity or a NaN.
struct Kind {
  int low, high;
  int specials = 0;
  bool few_fractions = false;  // so that sums cancel

  uint16_t number(SplitMix64& rng) const {
    const auto sign = static_cast<uint16_t>(rng.below(2) << 15);
    if (specials > 0 && rng.below(static_cast<uint64_t>(specials)) == 0) {
      constexpr uint16_t kSpecials[] = {kNan, kInfinity, kSubnormal, 0x007f};
      return static_cast<uint16_t>(sign | kSpecials[rng.below(4)]);
    }
    if (rng.below(16) == 0) return sign;
    const auto exponent = static_cast<uint64_t>(low) + rng.below(static_cast<uint64_t>(high - low + 1));
    const uint64_t fraction = few_fractions ? rng.below(3) : rng.below(128);
    return static_cast<uint16_t>(sign | exponent << 7 | fraction);
  }
};

struct Codes {
  std::vector<uint16_t> bf16;
  std::vector<float> fp32;
  size_t pitch;

  Codes(SplitMix64& rng, int rows, size_t row_pitch, const Kind& kind)
      : bf16(static_cast<size_t>(rows) * row_pitch), pitch(row_pitch) {
    for (uint16_t& code : bf16) code = kind.number(rng);
    widen();
  }
  void widen() {
    fp32.clear();
    for (const uint16_t code : bf16) fp32.push_back(std::bit_cast<float>(uint32_t{code} << 16));
  }
  MatmulOperand view(bool wide) const {
    if (wide) return {fp32.data(), pitch};
    return {bf16.data(), pitch, DType::kBFloat16};
  }
};

// One product by pairs, whose bits are those of the contract; the number of columns that went by pairs.
int product_by_pairs(SplitMix64& rng, const Shape& shape, const Kind& left, const Kind& right, int run = 0) {
  const size_t gap = run == 0 ? 0 : 2;
  const size_t extent = static_cast<size_t>(shape.N) + (run == 0 ? 0 : shape.N / run * gap) + 1;
  const Codes stationary(rng, shape.K, static_cast<size_t>(shape.M) + 3, left);
  const Codes moving(rng, shape.K, extent + 5, right);
  const size_t pitch = static_cast<size_t>(shape.N) + 7;
  std::vector<float> pairs(static_cast<size_t>(shape.M) * pitch);
  for (float& x : pairs) x = static_cast<float>(rng.uniform());
  std::vector<float> expected = pairs;
  MatmulTile tile{stationary.view(rng.below(4) == 0),
                  moving.view(rng.below(4) == 0),
                  pairs.data(),
                  shape.K,
                  shape.M,
                  shape.N,
                  pitch,
                  rng.below(2) == 0};
  tile.moving.run = run;
  tile.moving.run_pitch = static_cast<size_t>(run) + gap;
  passed_on.clear();
  const bool done = multiply_pairs(tile, by_contract);
  if (!done) return 0;
  tile.acc = expected.data();
  matmul_tile_reference(tile);
  EXPECT_EQ(std::memcmp(pairs.data(), expected.data(), pairs.size() * sizeof(float)), 0)
      << "K " << shape.K << " M " << shape.M << " N " << shape.N << ", exponents " << left.low << " to "
      << left.high << " and " << right.low << " to " << right.high << ", runs of " << run;
  return shape.N - columns_passed_on();
}

Shape random_shape(SplitMix64& rng) {
  return {static_cast<int>(16 + rng.below(40)), static_cast<int>(16 + rng.below(60)),
          static_cast<int>(48 + rng.below(120))};
}

class PairProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_pair_products()) GTEST_SKIP() << "this processor multiplies no pairs of bf16";
  }
};

TEST_F(PairProducts, OrdinaryNumbersAllGoByPairs) {
  SplitMix64 rng(1);
  for (int i = 0; i < 60; ++i) {
    const Shape shape = random_shape(rng);
    const int run = i % 4 == 0 ? static_cast<int>(1 + rng.below(30)) : 0;
    EXPECT_EQ(product_by_pairs(rng, shape, {100, 130}, {100, 130}, run), shape.N);
    EXPECT_EQ(product_by_pairs(rng, shape, {120, 122, 0, true}, {120, 122, 0, true}, run), shape.N);
  }
}

// All codes of a format, in every pair of columns.
TEST_F(PairProducts, Fp8) {
  constexpr int kK = 40, kM = 20, kN = 100;
  SplitMix64 rng(8);
  for (const DType dtype :
       {DType::kFloat8E3M4, DType::kFloat8E4M3, DType::kFloat8E4M3Fn, DType::kFloat8E5M2}) {
    for (const bool specials : {false, true}) {
      const auto code = [&] {
        const auto any = static_cast<uint8_t>(rng.below(256));
        float value;
        load_f32(dtype, &any, &value, 1);
        return specials || std::isfinite(value) ? any : uint8_t{1};
      };
      std::vector<uint8_t> left(kK * kM), right(kK * kN);
      for (uint8_t& x : left) x = static_cast<uint8_t>(rng.below(0x60));  // finite
      for (uint8_t& x : right) x = code();
      std::vector<float> pairs(kM * kN), expected(kM * kN);
      MatmulTile tile{
          {left.data(), kM, dtype}, {right.data(), kN, dtype}, pairs.data(), kK, kM, kN, kN, false};
      passed_on.clear();
      ASSERT_TRUE(multiply_pairs(tile, by_contract));
      EXPECT_EQ(columns_passed_on(), specials ? kN : 0) << name(dtype);
      tile.acc = expected.data();
      matmul_tile_reference(tile);
      EXPECT_EQ(std::memcmp(pairs.data(), expected.data(), pairs.size() * sizeof(float)), 0) << name(dtype);
    }
  }
}

TEST_F(PairProducts, FewColumns) {
  SplitMix64 rng(6);
  int by_pairs = 0;
  for (int columns = 12; columns < 48; ++columns)
    by_pairs += product_by_pairs(rng, {33, 17, columns}, {100, 130}, {100, 130});
  EXPECT_GT(by_pairs, 100);  // those whose operands are of bf16
}

TEST_F(PairProducts, ExponentsAtTheEndsOfTheRange) {
  SplitMix64 rng(2);
  for (int i = 0; i < 40; ++i) {
    const Shape shape = random_shape(rng);
    const bool few = i % 2 == 0;
    // The least product's last place is 2^-126: the smallest normal number, which sums that cancel come to.
    const int low = static_cast<int>(10 + rng.below(120));
    EXPECT_EQ(product_by_pairs(rng, shape, {low, low, 0, few}, {142 - low, 142 - low, 0, few}), shape.N);
    EXPECT_EQ(product_by_pairs(rng, shape, {low, low, 0, few}, {141 - low, 141 - low, 0, few}), 0);
    // The largest products are below 2^128, or some are not.
    const int high = static_cast<int>(130 + rng.below(120));
    EXPECT_EQ(product_by_pairs(rng, shape, {high, high, 0, few}, {380 - high, 380 - high, 0, few}), shape.N);
    EXPECT_EQ(product_by_pairs(rng, shape, {high, high, 0, few}, {381 - high, 381 - high, 0, few}), 0);
  }
}

TEST_F(PairProducts, AnyExponentsAndSpecialNumbers) {
  SplitMix64 rng(3);
  int by_pairs = 0, others = 0;
  for (int i = 0; i < 150; ++i) {
    const Shape shape = random_shape(rng);
    const auto kind = [&](int specials) {
      const int low = static_cast<int>(1 + rng.below(254));
      return Kind{low, static_cast<int>(std::min<uint64_t>(254, static_cast<uint64_t>(low) + rng.below(60))),
                  specials, rng.below(2) == 0};
    };
    const int columns = product_by_pairs(rng, shape, kind(0), kind(i % 2 == 0 ? 0 : 3000));
    by_pairs += columns;
    others += shape.N - columns;
  }
  EXPECT_GT(by_pairs, 1000);
  EXPECT_GT(others, 1000);
}

// What the instruction does to the numbers that are kept from it: without the limits these would be other
// bits.
TEST_F(PairProducts, SubnormalSumsKeepTheirBits) {
  // 2^-63 * (1 + 2^-7) * 2^-63 - 2^-126, a subnormal difference; the other steps are of zeros.
  constexpr int kSize = 16;
  std::vector<uint16_t> left(kSize * kSize), right(kSize * kSize);
  for (size_t i = 0; i < kSize; ++i) {
    left[i] = 0x2001;
    left[kSize + i] = right[i] = 0x2000;
    right[kSize + i] = 0xa000;
  }
  std::vector<float> acc(kSize * kSize);
  const MatmulTile tile{{left.data(), kSize, DType::kBFloat16},
                        {right.data(), kSize, DType::kBFloat16},
                        acc.data(),
                        kSize,
                        kSize,
                        kSize,
                        kSize,
                        false};
  passed_on.clear();
  ASSERT_TRUE(multiply_pairs(tile, by_contract));
  EXPECT_EQ(columns_passed_on(), kSize);
  EXPECT_EQ(acc[0], 0x1p-133f);
}

TEST_F(PairProducts, OnlyPanelsThatNeedItArePassedOn) {
  constexpr int kK = 16, kM = 20, kN = 200;
  SplitMix64 rng(4);
  Codes left(rng, kK, kM, {110, 130}), right(rng, kK, kN, {110, 130});
  const auto pass = [&](std::vector<std::pair<int, uint16_t>> put, DType dtype = DType::kBFloat16) {
    Codes with = right;
    for (const auto& [column, code] : put) with.bf16[static_cast<size_t>(3 * kN + column)] = code;
    with.widen();
    if (dtype == DType::kFloat32) with.fp32[100] = 1.0f + 0x1p-20f;  // no bf16, in the third panel
    std::vector<float> acc(kM * kN), expected(kM * kN);
    MatmulTile tile{left.view(false), with.view(dtype == DType::kFloat32), acc.data(), kK, kM, kN, kN, false};
    passed_on.clear();
    EXPECT_TRUE(multiply_pairs(tile, by_contract));
    const auto ranges = passed_on;
    tile.acc = expected.data();
    matmul_tile_reference(tile);
    EXPECT_EQ(std::memcmp(acc.data(), expected.data(), acc.size() * sizeof(float)), 0);
    return ranges;
  };
  using Ranges = std::vector<std::pair<int, int>>;
  EXPECT_EQ(pass({}), Ranges{});
  EXPECT_EQ(pass({{50, kNan}}), (Ranges{{48, 48}}));
  EXPECT_EQ(pass({{0, kInfinity}, {60, kSubnormal}, {199, kNan}}), (Ranges{{0, 96}, {192, 8}}));
  EXPECT_EQ(pass({}, DType::kFloat32), (Ranges{{96, 48}}));
}

TEST_F(PairProducts, RefusesWhatItCannotDo) {
  SplitMix64 rng(5);
  Codes left(rng, 16, 20, {110, 130}), right(rng, 16, 60, {110, 130});
  std::vector<float> acc(20 * 60, 3.0f);
  const auto takes = [&](const MatmulOperand& a, const MatmulOperand& b, int M) {
    return multiply_pairs({a, b, acc.data(), 16, M, 60, 60, false}, by_contract);
  };
  EXPECT_TRUE(takes(left.view(false), right.view(false), 20));
  acc.assign(acc.size(), 3.0f);
  EXPECT_FALSE(takes({left.bf16.data(), 20, DType::kFloat16}, right.view(false), 20));
  EXPECT_FALSE(takes(left.view(false), right.view(false), 1));
  left.widen();
  EXPECT_TRUE(takes(left.view(true), right.view(false), 20));
  acc.assign(acc.size(), 3.0f);
  left.bf16[7] = kSubnormal;
  EXPECT_FALSE(takes(left.view(false), right.view(false), 20));
  left.bf16[7] = kOne;
  left.widen();
  left.fp32[7] = 1.0f + 0x1p-20f;
  EXPECT_FALSE(takes(left.view(true), right.view(false), 20));
  EXPECT_EQ(acc, std::vector<float>(acc.size(), 3.0f));  // nothing was written
}

TEST_F(PairProducts, AreUsedWhereTheyAreFastOrAskedFor) {
  EXPECT_EQ(uses_pair_products(), are_pair_products_fast());
  EXPECT_EQ(simd_targets().front(), "AVX3_BF16");
  force_simd_target("AVX3_BF16");
  EXPECT_TRUE(uses_pair_products());
  EXPECT_EQ(simd_target(), "AVX3_BF16");
  force_simd_target("AVX3");
  EXPECT_FALSE(uses_pair_products());
  EXPECT_EQ(simd_target(), "AVX3");
  force_simd_target("");
}

}  // namespace pair_products
}  // namespace
}  // namespace opentrn::numerics
