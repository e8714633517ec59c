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
  EXPECT_EQ(default_tables().topology("switch_36x4").distance(0, 1), 1);
  EXPECT_EQ(default_tables().topology("switch_36x4").distance(0, 4), 2);
}

TEST(Topology, OneChipHasNoNeighbours) {
  EXPECT_THAT(default_tables().topology("single").neighbours(0), IsEmpty());
  EXPECT_THROW(default_tables().topology("single").neighbours(1), Fault);
}

}  // namespace
}  // namespace opentrn::arch
