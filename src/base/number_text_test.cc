#include "base/number_text.h"

#include <gtest/gtest.h>

namespace opentrn {
namespace {

TEST(NumberText, DigitsAreGroupedByThree) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1000), "-1,000");
  EXPECT_EQ(grouped(-999), "-999");
  EXPECT_EQ(grouped(1234567), "1,234,567");
}

TEST(NumberText, SizesAndTimesHaveTheUnitThatSuitsThem) {
  EXPECT_EQ(size_text(512), "512 B");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text(24.0 * (1 << 20)), "24 MiB");
  EXPECT_EQ(size_text(5000.0 * (1 << 30)), "5000 GiB");
  EXPECT_EQ(time_text(12.345), "12.35 us");
  EXPECT_EQ(time_text(1500), "1.50 ms");
  EXPECT_EQ(time_text(2e6), "2.00 s");
}

}  // namespace
}  // namespace opentrn
