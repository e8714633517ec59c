#include "decoder/narrow.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/random.h"
#include "graph/element_value.h"
#include "numerics/mx.h"

namespace opentrn::decoder {
namespace {

using graph::ElementType;

double number_of(ElementType element, const std::byte* at) {
  return element == ElementType::kI8 ? static_cast<double>(graph::load_integer(element, at))
                                     : graph::load_real(element, at);
}

double nearest(ElementType element, double value) {
  std::byte bits{};
  if (element == ElementType::kI8)
    graph::store_integer(element, std::lrint(value), &bits);
  else
    graph::store_real(element, value, &bits);
  return number_of(element, &bits);
}

// Each element by itself: the nearest number of the format to w / scale, and no other scale. A ratio that
// lies between two numbers may go to either, as it is rounded to fp32 first.
TEST(Narrow, ElementsAreTheNearestOnes) {
  SplitMix64 random(4);
  const struct {
    const char* text;
    double largest;
  } formats[] = {{"int8", 127}, {"fp8_e4m3", 240}, {"fp8_e5m2", 57344}, {"fp8_e4m3fn", 448}};
  for (const auto& [text, largest] : formats) {
    const NarrowWeights how = *narrow_weights(text, opentrn::Generation::kV4);
    const WeightType type = how.type;
    constexpr size_t kColumns = 7, kGroups = 3, kRows = 40;
    const NarrowTypes kept = narrow_types(type, kGroups, kRows, kColumns);
    const ElementType element = kept.numbers.element();
    ASSERT_EQ(kept.numbers.dims_vector(), (std::vector<int64_t>{kGroups * kRows, kColumns}));
    ASSERT_EQ(kept.scales, graph::Type::tensor(ElementType::kF32, {kGroups, kColumns}));
    std::vector<float> values, scales(kColumns * kGroups);
    for (size_t i = 0; i < kRows * kGroups * kColumns; ++i)
      values.push_back(i % kColumns == 4 ? 0.0F : static_cast<float>(random.uniform() - 0.5));
    const std::vector<float> before = values;
    std::vector<std::byte> narrow(values.size());
    quantise(how, values, std::vector<int64_t>{kColumns}, kGroups, narrow.data(),
             reinterpret_cast<std::byte*>(scales.data()), "w");
    for (size_t column = 0; column < kColumns * kGroups; ++column) {
      const size_t first = column / kColumns * kRows * kColumns + column % kColumns;
      double most = 0;
      for (size_t k = 0; k < kRows; ++k)
        most = std::max<double>(most, std::fabs(before[first + k * kColumns]));
      const double scale = scales[column];
      EXPECT_NEAR(scale, most == 0 ? 1 : most / largest, 1e-7 * scale) << text;
      for (size_t k = 0; k < kRows; ++k) {
        const size_t i = first + k * kColumns;
        const double ratio = before[i] / scale, found = number_of(element, &narrow[i]);
        EXPECT_TRUE(found == nearest(element, ratio * (1 - 1e-6)) ||
                    found == nearest(element, ratio * (1 + 1e-6)))
            << text << ": " << ratio << " became " << found;
      }
    }
  }
}

// Blocks of a column, in groups whose last rows are zeros up to whole tiles.
TEST(Narrow, MicroscaledGroupsAreTilesOfTheirOwn) {
  SplitMix64 random(6);
  constexpr int64_t kColumns = 5, kGroups = 2, kRows = 160, kHeld = 256;
  for (const char* text : {"mxfp8", "mxfp4"}) {
    const NarrowWeights how = *narrow_weights(text, opentrn::Generation::kV4);
    const WeightType type = how.type;
    const bool is_fp4 = type == WeightType::kMxFp4;
    const NarrowTypes kept = narrow_types(type, kGroups, kRows, kColumns);
    ASSERT_EQ(kept.numbers, graph::Type::tensor(is_fp4 ? ElementType::kUI16 : ElementType::kUI32,
                                                {kGroups * kHeld / 4, kColumns}));
    ASSERT_EQ(kept.scales, graph::Type::tensor(ElementType::kUI8, {kGroups * kHeld / 32, kColumns}));
    std::vector<float> values;
    for (int64_t i = 0; i < kGroups * kRows * kColumns; ++i)
      values.push_back(static_cast<float>(random.uniform() - 0.5));
    const std::vector<float> before = values;
    std::vector<std::byte> numbers(static_cast<size_t>(kept.numbers.byte_count())),
        scales(static_cast<size_t>(kept.scales.byte_count()));
    quantise(how, values, std::vector<int64_t>{kColumns}, kGroups, numbers.data(), scales.data(), "w");
    const DType x4 = is_fp4 ? DType::kFloat4E2M1FnX4 : DType::kFloat8E4M3FnX4;
    const double unit = is_fp4 ? 0.25 : 0.0625;  // of the largest number between two of them, of a block
    for (int64_t row = 0; row < kGroups * kHeld; ++row)
      for (int64_t n = 0; n < kColumns; ++n) {
        float four[4];
        const size_t pack = static_cast<size_t>(row / 4 * kColumns + n);
        numerics::unpack_x4(x4, numbers.data() + pack * static_cast<size_t>(size_bytes(x4)), four, 1);
        const int code = static_cast<int>(scales[static_cast<size_t>(row / 32 * kColumns + n)]);
        const double found = std::ldexp(four[row % 4], code - 127);
        const int64_t of_group = row % kHeld, group = row / kHeld;
        const double given =
            of_group < kRows ? before[static_cast<size_t>((group * kRows + of_group) * kColumns + n)] : 0;
        EXPECT_NEAR(found, given, of_group < kRows ? 0.5 * unit : 0) << text << " " << row << " " << n;
      }
  }
}

// Columns of a matrix of the checkpoint have its scale.
TEST(Narrow, OneScaleForEachTensor) {
  const NarrowWeights how = *narrow_weights("int8,per_tensor_symmetric", opentrn::Generation::kV2);
  std::vector<float> values{127,  4, -8, 1,
                            -254, 3, 2,  1270};  // [2, 4]: two matrices of three and one columns
  std::vector<float> scales(4);
  std::vector<std::byte> numbers(values.size());
  quantise(how, values, std::vector<int64_t>{3, 1}, 1, numbers.data(),
           reinterpret_cast<std::byte*>(scales.data()), "w");
  EXPECT_EQ(scales, (std::vector<float>{2, 2, 2, 10}));
  std::vector<int> found;
  for (const std::byte number : numbers) found.push_back(static_cast<int8_t>(number));
  EXPECT_EQ(found, (std::vector<int>{64, 2, -4, 0, -127, 2, 1, 127}));
}

Config two_layers() {
  Config config;
  config.architecture = "llama";
  config.layers = 2;
  return config;
}

TEST(Narrow, ModulesThatStay) {
  using Words = std::vector<std::string_view>;
  Config config = two_layers();
  config.narrow = narrow_weights("int8,except=self_attn,except=model.layers.1.mlp.down_proj,except=lm_head",
                                 opentrn::Generation::kV2);
  expect_kept_modules(config);
  EXPECT_EQ(narrow_matrices(config, 0), (Words{"gate_up", "down"}));
  EXPECT_EQ(narrow_matrices(config, 1), (Words{"gate_up"}));
  config.narrow->kept = {"layers.1", "q_proj"};
  EXPECT_THROW(is_narrow(config, "layers.0.qkv"), Fault);  // k and v are read with q
  EXPECT_EQ(narrow_matrices(config, 1), Words());
  config.narrow->kept = {"attn"};  // no word of a name
  EXPECT_THROW(expect_kept_modules(config), Fault);
  config.experts = 8;
  config.narrow->kept = {"block_sparse_moe"};
  expect_kept_modules(config);
  EXPECT_EQ(narrow_matrices(config, 0), (Words{"qkv", "output"}));
}

TEST(Narrow, WhatIsNone) {
  EXPECT_EQ(narrow_weights("none", opentrn::Generation::kV2), std::nullopt);
  for (const char* text : {"int4", "fp8_e4m3fn", "mxfp4", "", "int8,", "int8,except=", "int8,per_row"})
    EXPECT_THROW(narrow_weights(text, opentrn::Generation::kV3), Fault) << text;
  EXPECT_THROW(narrow_weights("mxfp4,per_tensor_symmetric", opentrn::Generation::kV4), Fault);
  for (const float bad : {std::nanf(""), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values{1, bad}, scales(1);
    std::vector<std::byte> narrow(2);
    EXPECT_THROW(quantise({}, values, std::vector<int64_t>{1}, 1, narrow.data(),
                          reinterpret_cast<std::byte*>(scales.data()), "w"),
                 Fault);
  }
}

}  // namespace
}  // namespace opentrn::decoder
