#include "sim/functional/transfer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace opentrn::sim::transfer_tests {
namespace {

// Byte offset of the i-th element of a walk, by division: slow and obvious.
int64_t offset_of(const FlatView& view, int64_t i) {
  int64_t offset = 0;
  for (int d = view.rank - 1; d >= 0; --d) {
    offset += i % view.dims[d].count * view.dims[d].stride;
    i /= view.dims[d].count;
  }
  return offset;
}

// `factors` as dimensions, some of them merged, so that two walks of one length end their runs in different
// places.
std::vector<int64_t> merged(const std::vector<int64_t>& factors, std::mt19937& random) {
  std::vector<int64_t> counts;
  for (const int64_t factor : factors) {
    if (counts.empty() || random() % 2 == 0)
      counts.push_back(factor);
    else
      counts.back() *= factor;
  }
  return counts;
}

// The strides of a dense array with its dimensions in random order and a gap behind each row.
FlatView spread(const std::vector<int64_t>& counts, int element_bytes, std::mt19937& random) {
  FlatView view{.base = nullptr, .element_bytes = element_bytes};
  view.rank = static_cast<int>(counts.size());
  std::vector<int> order(counts.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int>(d);
  if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  int64_t stride = element_bytes * static_cast<int64_t>(1 + random() % 3 / 2);
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    view.dims[*d] = {counts[*d], stride};
    stride *= counts[*d];
    stride += element_bytes * static_cast<int64_t>(random() % 2);
  }
  return view;
}

int64_t extent(const FlatView& view) {
  int64_t bytes = view.element_bytes;
  for (int d = 0; d < view.rank; ++d) bytes += (view.dims[d].count - 1) * view.dims[d].stride;
  return bytes;
}

TEST(Transfer, MovesWhatAWalkByDivisionMoves) {
  std::mt19937 random(7);
  const std::array<DType, 4> types = {DType::kInt8, DType::kBFloat16, DType::kFloat32, DType::kUint32};
  for (int trial = 0; trial < 2000; ++trial) {
    const DType dtype = types[random() % types.size()];
    const int bytes = size_bytes(dtype);
    std::vector<int64_t> factors(1 + random() % 5);
    int64_t total = 1;
    for (int64_t& factor : factors)
      total *= factor = 1 + static_cast<int64_t>(random() % (trial % 10 == 0 ? 40 : 6));
    if (total > 100000) continue;
    FlatView src = spread(merged(factors, random), bytes, random);
    FlatView dst = spread(merged(factors, random), bytes, random);
    if (random() % 3 == 0) src.dims[random() % src.rank].stride = 0;  // repeats what it reads

    std::vector<std::byte> read(static_cast<size_t>(extent(src)));
    for (std::byte& byte : read) byte = static_cast<std::byte>(random());
    std::vector<std::byte> written(static_cast<size_t>(extent(dst)), std::byte{0xa5});
    std::vector<std::byte> expected = written;
    for (int64_t i = 0; i < total; ++i)
      std::memcpy(&expected[offset_of(dst, i)], &read[offset_of(src, i)], static_cast<size_t>(bytes));

    src.base = read.data();
    dst.base = written.data();
    transfer_alone(src, dst, dtype, dtype);
    ASSERT_EQ(written, expected) << "trial " << trial;
  }
}

TEST(Transfer, NothingIsMovedThroughEmptyWalks) {
  std::byte from{1}, to{2};
  FlatView src{.base = &from, .element_bytes = 1}, dst{.base = &to, .element_bytes = 1};
  src.rank = dst.rank = 1;
  src.dims[0] = dst.dims[0] = {0, 1};
  transfer_alone(src, dst, DType::kInt8, DType::kInt8);
  EXPECT_EQ(to, std::byte{2});
}

}  // namespace
}  // namespace opentrn::sim::transfer_tests
