#include "numerics/quantise.h"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "numerics/mx.h"

namespace opentrn::numerics {
namespace {

// All numbers of an element, from the specification: e2m1, and e4m3fn without its NaN.
std::vector<double> numbers_of(DType x4) {
  if (x4 == DType::kFloat4E2M1FnX4) return {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  std::vector<double> numbers;
  for (int exponent = 0; exponent < 16; ++exponent)
    for (int fraction = 0; fraction < 8; ++fraction) {
      if (exponent == 15 && fraction == 7) continue;
      numbers.push_back(exponent == 0 ? std::ldexp(fraction / 8.0, -6)
                                      : std::ldexp(1 + fraction / 8.0, exponent - 7));
    }
  return numbers;
}

// The least error that any choice of numbers has at this scale.
double least_error(const std::vector<double>& numbers, const std::vector<float>& block, int code) {
  double sum = 0;
  for (const float value : block) {
    double least = std::numeric_limits<double>::infinity();
    for (const double number : numbers) {
      const double difference = std::ldexp(number, code - 127) - std::fabs(static_cast<double>(value));
      least = std::min(least, difference * difference);
    }
    sum += least;
  }
  return sum;
}

TEST(Quantise, MicroscaledBlocksHaveTheBetterOfTwoScalesAndTheNearestNumbers) {
  SplitMix64 random(11);
  constexpr size_t kColumns = 3, kBlocks = 40;
  for (const DType x4 : {DType::kFloat4E2M1FnX4, DType::kFloat8E4M3FnX4}) {
    const std::vector<double> numbers = numbers_of(x4);
    const int largest_exponent = x4 == DType::kFloat4E2M1FnX4 ? 2 : 8;
    std::vector<float> values;
    for (size_t i = 0; i < kBlocks * kMxBlock * kColumns; ++i) {
      const int power = static_cast<int>(i / (kMxBlock * kColumns)) * 6 - 120;  // of fp32's whole range
      values.push_back(std::ldexp(static_cast<float>(random.uniform() - 0.5), power));
    }
    std::vector<std::byte> packed(kBlocks * kMxBlock / kMxPack * kColumns *
                                  static_cast<size_t>(size_bytes(x4)));
    std::vector<uint8_t> codes(kBlocks * kColumns);
    ASSERT_TRUE(microscale_columns(x4, values, kColumns, packed.data(), codes.data()));
    for (size_t row = 0; row < kBlocks; ++row)
      for (size_t n = 0; n < kColumns; ++n) {
        std::vector<float> block;
        for (size_t i = 0; i < kMxBlock; ++i) block.push_back(values[(row * kMxBlock + i) * kColumns + n]);
        float amax = 0;
        for (const float value : block) amax = std::max(amax, std::fabs(value));
        const int first = std::max(0, std::ilogb(amax) - largest_exponent + 127);
        const double narrow = least_error(numbers, block, first),
                     wide = least_error(numbers, block, first + 1);
        const int code = codes[row * kColumns + n];
        EXPECT_EQ(code, wide < narrow ? first + 1 : first);
        double found = 0;
        for (size_t i = 0; i < kMxBlock; ++i) {
          std::array<float, kMxPack> four{};
          const size_t pack = (row * kMxBlock + i) / kMxPack * kColumns + n;
          unpack_x4(x4, packed.data() + pack * static_cast<size_t>(size_bytes(x4)), four.data(), 1);
          const double difference = std::ldexp(static_cast<double>(four[i % kMxPack]), code - 127) - block[i];
          found += difference * difference;
        }
        EXPECT_DOUBLE_EQ(found, std::min(narrow, wide));
      }
  }
}

TEST(Quantise, NumbersOfMxStayAsTheyAre) {
  for (const DType x4 : {DType::kFloat4E2M1FnX4, DType::kFloat8E4M3FnX4}) {
    const std::vector<double> numbers = numbers_of(x4);
    for (size_t largest = 1; largest < numbers.size(); ++largest) {
      std::vector<float> block(kMxBlock);
      for (size_t i = 0; i < kMxBlock; ++i)
        block[i] = static_cast<float>(std::ldexp(numbers[i == 0 ? largest : i * largest / kMxBlock], 9));
      if (x4 == DType::kFloat8E4M3FnX4 && numbers[largest] < 1) continue;  // smaller ones have fewer bits
      std::vector<std::byte> packed(kMxBlock / kMxPack * static_cast<size_t>(size_bytes(x4)));
      uint8_t code = 0;
      ASSERT_TRUE(microscale_columns(x4, block, 1, packed.data(), &code));
      std::array<float, kMxBlock> back{};
      unpack_x4(x4, packed.data(), back.data(), kMxBlock / kMxPack);
      for (size_t i = 0; i < kMxBlock; ++i) EXPECT_EQ(std::ldexp(back[i], code - 127), block[i]) << largest;
    }
  }
}

TEST(Quantise, WhatIsNotFinite) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(kMxBlock, 1);
    values[3] = bad;
    std::vector<std::byte> packed(kMxBlock);
    uint8_t code = 0;
    EXPECT_FALSE(microscale_columns(DType::kFloat8E4M3FnX4, values, 1, packed.data(), &code));
  }
}

}  // namespace
}  // namespace opentrn::numerics
