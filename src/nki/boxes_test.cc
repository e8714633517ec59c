#include "nki/boxes.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace opentrn::nki {
namespace {

using testing::ElementsAre;

std::vector<IndexBox> boxes(const std::vector<std::vector<bool>>& rows) {
  std::array<bool, 64> truth{};
  size_t at = 0;
  for (const auto& row : rows)
    for (const bool value : row) truth[at++] = value;
  const std::array<int64_t, 2> shape = {static_cast<int64_t>(rows.size()),
                                        static_cast<int64_t>(rows[0].size())};
  return boxes_of(truth.data(), shape);
}

TEST(Boxes, AProductOfRangesIsOneBox) {
  EXPECT_THAT(boxes({{true, false, true}, {false, false, false}, {true, false, true}}),
              ElementsAre(IndexBox{{0, 2, 2}, {0, 2, 2}}));
}

TEST(Boxes, NothingIsNoBox) { EXPECT_TRUE(boxes({{false, false}}).empty()); }

TEST(Boxes, RowsThatAllowTheSameColumnsGoTogether) {
  EXPECT_THAT(boxes({{true, false}, {true, false}, {true, true}}),
              ElementsAre(IndexBox{{0, 1, 2}, {0, 1, 1}}, IndexBox{{2, 1, 1}, {0, 1, 2}}));
}

TEST(Boxes, AxesWithoutOneStepGiveTheirRuns) {
  EXPECT_THAT(boxes_of_axes({{true, true, false, true}, {false, true}}),
              ElementsAre(IndexBox{{0, 1, 2}, {1, 1, 1}}, IndexBox{{3, 1, 1}, {1, 1, 1}}));
  EXPECT_TRUE(boxes_of_axes({{true}, {false}}).empty());
}

}  // namespace
}  // namespace opentrn::nki
