#include "base/host_memory.h"

#include <gtest/gtest.h>

#include "base/fault.h"

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

}  // namespace
}  // namespace opentrn
