#include "graph/element_value.h"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

namespace opentrn::graph {
namespace {

constexpr std::array kSmallFloats{
    ElementType::kF4E2M1FN, ElementType::kF6E2M3FN,   ElementType::kF6E3M2FN,   ElementType::kF8E3M4,
    ElementType::kF8E4M3,   ElementType::kF8E4M3FN,   ElementType::kF8E4M3FNUZ, ElementType::kF8E4M3B11FNUZ,
    ElementType::kF8E5M2,   ElementType::kF8E5M2FNUZ, ElementType::kBF16,       ElementType::kF16};

uint64_t stored(ElementType element, double value) {
  std::byte bytes[8] = {};
  store_real(element, value, bytes);
  return load_bits(element, bytes);
}

double loaded(ElementType element, uint64_t code) {
  std::byte bytes[8] = {};
  store_bits(element, code, bytes);
  return load_real(element, bytes);
}

TEST(ElementValues, EveryCodeOfASmallFloatComesBack) {
  for (const ElementType element : kSmallFloats) {
    for (uint64_t code = 0; code < uint64_t{1} << bit_width(element); ++code) {
      const double value = loaded(element, code);
      if (std::isnan(value)) continue;
      EXPECT_EQ(stored(element, value), code) << name(element);
    }
  }
}

// Golden values: the largest finite values and the smallest subnormals as ml_dtypes.finfo has them.
TEST(ElementValues, LimitsOfSmallFloats) {
  EXPECT_EQ(loaded(ElementType::kF8E4M3FN, 0x7E), 448.0);
  EXPECT_EQ(loaded(ElementType::kF8E4M3FNUZ, 0x7F), 240.0);
  EXPECT_EQ(loaded(ElementType::kF8E4M3B11FNUZ, 0x7F), 30.0);
  EXPECT_EQ(loaded(ElementType::kF8E5M2FNUZ, 0x7F), 57344.0);
  EXPECT_EQ(loaded(ElementType::kF8E5M2, 0x01), std::ldexp(1.0, -16));
  EXPECT_EQ(loaded(ElementType::kF8E4M3FNUZ, 0x01), std::ldexp(1.0, -10));
  EXPECT_EQ(loaded(ElementType::kF6E3M2FN, 0x1F), 28.0);
  EXPECT_EQ(loaded(ElementType::kF6E2M3FN, 0x1F), 7.5);
  EXPECT_TRUE(std::isnan(loaded(ElementType::kF8E4M3FNUZ, 0x80)));
  EXPECT_EQ(stored(ElementType::kF8E4M3FN, 1e9), 0x7Fu);
  EXPECT_EQ(stored(ElementType::kF8E5M2, -1e9), 0xFCu);
  EXPECT_EQ(stored(ElementType::kF4E2M1FN, 1e9), 0x7u);
  EXPECT_EQ(stored(ElementType::kF8E5M2FNUZ, -0.0), 0u);
  // What has no NaN gets a zero of the other sign, as from ml_dtypes.
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(stored(ElementType::kF4E2M1FN, nan), 0x8u);
  EXPECT_EQ(stored(ElementType::kF4E2M1FN, -nan), 0x0u);
  EXPECT_EQ(stored(ElementType::kF6E2M3FN, nan), 0x20u);
  EXPECT_EQ(stored(ElementType::kBF16, 1.0 + std::ldexp(1.0, -8)), 0x3F80u);  // a tie goes to even
  EXPECT_EQ(stored(ElementType::kF8E8M0FNU, 1.5), 0x80u);
}

TEST(ElementValues, IntegersAreExtendedFromTheirWidth) {
  std::byte bytes[8] = {};
  store_integer(ElementType::kI4, 15, bytes);
  EXPECT_EQ(load_integer(ElementType::kI4, bytes), -1);
  store_integer(ElementType::kUI4, -1, bytes);
  EXPECT_EQ(load_integer(ElementType::kUI4, bytes), 15);
  store_integer(ElementType::kI64, INT64_MIN, bytes);
  EXPECT_EQ(load_integer(ElementType::kI64, bytes), INT64_MIN);
}

}  // namespace
}  // namespace opentrn::graph
