#include "base/large_pages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>

#include "base/sanitized_for_test.h"

namespace opentrn {
namespace {

TEST(LargePages, VectorsOfAnySizeHoldWhatIsWritten) {
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{1000}, (size_t{4} << 20) / 8, (size_t{4} << 20) / 8 + 1}) {
    LargeVector<uint64_t> values(size);
    std::iota(values.begin(), values.end(), 7u);
    LargeVector<uint64_t> grown = values;
    for (uint64_t i = 0; i < 10; ++i) grown.push_back(i);
    ASSERT_EQ(grown.size(), size + 10);
    for (size_t i = 0; i < size; ++i) ASSERT_EQ(grown[i], i + 7);
    for (size_t i = 0; i < 10; ++i) ASSERT_EQ(grown[size + i], i);
  }
}

TEST(LargePages, ElementsLieAsTheirTypeAsks) {
  struct alignas(64) Line {
    char bytes[64];
  };
  std::vector<LargeVector<Line>> all;
  for (const size_t count : {1, 3, 5, 100, 100'000})
    EXPECT_EQ(reinterpret_cast<uintptr_t>(all.emplace_back(count).data()) % alignof(Line), 0u) << count;
}

TEST(LargePages, TablesOfOneSizeTakeTurns) {
  constexpr size_t kCount = (size_t{6} << 20) / sizeof(uint64_t);
  for (int round = 0; round < 2; ++round) {  // of 120 MB each, more than is kept
    std::vector<LargeVector<uint64_t>> tables;
    for (uint64_t t = 0; t < 20; ++t) tables.emplace_back(kCount, 100 * t + static_cast<uint64_t>(round));
    for (uint64_t t = 0; t < 20; ++t)
      for (size_t i = 0; i < kCount; i += 4096 / sizeof(uint64_t))
        ASSERT_EQ(tables[t][i], 100 * t + static_cast<uint64_t>(round));
  }
}

TEST(LargePages, WhatCannotBeHadIsRefused) {
  if (kIsSanitized) GTEST_SKIP() << "the heap is the sanitizer's";
  LargePages<char> pages;
  EXPECT_THROW(pages.allocate(SIZE_MAX / 2), std::bad_alloc);
}

}  // namespace
}  // namespace opentrn
