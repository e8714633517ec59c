#include "numerics/mx.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/random.h"
#include "numerics/convert.h"

namespace opentrn::numerics {
namespace {

constexpr DType kPackedTypes[] = {DType::kFloat8E5M2x4, DType::kFloat8E4M3FnX4, DType::kFloat4E2M1FnX4};

TEST(Mx, NeuronScaleIsTwiceTheOcpScale) {
  // amax 448 = 1.75 * 2^8: OCP 8 - 8 = 0, Neuron 8 - 7 = 1.
  EXPECT_EQ(mx_scale_code(DType::kFloat8E4M3FnX4, 448, MxScaleRule::kOcp), 127);
  EXPECT_EQ(mx_scale_code(DType::kFloat8E4M3FnX4, 448, MxScaleRule::kNeuron), 128);
  EXPECT_EQ(mx_scale_code(DType::kFloat8E5M2x4, 1.0f), 127 - 14);
  EXPECT_EQ(mx_scale_code(DType::kFloat4E2M1FnX4, 1.0f, MxScaleRule::kOcp), 125);
}

TEST(Mx, ScaleOfZeroTinyAndInfiniteGroups) {
  EXPECT_EQ(mx_scale_code(DType::kFloat8E4M3FnX4, 0), 0);  // 2^-127
  EXPECT_EQ(mx_scale_code(DType::kFloat8E5M2x4, 0x1p-133f), 0);
  EXPECT_EQ(mx_scale_code(DType::kFloat8E5M2x4, INFINITY), 0xff);
  EXPECT_EQ(mx_scale_code(DType::kFloat8E5M2x4, NAN), 0xff);
}

// A group of 8 x 4 values, each quantised from the definition: divide, round, saturate.
TEST(Mx, QuantizeEqualsTheDefinition) {
  SplitMix64 rng(5);
  constexpr size_t kGroups = 300;  // more than one internal block
  std::vector<float> values(kMxGroupPartitions * kGroups * kMxPack);
  for (size_t i = 0; i < values.size(); ++i) {
    const double exponent = static_cast<double>((i / kMxPack) % kGroups) - 150.0;
    values[i] = to_float(
        DType::kBFloat16,
        from_float(DType::kBFloat16,
                   static_cast<float>(std::ldexp(rng.uniform() * 2 - 1,
                                                 static_cast<int>(std::clamp(exponent, -130.0, 127.0))))));
  }
  for (const DType x4 : kPackedTypes) {
    for (const auto rule : {MxScaleRule::kNeuron, MxScaleRule::kOcp}) {
      const auto bytes = static_cast<size_t>(size_bytes(x4));
      std::vector<uint8_t> memory(kMxGroupPartitions * kGroups * bytes), scales(kGroups);
      std::array<const float*, kMxGroupPartitions> rows;
      std::array<void*, kMxGroupPartitions> out;
      for (size_t p = 0; p < kMxGroupPartitions; ++p) {
        rows[p] = values.data() + p * kGroups * kMxPack;
        out[p] = memory.data() + p * kGroups * bytes;
      }
      quantize_mx(x4, rows.data(), kGroups, out.data(), scales.data(), rule);
      const FloatFormat format = mx_element_format(x4);
      for (size_t g = 0; g < kGroups; ++g) {
        float amax = 0;
        for (const float* row : rows) {
          for (size_t j = 0; j < kMxPack; ++j) amax = std::max(amax, std::fabs(row[g * kMxPack + j]));
        }
        ASSERT_EQ(scales[g], mx_scale_code(x4, amax, rule));
        for (size_t p = 0; p < kMxGroupPartitions; ++p) {
          for (size_t j = 0; j < kMxPack; ++j) {
            const double scaled = std::ldexp(static_cast<double>(rows[p][g * kMxPack + j]), 127 - scales[g]);
            const uint32_t code = encode(format, static_cast<float>(scaled), Overflow::kSaturate);
            uint32_t packed = 0;
            std::memcpy(&packed, static_cast<uint8_t*>(out[p]) + g * bytes, bytes);
            ASSERT_EQ(packed >> (static_cast<size_t>(format.bits()) * j) & (2 * format.sign_bit() - 1), code)
                << name(x4) << " group " << g;
          }
        }
      }
    }
  }
}

TEST(Mx, EveryPackedCodeSurvivesUnpackAndPack) {
  for (const DType x4 : kPackedTypes) {
    const FloatFormat format = mx_element_format(x4);
    for (uint32_t code = 0; code < 2 * format.sign_bit(); ++code) {
      const float value = decode(format, code);
      if (!std::isfinite(value)) continue;
      uint32_t packed = code << (2 * format.bits());  // third of the four
      float row[4];
      unpack_x4(x4, &packed, row, 1);
      EXPECT_EQ(row[0], 0.0f);
      EXPECT_EQ(std::bit_cast<uint32_t>(row[2]), std::bit_cast<uint32_t>(value)) << name(x4) << " " << code;
      uint32_t back = 0;
      pack_x4(x4, row, &back, 1);
      EXPECT_EQ(back, packed);
    }
  }
}

// One in 65,536 of all fp32 numbers, and those around the middle between two of the format.
TEST(Mx, PacksAsTheFormatEncodes) {
  std::vector<float> values;
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 1U << 16)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (int eighths = -64; eighths <= 64; ++eighths) {
    const float middle = static_cast<float>(eighths) / 8;
    for (const float value : {std::nextafter(middle, -9.0F), middle, std::nextafter(middle, 9.0F)})
      values.push_back(value);
  }
  for (const float value : values) {
    const std::array<float, kMxPack> four{value, value, value, value};
    uint16_t packed = 0;
    pack_x4(DType::kFloat4E2M1FnX4, four.data(), &packed, 1);
    const uint32_t code = encode(kFormatFloat4E2M1Fn, value, Overflow::kSaturate);
    ASSERT_EQ(packed, code * 0x1111U) << value;
  }
}

TEST(Mx, DequantizeMultipliesByTheScale) {
  const uint32_t ones = 0x38383838;  // four 1.0 of e4m3fn
  const uint8_t scales[] = {127 + 3, 0, 0xff};
  const uint32_t packed[] = {ones, ones, ones};
  float row[12];
  dequantize_mx(DType::kFloat8E4M3FnX4, packed, scales, row, 3);
  EXPECT_EQ(row[0], 8.0f);
  EXPECT_EQ(row[7], 0x1p-127f);
  EXPECT_TRUE(std::isnan(row[8]));
}

TEST(Mx, UnpackedTypesAreRefused) {
  float row[4];
  EXPECT_THROW(unpack_x4(DType::kFloat8E5M2, row, row, 1), Fault);
}

}  // namespace
}  // namespace opentrn::numerics
