#include "numerics/convert.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/random.h"
#include "numerics/float_format.h"
#include "numerics/simd_targets.h"

namespace opentrn::numerics {
namespace {

std::vector<DType> convertible_dtypes() {
  std::vector<DType> dtypes;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (!is_packed_x4(static_cast<DType>(i))) dtypes.push_back(static_cast<DType>(i));
  }
  return dtypes;
}

// Any bit pattern, with the neighbourhood of every small format's limits drawn more often.
std::vector<float> awkward_floats(uint64_t seed, size_t n) {
  SplitMix64 rng(seed);
  std::vector<float> row(n);
  for (float& x : row) {
    const uint32_t bits = rng.next32();
    switch (rng.below(4)) {
      case 0: x = std::bit_cast<float>(bits); break;
      case 1: x = std::bit_cast<float>((bits & 0x87ffffffu) + 0x38000000u); break;  // near 1
      case 2: x = std::bit_cast<float>(bits & 0xfff80000u); break;                  // ties are common
      default:
        x = std::ldexp(static_cast<float>(static_cast<int>(bits >> 8)) * 0x1p-24f,
                       static_cast<int>(rng.below(80)) - 40) *
            ((bits & 1) != 0 ? -1.0f : 1.0f);
    }
  }
  return row;
}

uint64_t element_bits(const std::vector<std::byte>& row, DType dtype, size_t i) {
  uint64_t bits = 0;
  std::memcpy(&bits, row.data() + i * static_cast<size_t>(size_bytes(dtype)),
              static_cast<size_t>(size_bytes(dtype)));
  return bits;
}

class EveryTarget : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { force_simd_target(GetParam()); }
  void TearDown() override { force_simd_target(""); }
};
INSTANTIATE_TEST_SUITE_P(Simd, EveryTarget, testing::ValuesIn(simd_targets()),
                         [](const auto& info) { return info.param; });

TEST_P(EveryTarget, LoadingEveryCodeOfEightAndSixteenBitTypesEqualsTheReference) {
  for (const DType dtype : convertible_dtypes()) {
    const int bytes = size_bytes(dtype);
    if (bytes > 2) continue;
    const size_t count = size_t{1} << (8 * bytes);
    std::vector<uint16_t> wide(count);
    std::vector<uint8_t> narrow(count);
    for (size_t i = 0; i < count; ++i) {
      wide[i] = static_cast<uint16_t>(i);
      narrow[i] = static_cast<uint8_t>(i);
    }
    std::vector<float> row(count);
    load_f32(dtype, bytes == 2 ? static_cast<const void*>(wide.data()) : narrow.data(), row.data(), count);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(row[i]), std::bit_cast<uint32_t>(to_float(dtype, i)))
          << name(dtype) << " code " << i;
    }
  }
}

TEST_P(EveryTarget, LoadingRandomWideElementsEqualsTheReference) {
  SplitMix64 rng(1);
  for (const DType dtype : convertible_dtypes()) {
    if (size_bytes(dtype) < 4) continue;
    std::vector<uint64_t> words(5003);
    for (uint64_t& word : words) word = rng.next() >> rng.below(60);
    const size_t n = words.size() * 8 / static_cast<size_t>(size_bytes(dtype));
    std::vector<std::byte> memory(words.size() * 8);
    std::memcpy(memory.data(), words.data(), memory.size());
    std::vector<float> row(n);
    load_f32(dtype, memory.data(), row.data(), n);
    for (size_t i = 0; i < n; ++i) {
      const float expected = to_float(dtype, element_bits(memory, dtype, i));
      ASSERT_TRUE(std::bit_cast<uint32_t>(row[i]) == std::bit_cast<uint32_t>(expected) ||
                  (dtype == DType::kFloat64 && std::isnan(row[i]) && std::isnan(expected)))
          << name(dtype) << " element " << i;
    }
  }
}

TEST_P(EveryTarget, StoringEqualsTheReferenceInBothRoundingModes) {
  const std::vector<float> row = awkward_floats(2, 40007);
  for (const DType dtype : convertible_dtypes()) {
    for (const auto mode : {Rounding::Mode::kNearestEven, Rounding::Mode::kStochastic}) {
      const Rounding rounding{mode, 7, 0xfffffffff000u};  // the low half wraps inside the row
      std::vector<std::byte> memory(row.size() * static_cast<size_t>(size_bytes(dtype)));
      store_f32(dtype, row.data(), memory.data(), row.size(), rounding);
      for (size_t i = 0; i < row.size(); ++i) {
        Rounding at = rounding;
        at.counter += i;
        ASSERT_EQ(element_bits(memory, dtype, i), from_float(dtype, row[i], at))
            << name(dtype) << " of " << row[i] << " bits " << std::hex << std::bit_cast<uint32_t>(row[i]);
      }
    }
  }
}

TEST(Convert, EveryFiniteCodeSurvivesTheRoundTrip) {
  for (const DType dtype : convertible_dtypes()) {
    if (!is_float(dtype) || size_bytes(dtype) > 2) continue;
    for (uint64_t code = 0; code < uint64_t{1} << (8 * size_bytes(dtype)); ++code) {
      const float value = to_float(dtype, code);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(to_float(dtype, from_float(dtype, value))));
      } else {
        EXPECT_EQ(from_float(dtype, value), code) << name(dtype);
      }
    }
  }
}

TEST(Convert, Float8E4M3EndsAt240AndE4M3FnAt448) {
  EXPECT_EQ(to_float(DType::kFloat8E4M3, 0x77), 240.0f);
  EXPECT_TRUE(std::isinf(to_float(DType::kFloat8E4M3, 0x78)));
  EXPECT_EQ(to_float(DType::kFloat8E4M3Fn, 0x7e), 448.0f);
  EXPECT_TRUE(std::isnan(to_float(DType::kFloat8E4M3Fn, 0x7f)));
  EXPECT_TRUE(std::isinf(to_float(DType::kFloat8E4M3, from_float(DType::kFloat8E4M3, 1000.0f))));
  EXPECT_TRUE(std::isnan(to_float(DType::kFloat8E4M3Fn, from_float(DType::kFloat8E4M3Fn, 1000.0f))));
}

TEST(Convert, FloatToIntegerRoundsToEvenAndSaturates) {
  EXPECT_EQ(from_float(DType::kInt32, 2.5f), 2u);
  EXPECT_EQ(from_float(DType::kInt32, 3.5f), 4u);
  EXPECT_EQ(from_float(DType::kInt8, -200.0f), 0x80u);
  EXPECT_EQ(from_float(DType::kUint8, 300.0f), 255u);
  EXPECT_EQ(from_float(DType::kUint8, -3.0f), 0u);
  EXPECT_EQ(from_float(DType::kInt32, 3e9f), 0x7fffffffu);
  EXPECT_EQ(from_float(DType::kInt32, std::nanf("")), 0u);
}

TEST(Convert, AnAdjustedBiasScalesAFormatByAPowerOfTwo) {
  const FloatFormat wide = kFormatFloat8E4M3.with_bias(11);
  for (uint32_t code = 0; code < 0x78; ++code) {
    EXPECT_EQ(decode(wide, code), decode(kFormatFloat8E4M3, code) * 0x1p-4f);
  }
}

TEST(Convert, StridedRowsEqualContiguousOnes) {
  const std::vector<float> row = awkward_floats(3, 1300);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat8E5M2, DType::kInt32, DType::kFloat32,
                            DType::kFloat64, DType::kUint16, DType::kUint8, DType::kInt8}) {
    const auto bytes = static_cast<size_t>(size_bytes(dtype));
    for (const int64_t stride : {3, -2, 2, 4}) {
      std::vector<std::byte> spread(row.size() * 4 * bytes);
      std::byte* base = stride > 0 ? spread.data() : spread.data() + (row.size() * 4 - 1) * bytes;
      const Rounding rounding{Rounding::Mode::kStochastic, 1, 100};
      store_f32_strided(dtype, row.data(), base, stride, row.size(), rounding);
      std::vector<float> back(row.size());
      load_f32_strided(dtype, base, stride, back.data(), back.size());
      std::vector<std::byte> packed(row.size() * bytes);
      store_f32(dtype, row.data(), packed.data(), row.size(), rounding);
      std::vector<float> expected(row.size());
      load_f32(dtype, packed.data(), expected.data(), expected.size());
      EXPECT_EQ(std::memcmp(back.data(), expected.data(), back.size() * sizeof(float)), 0) << name(dtype);
    }
  }
}

// Beside a loop over bytes; what lies between the elements of the destination stays.
TEST(Convert, StepsThatALoopKnowsCopyWhatOthersDo) {
  SplitMix64 random(7);
  std::vector<uint8_t> from(4096), to(4096);
  for (auto* row : {&from, &to})
    for (uint8_t& byte : *row) byte = static_cast<uint8_t>(random.next32());
  for (const std::string& target : simd_targets()) {
    force_simd_target(target);
    for (const int bytes : {1, 2, 4, 8})
      for (const int64_t from_step : {0, 1, 2, 3, 4})
        for (const int64_t to_step : {1, 2, 3, 4})
          for (const size_t n : {1, 15, 16, 17, 31, 32, 33, 64, 65, 100, 127}) {
            std::vector<uint8_t> made = to, wanted = to;
            const int64_t first = bytes;  // not where a vector begins
            copy_bits(bytes, from.data() + first, from_step, made.data() + first, to_step, n);
            for (size_t i = 0; i < n * static_cast<size_t>(bytes); ++i) {
              const auto element = static_cast<int64_t>(i) / bytes, byte = static_cast<int64_t>(i) % bytes;
              wanted[static_cast<size_t>(first + element * to_step * bytes + byte)] =
                  from[static_cast<size_t>(first + element * from_step * bytes + byte)];
            }
            ASSERT_EQ(made, wanted) << target << ": " << n << " elements of " << bytes << " bytes, "
                                    << from_step << " and " << to_step << " apart";
          }
  }
  force_simd_target("");
}

TEST(Convert, IntegerRowsKeepAllBits) {
  const int32_t values[] = {-1, 0x7fffffff, static_cast<int32_t>(0x80000000), 16777217};
  int64_t row[4];
  load_i64(DType::kInt32, values, 1, row, 4);
  EXPECT_EQ(row[0], -1);
  EXPECT_EQ(row[3], 16777217);
  load_i64(DType::kUint32, values, 1, row, 4);
  EXPECT_EQ(row[0], 0xffffffff);
  int32_t back[4];
  store_i64(DType::kUint32, row, back, 1, 4);
  EXPECT_EQ(std::memcmp(values, back, sizeof(values)), 0);
}

TEST(Convert, StochasticRoundingIsUnbiased) {
  // A quarter of the way between two bfloat16 neighbours: up in about a quarter of 100,000 draws.
  const size_t n = 100000;
  const std::vector<float> row(n, 1.0f + 0x1p-9f);
  std::vector<uint16_t> out(n);
  store_f32(DType::kBFloat16, row.data(), out.data(), n, {Rounding::Mode::kStochastic, 3, 0});
  size_t up = 0;
  for (const uint16_t code : out) up += code == 0x3f81;
  EXPECT_NEAR(static_cast<double>(up) / n, 0.25, 0.006);  // 4 standard deviations
}

TEST(Convert, PackedTypesAreRefused) {
  float value = 0;
  EXPECT_THROW(load_f32(DType::kFloat8E5M2x4, &value, &value, 1), Fault);
}

TEST(Convert, EveryScalarTypeHasACastRule) {
  for (const DType dtype : convertible_dtypes()) {
    int rules = 0;
    for (const CastRule& rule : cast_rules()) rules += rule.dtype == dtype;
    EXPECT_EQ(rules, 1) << name(dtype);
  }
}

}  // namespace
}  // namespace opentrn::numerics
