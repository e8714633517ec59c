#include "spmd/in_order.h"

#include <gtest/gtest.h>

namespace opentrn::spmd {
namespace {

using Links = std::shared_ptr<const std::vector<float>>;
Links links(std::vector<float> busy) { return std::make_shared<const std::vector<float>>(std::move(busy)); }

// Two groups fill one link, beside a part that reads neither: each takes twice as long until the shorter
// ends.
TEST(InOrder, CollectivesOfTwoGroupsSlowEachOtherOnALinkThatBothFill) {
  const Links full = links({1.0F});
  const std::vector<OrderedStep> steps = {
      {.ns = 5},
      {.ns = 40, .stream = 0, .links = full},
      {.ns = 20, .stream = 1, .links = full},
      {.ns = 100},
      {.ns = 10, .waits = {1, 2}},
  };
  EXPECT_EQ(stretches(steps), (std::vector<double>{1, 60.0 / 40, 2, 1, 1}));
}

TEST(InOrder, AWaitBetweenThemKeepsThemApart) {
  const Links full = links({1.0F});
  const std::vector<OrderedStep> steps = {{.ns = 40, .stream = 0, .links = full},
                                          {.ns = 0, .waits = {0}},
                                          {.ns = 20, .stream = 1, .links = full}};
  EXPECT_EQ(stretches(steps), (std::vector<double>{1, 1, 1}));
}

TEST(InOrder, OtherLinksAndOneStreamSlowNobody) {
  const Links left = links({1.0F, 0.0F}), right = links({0.0F, 1.0F});
  const std::vector<OrderedStep> apart = {{.ns = 40, .stream = 0, .links = left},
                                          {.ns = 20, .stream = 1, .links = right}};
  EXPECT_EQ(stretches(apart), (std::vector<double>{1, 1}));
  const std::vector<OrderedStep> in_turn = {{.ns = 40, .stream = 0, .links = left},
                                            {.ns = 20, .stream = 0, .links = left},
                                            {.ns = 1, .waits = {1}},
                                            {.ns = 1, .waits = {0}}};
  EXPECT_EQ(stretches(in_turn), (std::vector<double>{1, 1, 1, 1}));
}

// Half a link each: there is room for both.
TEST(InOrder, TwoHalvesFit) {
  const Links half = links({0.5F});
  const std::vector<OrderedStep> steps = {{.ns = 40, .stream = 0, .links = half},
                                          {.ns = 40, .stream = 1, .links = half}};
  EXPECT_EQ(stretches(steps), (std::vector<double>{1, 1}));
}

}  // namespace
}  // namespace opentrn::spmd
