#include "sim/functional/poison.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

namespace opentrn::sim::poison_tests {
namespace {

struct Memory {
  std::vector<std::byte> bytes;
  View view;

  Memory(DType dtype, int64_t elements) : bytes(static_cast<size_t>(elements * size_bytes(dtype))) {
    view.base = bytes.data();
    view.dtype = dtype;
    view.element_bytes = static_cast<uint8_t>(size_bytes(dtype));
    view.elements = elements;
    poison(view);
  }
  // As (first, count) in one line.
  std::vector<int64_t> unwritten() const {
    std::vector<int64_t> numbers;
    for (const ElementRun& run : still_poisoned(view)) numbers.insert(numbers.end(), {run.first, run.count});
    return numbers;
  }
  template <typename T>
  void write(int64_t element, T value) {
    std::memcpy(bytes.data() + element * static_cast<int64_t>(sizeof value), &value, sizeof value);
  }
};

using Runs = std::vector<int64_t>;

constexpr DType kAll[] = {DType::kUint8,   DType::kInt16,    DType::kInt32,       DType::kFloat8E4M3,
                          DType::kFloat16, DType::kBFloat16, DType::kTFloat32,    DType::kFloat32,
                          DType::kInt64,   DType::kFloat64,  DType::kFloat8E5M2x4};

TEST(Poison, AnUntouchedOutputIsUnwrittenAsAWhole) {
  for (DType dtype : kAll) EXPECT_EQ(Memory(dtype, 5000).unwritten(), (Runs{0, 5000})) << name(dtype);
}

TEST(Poison, AWhollyWrittenOutputIsWritten) {
  for (DType dtype : kAll)
    for (const uint8_t value : {0x00, 0xFF, 0x7F, 0x01}) {
      Memory memory(dtype, 5000);
      std::memset(memory.bytes.data(), value, memory.bytes.size());
      EXPECT_TRUE(memory.unwritten().empty()) << name(dtype) << " " << int{value};
    }
}

TEST(Poison, OneFloatThatIsLeftOutShows) {
  Memory memory(DType::kFloat32, 3000);
  for (int64_t i = 0; i < 3000; ++i)
    if (i != 17 && i != 2999) memory.write(i, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(memory.unwritten(), (Runs{17, 1, 2999, 1}));
}

// A written neighbour of a gap may hold what it held before, and must not count as unwritten.
TEST(Poison, GapsOfSmallElementsAreNeverTakenForLarger) {
  for (int seed = 0; seed < 256; ++seed) {
    Memory memory(DType::kUint8, 3000);
    for (int64_t i = 0; i < 3000; ++i)
      if ((i < 100 || i >= 200) && i != 1000) memory.write(i, static_cast<uint8_t>(i + seed));
    const Runs found = memory.unwritten();
    ASSERT_EQ(found.size(), 2u);
    EXPECT_GE(found[0], 100);
    EXPECT_LE(found[0], 104);
    EXPECT_LE(found[0] + found[1], 200);
    EXPECT_GE(found[0] + found[1], 196);
  }
}

TEST(Poison, GapsOfLargerIntegersAreExact) {
  Memory memory(DType::kInt32, 3000);
  for (int64_t i = 0; i < 3000; ++i)
    if (i < 100 || (i >= 200 && i != 1000 && i < 2990)) memory.write(i, static_cast<int32_t>(i));
  EXPECT_EQ(memory.unwritten(), (Runs{100, 100, 2990, 10}));
}

TEST(Poison, ASmallOutputIsJudgedAsAWhole) {
  EXPECT_EQ(Memory(DType::kInt32, 1).unwritten(), (Runs{0, 1}));
  EXPECT_TRUE(Memory(DType::kUint8, 3).unwritten().empty());
  Memory written(DType::kInt32, 1);
  written.write(0, int32_t{-1});
  EXPECT_TRUE(written.unwritten().empty());
}

// What reads before it writes sees a NaN, and what it makes of that is written.
TEST(Poison, IsNanToFloats) {
  Memory memory(DType::kFloat32, 64);
  for (int64_t i = 0; i < 64; ++i) {
    float value;
    std::memcpy(&value, memory.bytes.data() + 4 * i, sizeof value);
    EXPECT_TRUE(std::isnan(value));
    memory.write(i, value + 1.0f);
  }
  EXPECT_TRUE(memory.unwritten().empty());
}

}  // namespace
}  // namespace opentrn::sim::poison_tests
