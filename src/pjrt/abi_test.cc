// Sizes and offsets of the PJRT C ABI at 0.104, as its header states them.
#include "pjrt/abi.h"

#include <gtest/gtest.h>

extern "C" const opentrn::pjrt::abi::Api* GetPjrtApi();

namespace opentrn::pjrt::abi {
namespace {

// offsetof is for records without bases.
template <class Record, class Member>
size_t offset_of(Member Record::*member) {
  static const Record record{};
  return static_cast<size_t>(reinterpret_cast<const char*>(&(record.*member)) -
                             reinterpret_cast<const char*>(&record));
}

TEST(Abi, SizesOfRecords) {
  EXPECT_EQ(sizeof(Version), 24u);
  EXPECT_EQ(sizeof(NamedValue), 56u);
  EXPECT_EQ(sizeof(Program), 48u);
  EXPECT_EQ(sizeof(ClientCompile), 56u);
  EXPECT_EQ(sizeof(ClientBufferFromHost), 120u);
  EXPECT_EQ(sizeof(Execute), 80u);
  EXPECT_EQ(sizeof(ExecuteOptions), 112u);
  EXPECT_EQ(sizeof(BufferToHost), 56u);
  EXPECT_EQ(sizeof(ExecutableDimensions), 48u);
  EXPECT_EQ(sizeof(ExecutableMemoryKinds), 48u);
  EXPECT_EQ(sizeof(ExecutableMemoryStats), 144u);
  EXPECT_EQ(sizeof(EventOnReady), 40u);
  EXPECT_EQ(sizeof(BufferToMemory), 40u);
  EXPECT_EQ(sizeof(Layout), 80u);
  EXPECT_EQ(sizeof(ProfilerApi), 80u);
  EXPECT_EQ(sizeof(ProfilerExtension), 40u);
  EXPECT_EQ(sizeof(ProfilerCreate), 32u);
  EXPECT_EQ(sizeof(ProfilerCollect), 32u);
  EXPECT_EQ(sizeof(LayoutsExtension), 80u);
  EXPECT_EQ(sizeof(LayoutSerialized), 56u);
  EXPECT_EQ(sizeof(DefaultLayout), 56u);
  EXPECT_EQ(sizeof(ExecutableLayouts), 40u);
  EXPECT_EQ(offset_of(&DeviceMemoryStats::peak_pool_bytes) + offset_of(&OptionalInt::set) + 1, 185u);
}

TEST(Abi, TheTableHasEveryFunction) {
  const Api* api = GetPjrtApi();
  EXPECT_EQ(api->struct_size, 1120u);
  EXPECT_EQ(offset_of(&Api::functions), 40u);
  EXPECT_EQ(api->version.major, 0);
  EXPECT_EQ(api->version.minor, 104);
  for (const Function function : api->functions) EXPECT_NE(function, nullptr);
}

}  // namespace
}  // namespace opentrn::pjrt::abi
