#include "nki/unwritten_elements.h"

#include <gtest/gtest.h>

#include "nki/machine.h"

namespace opentrn::nki {
namespace {

using isa::MemorySpace;
using Index = std::vector<int64_t>;

class UnwrittenElementsTest : public ::testing::Test {
 protected:
  TensorView make(std::vector<int64_t> shape, DType dtype = DType::kBFloat16) {
    return machine_->ndarray(shape, dtype, MemorySpace::kPrivateHbm, "out", std::nullopt, 0);
  }
  void mark(const TensorView& view, int64_t begin_byte, int64_t bytes) {
    machine_->value(view)->initialised().set(begin_byte, bytes);
  }

  std::shared_ptr<Machine> machine_ = Machine::create({}, nullptr);
};

TEST_F(UnwrittenElementsTest, NothingIsFoundInAWhollyWrittenTensor) {
  const TensorView out = make({4, 8});
  mark(out, 0, 64);
  EXPECT_FALSE(unwritten_elements(out).has_value());
}

TEST_F(UnwrittenElementsTest, AnElementWithOneUnwrittenByteIsUnwritten) {
  const TensorView out = make({4, 8});
  mark(out, 0, 37);  // 18 elements and half of the next
  const auto found = unwritten_elements(out);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->count, 32 - 18);
  EXPECT_EQ(found->first, (Index{2, 2}));
}

// Only what the view reaches counts, in the order of the view.
TEST_F(UnwrittenElementsTest, AViewCountsItsOwnElements) {
  const TensorView out = make({4, 8});
  mark(out, 0, 16);
  EXPECT_FALSE(unwritten_elements(out.slice(0, 0, 1, 1)).has_value());
  const auto columns = unwritten_elements(out.slice(1, 1, 8, 3));
  ASSERT_TRUE(columns.has_value());
  EXPECT_EQ(columns->count, 9);
  EXPECT_EQ(columns->first, (Index{1, 0}));
  const int64_t order[] = {1, 0};
  const auto turned = unwritten_elements(out.permute(order));
  ASSERT_TRUE(turned.has_value());
  EXPECT_EQ(turned->count, 24);
  EXPECT_EQ(turned->first, (Index{0, 1}));
}

TEST_F(UnwrittenElementsTest, OneDimensionIsEnough) {
  const TensorView out = make({8});
  mark(out, 4, 12);
  const auto found = unwritten_elements(out);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->count, 2);
  EXPECT_EQ(found->first, (Index{0}));
}

}  // namespace
}  // namespace opentrn::nki
