#include "base/host_memory.h"

#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/fault.h"
#include "base/sanitized_for_test.h"

namespace opentrn {
namespace {

TEST(HostMemory, SomeIsLeftAndNotEndlessMuch) {
  EXPECT_GT(host_memory_available(), int64_t{1} << 20);
  EXPECT_NO_THROW(expect_host_memory(1 << 20, "a little"));
}

TEST(HostMemory, WhatTheHostHasNotIsRefused) {
  if (host_memory_available() == INT64_MAX) GTEST_SKIP() << "the system does not say";
  try {
    expect_host_memory(int64_t{1} << 60, "a tensor");
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kCapacity);
    EXPECT_EQ(fault.message().find("a tensor takes 1073741824.0 GiB of this host's memory"), 0u)
        << fault.what();
    EXPECT_FALSE(fault.hint().empty());
  }
}

TEST(HostMemory, TheHeapGrowsInHugePages) {
  if (kIsSanitized) GTEST_SKIP() << "the heap is the sanitizer's";
  const auto faults = [] {
    rusage now{};
    getrusage(RUSAGE_SELF, &now);
    return now.ru_minflt;
  };
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  const std::string choice((std::istreambuf_iterator<char>(file)), {});
  if (choice.find("[always]") == std::string::npos && choice.find("[madvise]") == std::string::npos)
    GTEST_SKIP() << "the system has no such pages";
  ASSERT_TRUE(grow_heap_in_huge_pages(size_t{64} << 20));
  constexpr size_t kBytes = size_t{16} << 20;
  const auto before = faults();
  const std::unique_ptr<char[]> block(new char[kBytes]);
  for (size_t i = 0; i < kBytes; i += 4096) static_cast<volatile char*>(block.get())[i] = 1;
  EXPECT_LT(faults() - before, 1000);  // of 4,096 pages
}

}  // namespace
}  // namespace opentrn
