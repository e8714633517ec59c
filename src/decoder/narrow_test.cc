#include "decoder/narrow.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/random.h"
#include "graph/element_value.h"

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
    const ElementType element = *narrow_element(text, opentrn::Generation::kV4);
    constexpr size_t kColumns = 7, kGroups = 3, kRows = 40;
    std::vector<float> values, scales(kColumns * kGroups);
    for (size_t i = 0; i < kRows * kGroups * kColumns; ++i)
      values.push_back(i % kColumns == 4 ? 0.0F : static_cast<float>(random.uniform() - 0.5));
    const std::vector<float> before = values;
    std::vector<std::byte> narrow(values.size());
    quantise(element, values, kColumns, kGroups, narrow.data(), scales, "w");
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

TEST(Narrow, WhatIsNone) {
  EXPECT_EQ(narrow_element("none", opentrn::Generation::kV2), std::nullopt);
  EXPECT_THROW(narrow_element("int4", opentrn::Generation::kV4), Fault);
  EXPECT_THROW(narrow_element("fp8_e4m3fn", opentrn::Generation::kV3), Fault);
  for (const float bad : {std::nanf(""), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values{1, bad}, scales(1);
    std::vector<std::byte> narrow(2);
    EXPECT_THROW(quantise(ElementType::kI8, values, 1, 1, narrow.data(), scales, "w"), Fault);
  }
}

}  // namespace
}  // namespace opentrn::decoder
