#include "nki/index_expression.h"

#include <array>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"

namespace opentrn::nki {
namespace {

using testing::ElementsAre;

// Every value of a shape, by a function of the index of each axis: slow and obvious.
using Function = std::function<int64_t(int64_t, int64_t)>;
std::vector<int64_t> evaluated(const Shape& shape, const Function& function) {
  std::vector<int64_t> made;
  for (int64_t i = 0; i < shape[0]; ++i)
    for (int64_t j = 0; j < shape[1]; ++j)
      made.push_back(function(shape[0] == 1 ? 0 : i, shape[1] == 1 ? 0 : j));
  return made;
}

struct Case {
  IndexExpression expression;
  Function function;
};

int64_t floor_divide(int64_t a, int64_t b) {
  return static_cast<int64_t>(std::floor(static_cast<double>(a) / static_cast<double>(b)));
}

// A random expression over [rows, columns], with what it has to be.
Case random_case(std::mt19937& random, int64_t rows, int64_t columns, int depth) {
  const auto number = [&](int low, int high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  if (depth == 0) {
    const int64_t first = number(-9, 9), step = number(-3, 3);
    if (number(0, 1) == 0)
      return {with_axes(index_range(rows, first, step), std::array{false, true}),
              [=](int64_t i, int64_t) { return first + step * i; }};
    return {with_axes(index_range(columns, first, step), std::array{true, false}),
            [=](int64_t, int64_t j) { return first + step * j; }};
  }
  const Case a = random_case(random, rows, columns, depth - 1),
             b = random_case(random, rows, columns, depth - 1);
  const int64_t factor = number(1, 4);
  switch (number(0, 5)) {
    case 0:
      return {add(a.expression, b.expression, 1),
              [=](auto i, auto j) { return a.function(i, j) + b.function(i, j); }};
    case 1:
      return {add(a.expression, b.expression, -1),
              [=](auto i, auto j) { return a.function(i, j) - b.function(i, j); }};
    case 2:
      return {multiply(a.expression, -factor), [=](auto i, auto j) { return -factor * a.function(i, j); }};
    case 3:
      return {combine(a.expression, b.expression, IndexOperator::kMultiply),
              [=](auto i, auto j) { return a.function(i, j) * b.function(i, j); }};
    case 4:
      return {combine(a.expression, index_number(factor), IndexOperator::kFloorDivide),
              [=](auto i, auto j) { return floor_divide(a.function(i, j), factor); }};
    default:
      return {combine(a.expression, index_number(factor), IndexOperator::kModulo), [=](auto i, auto j) {
                return a.function(i, j) - factor * floor_divide(a.function(i, j), factor);
              }};
  }
}

TEST(IndexExpression, RandomExpressionsHaveTheValuesOfTheirFunctions) {
  std::mt19937 random(1);
  for (int number = 0; number < 2000; ++number) {
    const int64_t rows = 1 + number % 5, columns = 1 + number / 5 % 4;
    const Case given = random_case(random, rows, columns, number % 4);
    const std::vector<int64_t> wanted = evaluated(given.expression.shape, given.function);
    ASSERT_EQ(given.expression.values(), wanted) << number;
    const auto [low, high] = given.expression.range();
    if (given.expression.is_affine()) {
      EXPECT_EQ(low, std::ranges::min(wanted));
      EXPECT_EQ(high, std::ranges::max(wanted));
    }
  }
}

TEST(IndexExpression, WhatIsAffineAgainIsAStep) {
  const IndexExpression i = with_axes(index_range(8, 0, 1), std::array{false, true});
  const IndexExpression halves = combine(i, index_number(2), IndexOperator::kFloorDivide);
  const IndexExpression rests = combine(i, index_number(2), IndexOperator::kModulo);
  EXPECT_FALSE(halves.is_affine());
  EXPECT_EQ(add(multiply(halves, 2), rests, 1), i);
  EXPECT_EQ(add(i, i, -1), (IndexExpression{{8, 1}, 0, {}, {}}));
}

TEST(IndexExpression, AnAxisOfOneKeepsItsValue) {
  const IndexExpression i = with_axes(index_range(1, 7, 1), std::array{false, true});
  const IndexExpression j = with_axes(index_range(3, 0, 1), std::array{true, false});
  EXPECT_THAT(add(i, j, 1).values(), ElementsAre(7, 8, 9));
}

TEST(IndexExpression, FaultsNameTheirRule) {
  const IndexExpression a = index_range(4, 0, 1), b = index_range(3, 0, 1);
  EXPECT_THAT([&] { (void)add(a, b, 1); },
              testing::Throws<Fault>(testing::Property(&Fault::label, "nki.shape")));
  EXPECT_THAT([&] { (void)combine(a, index_number(0), IndexOperator::kModulo); },
              testing::Throws<Fault>(testing::Property(&Fault::label, "nki.index")));
}

TEST(IndexMask, BoxesCoverWhatTheTruthValuesSay) {
  std::mt19937 random(2);
  int intervals = 0;
  for (int number = 0; number < 1000; ++number) {
    const Shape shape = {1 + number % 6, 1 + number / 6 % 7};
    IndexMask mask;
    for (int term = 0; term <= number % 3; ++term) {
      const Case given = random_case(random, shape[0], shape[1], number % 2);
      mask.terms.emplace_back(IndexTest{given.expression, static_cast<IndexComparison>((number + term) % 6)});
    }
    std::vector<int> covered(static_cast<size_t>(shape[0] * shape[1]));
    const std::vector<IndexBox> boxes = boxes_of(mask, shape, "test");
    intervals += boxes.size() == 1;
    for (const IndexBox& box : boxes)
      for (int64_t i = 0; i < box[0].count; ++i)
        for (int64_t j = 0; j < box[1].count; ++j)
          ++covered[static_cast<size_t>((box[0].start + i * box[0].step) * shape[1] + box[1].start +
                                        j * box[1].step)];
    mask.terms.emplace_back(IndexTruth{shape, std::vector<bool>(covered.size(), true)});
    const std::vector<bool> truth = mask.values();
    EXPECT_EQ(covered, std::vector<int>(truth.begin(), truth.end())) << number;
  }
  EXPECT_GT(intervals, 200);
}

TEST(IndexMask, OneOfAnotherShapeDoesNotFit) {
  const IndexMask mask{
      {IndexTest{with_axes(index_range(8, 0, 1), std::array{false, true}), IndexComparison::kLess}}};
  EXPECT_THAT(
      [&] {
        (void)boxes_of(mask, {4, 4}, "copy");
      },
      testing::ThrowsMessage<Fault>(testing::HasSubstr("copy: a mask of shape (8, 1) does not fit")));
}

}  // namespace
}  // namespace opentrn::nki
