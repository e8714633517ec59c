// Which ranks and links have the same times, where ranks do the same seen from themselves.
#include "collectives/alike_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace opentrn::collectives {
namespace {

using ::testing::ElementsAre;

constexpr int kRanks = 8;

// Each rank has a link. It writes to the rank at displacement 1 over both links, and to that at 4 over the
// own one.
WaysOfRanks ways_of(int64_t latency_of_rank_0) {
  WaysOfRanks ways;
  ways.ranks = kRanks;
  ways.kinds = 2;
  ways.displacements = {0, 1, 4};
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    const fabric::Hop own{rank, fabric::kWholeShare}, other{rank ^ 1, fabric::kWholeShare};
    ways.add(std::vector{own, other}, rank == 0 ? latency_of_rank_0 : 10);
    ways.add(std::vector{own}, 10);
  }
  return ways;
}

fabric::Network network_of(int64_t rate_of_link_5) {
  fabric::Network network;
  for (int link = 0; link < kRanks; ++link) network.links.push_back({0, 0, link == 5 ? rate_of_link_5 : 100});
  return network;
}

TEST(AlikeRanks, AllAreOneClass) {
  const auto classes = rank_classes(ways_of(10), network_of(100));
  ASSERT_TRUE(classes);
  EXPECT_THAT(classes->first_rank, ElementsAre(0));
  EXPECT_THAT(classes->first_link, ElementsAre(0));
  // The first kind crosses each link twice, of its own rank and of the other one.
  ASSERT_EQ(classes->loads.size(), 2U);
  EXPECT_EQ(classes->loads[0].at(0).share, 2 * fabric::kWholeShare);
  EXPECT_EQ(classes->loads[1].at(0).share, fabric::kWholeShare);
}

// Its rank, the one that writes over it, those that wait for these at displacement 4, and the rest.
TEST(AlikeRanks, ASlowLinkTellsThoseApartThatCanMeetIt) {
  const auto classes = rank_classes(ways_of(10), network_of(50));
  ASSERT_TRUE(classes);
  EXPECT_THAT(classes->of_rank, ElementsAre(0, 1, 2, 2, 3, 4, 2, 2));
  EXPECT_NE(classes->of_link[5], classes->of_link[4]);
  EXPECT_EQ(classes->of_link[2], classes->of_link[7]);
}

TEST(AlikeRanks, SoDoesALongWay) {
  const auto classes = rank_classes(ways_of(11), network_of(100));
  ASSERT_TRUE(classes);
  EXPECT_THAT(classes->of_rank, ElementsAre(0, 1, 2, 2, 3, 4, 2, 2));
}

}  // namespace
}  // namespace opentrn::collectives
