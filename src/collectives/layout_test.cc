#include "collectives/layout.h"

#include <set>

#include <gtest/gtest.h>

#include "collectives/ring_orders.h"

namespace opentrn::collectives {
namespace {

TEST(Layout, Symmetry) {
  EXPECT_TRUE(torus_layout(4, 2).symmetric());
  EXPECT_EQ(torus_layout(4, 2).servers(), 2);
  EXPECT_FALSE(simple_layout(5, 2).symmetric());
  Layout uneven = simple_servers(2, 4);
  uneven.ranks.pop_back();
  EXPECT_FALSE(uneven.symmetric());
}

TEST(Layout, TheCyclesOfTheTorusShareNoLink) {
  const Layout torus = torus_layout(1);
  check(torus, 16);
  std::set<std::pair<int, int>> links;
  for (const auto& order : ring_orders(torus, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}))
    for (size_t i = 0; i < order.size(); ++i) {
      const int from = order[i], to = order[(i + 1) % order.size()];
      const int rows = (to / 4 - from / 4 + 4) % 4, columns = (to % 4 - from % 4 + 4) % 4;
      EXPECT_TRUE((rows == 0 && columns % 2 == 1) || (columns == 0 && rows % 2 == 1)) << from << " " << to;
      EXPECT_TRUE(links.insert({from, to}).second) << from << " to " << to << " twice";
    }
  EXPECT_EQ(links.size(), 64u);  // 4 links of each chip, one way each
}

TEST(Layout, RingsFollowTheRanksOfAChip) {
  const auto orders = ring_orders(simple_layout(4, 2), {0, 1, 2, 3});
  ASSERT_EQ(orders.size(), 2u);
  EXPECT_EQ(orders[0], (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(orders[1], (std::vector{3, 2, 1, 0}));
}

}  // namespace
}  // namespace opentrn::collectives
