#include "nki/tile_view.h"

#include <array>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"

namespace opentrn::nki {
namespace {

using testing::ElementsAre;

const Describe kName = [] { return std::string("t"); };

TileView whole(const Shape& shape, bool on_chip = false) {
  TileView view{on_chip, {}, 0, {}, {}};
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    view.dims.insert(view.dims.begin(), {step, shape[i]});
    step *= shape[i];
  }
  return view;
}

// The addresses of a view's elements, in order.
std::vector<int64_t> addresses(const TileView& view) {
  std::vector<int64_t> made = {view.offset};
  for (const isa::Dim& dim : view.dims) {
    std::vector<int64_t> more;
    for (const int64_t address : made)
      for (int64_t i = 0; i < dim.count; ++i) more.push_back(address + dim.step * i);
    made = std::move(more);
  }
  return made;
}

auto refuses(const char* label) { return testing::Throws<Fault>(testing::Property(&Fault::label, label)); }

TEST(TileView, SlicesAndNumbersTakeWhatTheySay) {
  const std::vector<IndexKey> keys = {int64_t{-1}, IndexSlice{1, 5, 2}, NewAxis{}};
  const TileView made = indexed(whole({3, 6}), keys, kName);
  EXPECT_THAT(addresses(made), ElementsAre(13, 15));
  EXPECT_THAT(made.shape(), ElementsAre(2, 1));
}

TEST(TileView, OnChipThePartitionStaysAndThereIsAFreeDimension) {
  const std::vector<IndexKey> keys = {int64_t{2}, int64_t{4}};
  EXPECT_THAT(indexed(whole({3, 6}, true), keys, kName).shape(), ElementsAre(1, 1));
}

TEST(TileView, BlocksAreChosenOrRemain) {
  TileView base = whole({4, 6}, true);
  base.blocks = {{{0, 1, 3}, true}, {{0, 1, 5}, true}};
  const std::vector<IndexKey> keys = {int64_t{-1}, IndexSlice{1, 4, 2}, IndexSlice{}, IndexSlice{}};
  const TileView made = indexed(base, keys, kName);
  EXPECT_EQ(made.blocks, (std::vector<TileBlock>{{{2, 1, 1}, false}, {{1, 2, 2}, true}}));
  const std::vector<IndexKey> beyond = {int64_t{3}, int64_t{0}, IndexSlice{}, IndexSlice{}};
  EXPECT_THAT([&] { (void)indexed(base, beyond, kName); }, refuses("nki.index_bounds"));
}

TEST(TileView, ASliceThatLeavesIsLimited) {
  const std::vector<IndexKey> keys = {IndexSlice{}, IndexRange{4, 1, 4}};
  const TileView made = indexed(whole({3, 6}), keys, kName);
  EXPECT_EQ(made.limits, (std::vector<IndexLimit>{{4, {0, 1}, 6}}));
  EXPECT_THAT([&] { check_limits(made, kName); }, refuses("nki.index_bounds"));
  check_limits(part_of(made, {{0, 1, 3}, {0, 1, 2}}), kName);
  EXPECT_THAT(
      [&] {
        check_limits(part_of(made, {{0, 1, 3}, {1, 1, 2}}), kName);
      },
      refuses("nki.index_bounds"));
}

TEST(TileView, ExpressionsGiveTheAddressesOfTheirValues) {
  std::mt19937 random(3);
  const auto number = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int round = 0; round < 500; ++round) {
    const TileView base = whole({4, 5, 6});
    std::vector<IndexExpression> keys;
    for (int dim = 0; dim < 3; ++dim) {
      IndexExpression key = index_number(number(0, 3));
      for (int axis = 0; axis < 2; ++axis)
        if (number(0, 1) == 1)
          key = add(key,
                    multiply(with_axes(index_range(2 + axis, 0, 1), std::array{axis != 0, axis != 1}),
                             number(-1, 2)),
                    1);
      keys.push_back(std::move(key));
    }
    const std::vector<const IndexExpression*> pointers = {&keys[0], &keys[1], &keys[2]};
    const Shape shape = {2, 3};
    const TileView made = indexed(base, pointers, shape, kName);
    IndexExpression wanted = index_number(0);
    bool leaves = false;
    for (size_t dim = 0; dim < 3; ++dim) {
      wanted = add(wanted, multiply(keys[dim], base.dims[dim].step), 1);
      leaves |= keys[dim].range().first < 0 || keys[dim].range().second >= base.dims[dim].count;
    }
    const IndexExpression zeros{shape, 0, {}, {}};
    EXPECT_EQ(addresses(made), add(wanted, zeros, 1).values());
    EXPECT_EQ(!made.limits.empty(), leaves);
  }
}

TEST(TileView, AnExpressionWithoutAStepIsRefusedAndASumWithOneIsNot) {
  const IndexExpression i = with_axes(index_range(8, 0, 1), std::array{false, true});
  const IndexExpression halves = combine(i, index_number(2), IndexOperator::kFloorDivide);
  const IndexExpression rests = combine(i, index_number(2), IndexOperator::kModulo);
  const IndexExpression zero = index_number(0);
  const std::vector<const IndexExpression*> one = {&halves, &zero}, both = {&halves, &rests};
  EXPECT_THAT([&] { (void)indexed(whole({4, 2}), one, {8, 1}, kName); }, refuses("nki.index"));
  EXPECT_EQ(indexed(whole({4, 2}), both, {8, 1}, kName).dims[0], (isa::Dim{1, 8}));
}

TEST(TileView, OnChipOnlyTheFirstIndexMovesAlongRows) {
  const IndexExpression i = with_axes(index_range(3, 0, 1), std::array{false, true}), zero = index_number(0);
  const std::vector<const IndexExpression*> keys = {&zero, &i};
  EXPECT_THAT([&] { (void)indexed(whole({3, 6}, true), keys, {3, 1}, kName); }, refuses("nki.index"));
}

TEST(TileView, ReshapingKeepsTheOrderOfElementsOrIsRefused) {
  const TileView base = whole({4, 6, 5});
  EXPECT_EQ(addresses(reshaped(base, {8, -1}, kName)), addresses(base));
  TileView columns = base;
  columns.dims[2].count = 3;  // part of each row
  EXPECT_EQ(addresses(reshaped(columns, {2, 12, 1, 3}, kName)), addresses(columns));
  EXPECT_THAT([&] { (void)reshaped(columns, {4, 18}, kName); }, refuses("nki.view"));
  EXPECT_THAT([&] { (void)reshaped(base, {4, 6}, kName); }, refuses("nki.shape"));
  EXPECT_THAT([&] { (void)reshaped(whole({4, 6}, true), {2, 12}, kName); }, refuses("nki.view"));
}

TEST(TileView, OtherViewsOfTheSameElements) {
  const TileView base = whole({4, 1, 6}, true);
  const std::vector<int64_t> axes = {0, 2, 1}, last = {-1}, first = {0};
  EXPECT_THAT(permuted(base, axes).shape(), ElementsAre(4, 6, 1));
  EXPECT_EQ(broadcast(base, {4, 3, 6}, kName).dims[1], (isa::Dim{0, 3}));
  EXPECT_THAT([&] { (void)broadcast(base, {4, 3, 5}, kName); }, refuses("nki.shape"));
  EXPECT_THAT(with_dims_of_one(base, last).shape(), ElementsAre(4, 1, 6, 1));
  EXPECT_THAT([&] { (void)with_dims_of_one(base, first); }, refuses("nki.view"));
  EXPECT_THAT(reinterpreted(base, 4, 2, "float16", kName).shape(), ElementsAre(4, 1, 12));
  EXPECT_THAT([&] { (void)reinterpreted(whole({4, 3}), 2, 4, "float32", kName); }, refuses("nki.view"));
}

}  // namespace
}  // namespace opentrn::nki
