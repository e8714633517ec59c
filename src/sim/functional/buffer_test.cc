#include "sim/functional/buffer.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace opentrn::sim::buffer_tests {
namespace {

TEST(ByteMask, AgreesWithAVectorOfBools) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SplitMix64 random(seed);
    const int64_t bytes = 1 + random.below(300);
    ByteMask mask(bytes);
    std::vector<bool> slow(static_cast<size_t>(bytes));
    for (int step = 0; step < 60; ++step) {
      const int64_t begin = random.below(static_cast<uint32_t>(bytes));
      const int64_t length = 1 + random.below(static_cast<uint32_t>(bytes - begin));
      const bool set = random.below(3) != 0;
      if (set)
        mask.set(begin, length);
      else
        mask.clear(begin, length);
      std::fill(slow.begin() + begin, slow.begin() + begin + length, set);
      EXPECT_EQ(mask.count(), std::count(slow.begin(), slow.end(), true)) << "seed " << seed;
      const int64_t at = random.below(static_cast<uint32_t>(bytes));
      const int64_t n = 1 + random.below(static_cast<uint32_t>(bytes - at));
      const auto ones = std::count(slow.begin() + at, slow.begin() + at + n, true);
      EXPECT_EQ(mask.test_all(at, n), ones == n) << "seed " << seed;
      EXPECT_EQ(mask.test_none(at, n), ones == 0) << "seed " << seed;
    }
  }
}

TEST(ByteMask, RangesApartAreAsOneByOne) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SplitMix64 random(seed);
    const int64_t bytes = 1 + random.below(900);
    ByteMask mask(bytes), slow(bytes);
    for (int step = 0; step < 12; ++step) {
      const bool words = random.below(3) == 0;  // of the mask: the same bits in each
      const int64_t length = 1 + random.below(words ? 64 : 8);
      const int64_t stride = words ? 64 * (1 + random.below(3)) : length + random.below(80);
      const int64_t begin = random.below(static_cast<uint32_t>(bytes));
      const int64_t most = (bytes - begin - length) / stride + 1;
      if (bytes - begin < length) continue;
      const int64_t count = 1 + random.below(static_cast<uint32_t>(most));
      bool all = true;
      for (int64_t i = 0; i < count; ++i) all &= slow.test_all(begin + i * stride, length);
      EXPECT_EQ(mask.test_all_of_each(begin, length, stride, count), all) << "seed " << seed;
      mask.set_each(begin, length, stride, count);
      for (int64_t i = 0; i < count; ++i) slow.set(begin + i * stride, length);
      EXPECT_TRUE(mask.test_all_of_each(begin, length, stride, count)) << "seed " << seed;
      EXPECT_EQ(mask.count(), slow.count()) << "seed " << seed;
      for (int64_t at = 0; at < bytes; ++at) ASSERT_EQ(mask.test_all(at, 1), slow.test_all(at, 1)) << seed;
    }
  }
}

TEST(Buffer, WrapsWithoutCopying) {
  std::vector<float> values(4, 1.0f);
  const auto buffer = Buffer::wrap(values.data(), 16);
  EXPECT_EQ(static_cast<void*>(buffer->data()), static_cast<void*>(values.data()));
  EXPECT_TRUE(buffer->initialised().all());
  EXPECT_TRUE(buffer->writable());
  EXPECT_FALSE(Buffer::wrap_read_only(values.data(), 16)->writable());
}

TEST(BufferPool, ReusesAFreedBlockAsUninitialisedMemory) {
  BufferPool pool;
  auto first = pool.allocate(1000);
  std::byte* const data = first->data();
  first->mark_all_initialised();
  pool.recycle(std::move(first));
  const auto second = pool.allocate(900);
  EXPECT_EQ(second->data(), data);
  EXPECT_TRUE(second->initialised().none());
  EXPECT_EQ(pool.bytes_in_use(), 900);
  EXPECT_EQ(pool.bytes_peak(), 1000);
}

TEST(BufferPool, KeepsALargeBlockRatherThanManySmallOnes) {
  BufferPool pool;
  auto large = pool.allocate(int64_t{4} << 20);
  std::byte* const data = large->data();
  std::vector<std::shared_ptr<Buffer>> small;
  for (int i = 0; i < 100; ++i) small.push_back(pool.allocate(int64_t{256} << 10));
  for (auto& buffer : small) pool.recycle(std::move(buffer));
  pool.recycle(std::move(large));
  EXPECT_EQ(pool.allocate(int64_t{4} << 20)->data(), data);
}

TEST(BufferPool, LeavesABufferAloneThatSomebodyStillHolds) {
  BufferPool pool;
  auto held = pool.allocate(64);
  auto copy = held;
  pool.recycle(std::move(copy));
  EXPECT_TRUE(held->owns_memory());
  EXPECT_NE(pool.allocate(64)->data(), held->data());
}

TEST(Buffer, PlacedRowsMapBackToLogicalBytes) {
  auto memory = Buffer::allocate(4 * 100);
  const auto buffer = Buffer::placed(memory->data() + 20, 4, 8, 100, memory);
  EXPECT_EQ(buffer->bytes(), 32);
  EXPECT_EQ(buffer->logical(buffer->data() + 2 * 100 + 3), 2 * 8 + 3);
}

}  // namespace
}  // namespace opentrn::sim::buffer_tests
