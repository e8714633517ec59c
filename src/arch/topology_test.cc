#include "arch/topology.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/tables.h"

namespace opentrn::arch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// neuron-ls "connected devices" of trn1.32xlarge and trn2.48xlarge, in its order.
// Source: aws-neuron-sdk@81ce03ae:neuron-runtime/explore/runtime-performance-tips.rst
const std::vector<std::vector<int>> kTorus4x4 = {
    {12, 3, 4, 1},  {13, 0, 5, 2},  {14, 1, 6, 3},   {15, 2, 7, 0},  {0, 7, 8, 5},   {1, 4, 9, 6},
    {2, 5, 10, 7},  {3, 6, 11, 4},  {4, 11, 12, 9},  {5, 8, 13, 10}, {6, 9, 14, 11}, {7, 10, 15, 8},
    {8, 15, 0, 13}, {9, 12, 1, 14}, {10, 13, 2, 15}, {11, 14, 3, 12}};

TEST(Topology, Torus4x4IsTheDocumentedAdjacency) {
  const Topology& torus = default_tables().topology("torus_4x4");
  ASSERT_EQ(torus.chips(), 16);
  for (int chip = 0; chip < 16; ++chip) EXPECT_EQ(torus.neighbours(chip), kTorus4x4[chip]) << "chip " << chip;
}

TEST(Topology, Ring12IsTheDocumentedAdjacency) {
  const Topology& ring = default_tables().topology("ring_12");
  EXPECT_THAT(ring.neighbours(0), ElementsAre(11, 1));
  EXPECT_THAT(ring.neighbours(5), ElementsAre(4, 6));
  EXPECT_THAT(ring.neighbours(11), ElementsAre(10, 0));
}

TEST(Topology, AChainHasTwoEnds) {
  const Topology& chain = default_tables().topology("chain_6");
  EXPECT_THAT(chain.neighbours(0), ElementsAre(1));
  EXPECT_THAT(chain.neighbours(3), ElementsAre(2, 4));
  EXPECT_THAT(chain.neighbours(5), ElementsAre(4));
  EXPECT_EQ(chain.distance(0, 5), 5);
}

TEST(Topology, UltraServerTorusAddsTwoInterInstanceNeighbours) {
  const Topology& torus = default_tables().topology("torus_4x4x4");
  ASSERT_EQ(torus.chips(), 64);
  EXPECT_THAT(torus.neighbours(0), ElementsAre(48, 12, 3, 16, 4, 1));
}

TEST(Topology, EveryNeighbourhoodIsSymmetricAndOneLinkAway) {
  for (const Topology& topology : default_tables().topologies()) {
    for (int chip = 0; chip < topology.chips(); ++chip) {
      for (int other : topology.neighbours(chip)) {
        const std::vector<int> back = topology.neighbours(other);
        EXPECT_NE(std::find(back.begin(), back.end(), chip), back.end()) << topology.name << " " << chip;
        EXPECT_EQ(topology.distance(chip, other), 1) << topology.name << " " << chip << " " << other;
      }
    }
  }
}

TEST(Topology, DistanceTakesTheShortWayRound) {
  EXPECT_EQ(default_tables().topology("ring_12").distance(1, 11), 2);
  EXPECT_EQ(default_tables().topology("torus_4x4").distance(0, 10), 4);
}

// Servers of 4 chips; one switch joins the 72 chips of a rack, and rack 1 begins at chip 72.
TEST(Topology, Trn3Gen2IsOneSwitchARack) {
  const Topology& racks = default_tables().topology("racks_2x18x4");
  EXPECT_EQ(racks.distance(0, 1), 1);
  EXPECT_EQ(racks.distance(0, 71), 1);
  EXPECT_EQ(racks.distance(0, 72), 1);
  EXPECT_EQ(racks.distance(0, 73), 2);
  EXPECT_EQ(racks.neighbours(0).size(), 72u);
}

// Servers of 16 chips, 2i and 2i + 1 on one sled; rack 1 begins at chip 32.
TEST(Topology, Trn3Gen1ReachesTheOtherSideThroughTheSled) {
  const Topology& racks = default_tables().topology("racks_2x2x8");
  EXPECT_EQ(racks.distance(0, 1), 1);
  EXPECT_EQ(racks.distance(0, 2), 1);
  EXPECT_EQ(racks.distance(0, 18), 1);
  EXPECT_EQ(racks.distance(0, 3), 2);
  EXPECT_EQ(racks.distance(0, 32), 1);
  EXPECT_EQ(racks.distance(0, 35), 3);
  // 15 on its switch, its sled's other chip, one in the other rack.
  EXPECT_EQ(racks.neighbours(0).size(), 17u);
}

TEST(Topology, OneChipHasNoNeighbours) {
  EXPECT_THAT(default_tables().topology("single").neighbours(0), IsEmpty());
  EXPECT_THROW(default_tables().topology("single").neighbours(1), Fault);
}

}  // namespace
}  // namespace opentrn::arch
