#include "numerics/chosen_sums.h"

#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "numerics/simd_targets.h"

namespace opentrn::numerics {
namespace {

struct Product {
  int K, M, N;
  std::vector<float> stationary, moving, acc;

  // About `ones` of them in a row of `stationary`; `moving` is of both signs, with zeros.
  Product(int k, int m, int n, int ones, uint64_t seed) : K(k), M(m), N(n) {
    SplitMix64 rng(seed);
    stationary.resize(static_cast<size_t>(K * pitch_left()));
    for (int row = 0; row < K; ++row)
      for (int i = 0; i < ones; ++i)
        stationary[static_cast<size_t>(row * pitch_left()) + rng.below(static_cast<uint64_t>(M))] = 1;
    moving.resize(static_cast<size_t>(K * pitch_right()));
    for (float& x : moving) x = rng.below(6) == 0 ? -0.0f : static_cast<float>(rng.uniform() * 2 - 1);
    acc.resize(static_cast<size_t>(M * pitch_right()));
    for (float& x : acc) x = rng.below(3) == 0 ? -0.0f : static_cast<float>(rng.uniform() * 2 - 1);
  }
  int pitch_left() const { return M + 3; }
  int pitch_right() const { return N + 5; }
  MatmulTile tile(bool accumulate) {
    return {{stationary.data(), static_cast<size_t>(pitch_left())},
            {moving.data(), static_cast<size_t>(pitch_right())},
            acc.data(),
            K,
            M,
            N,
            static_cast<size_t>(pitch_right()),
            accumulate};
  }
};

void expect_bits_of_reference(const Product& given, bool accumulate) {
  Product ours = given, reference = given;
  ASSERT_TRUE(add_chosen_rows(ours.tile(accumulate)));
  matmul_tile_reference(reference.tile(accumulate));
  EXPECT_EQ(std::memcmp(ours.acc.data(), reference.acc.data(), ours.acc.size() * sizeof(float)), 0)
      << given.K << " x " << given.M << " x " << given.N;
}

TEST(ChosenSums, HaveTheBitsOfTheProduct) {
  uint64_t seed = 1;
  for (const bool accumulate : {false, true})
    for (const int n : {17, 33, 96, 300})
      for (const int m : {32, 100, 128})
        for (const int ones : {1, 3}) expect_bits_of_reference({128, m, n, ones, ++seed}, accumulate);
}

TEST(ChosenSums, SumsThatOverflowAreOfTheProduct) {
  Product product(128, 32, 64, 1, 7);
  for (float& x : product.moving) x = std::numeric_limits<float>::max();
  product.acc.assign(product.acc.size(), -std::numeric_limits<float>::infinity());
  expect_bits_of_reference(product, true);
}

// Zero times an infinity is NaN, also in rows that the infinity is not added to.
TEST(ChosenSums, LeaveOtherProductsAlone) {
  const auto is_left = [](Product product) {
    const std::vector<float> before = product.acc;
    return !add_chosen_rows(product.tile(false)) &&
           std::memcmp(before.data(), product.acc.data(), before.size() * sizeof(float)) == 0;
  };
  Product product(128, 64, 69, 1, 3);
  for (const float value : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()})
    for (const int column : {0, 9, 63, 66, 68}) {
      Product infinite = product;
      infinite.moving[static_cast<size_t>(127 * infinite.pitch_right() + column)] = value;
      EXPECT_TRUE(is_left(infinite)) << value << " in column " << column;
    }
  Product scaled = product;
  scaled.stationary[static_cast<size_t>(100 * scaled.pitch_left() + 63)] = 2;
  EXPECT_TRUE(is_left(scaled));
  EXPECT_TRUE(is_left(Product(128, 64, 64, 40, 4)));  // as many ones as zeros
  EXPECT_TRUE(is_left(Product(8, 8, 8, 1, 5)));       // smaller than what looking costs
  EXPECT_FALSE(is_left(product));
}

}  // namespace
}  // namespace opentrn::numerics
