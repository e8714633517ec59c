// Collectives on the instances of a Trn2 UltraServer, which cables join chip by chip, round it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/algorithms.h"
#include "collectives/choose.h"
#include "collectives/predict.h"
#include "collectives/ring_orders.h"
#include "collectives/verify.h"

namespace opentrn::collectives::instances_tests {
namespace {

using arch::default_tables;
using fabric::LinkClass;
using fabric::Platform;
using testing::HasSubstr;

Platform machine(int count = 1) { return Platform::make(default_tables(), "Trn2 UltraServer", count); }

// One rank on each of `chips`.
RankCores ranks_on(const Platform& platform, const std::vector<int>& chips) {
  RankCores cores;
  for (const int chip : chips) cores.push_back({chip * platform.cores_per_chip()});
  return cores;
}

std::vector<int> chips_from(int first, int count) {
  std::vector<int> chips;
  for (int i = 0; i < count; ++i) chips.push_back(first + i);
  return chips;
}

// How often bytes cross links between chips on the way from one rank to the next.
int links_between(const Platform& platform, const RankCores& cores, int from, int to) {
  int links = 0;
  const auto core = [&](int rank) { return cores[static_cast<size_t>(rank)][0]; };
  for (const fabric::Hop& hop : platform.path(core(from), core(to)).hops) {
    const LinkClass kind = platform.network().links[static_cast<size_t>(hop.link)].kind;
    if (kind == LinkClass::kNeuronLink || kind == LinkClass::kUltraServer) links += hop.share;
  }
  return links / fabric::kWholeShare;
}

Request request_of(Kind kind, int ranks, int64_t bytes) {
  Request request{.kind = kind, .ranks = ranks, .dtype = DType::kUint8};
  request.bytes = kind == Kind::kAllGather ? bytes / ranks : bytes / ranks * ranks;
  return request;
}

TEST(Instances, RingsGoFromNeighbourToNeighbour) {
  const Platform platform = machine();
  for (const auto& chips : {chips_from(0, 64), chips_from(16, 32), chips_from(48, 16)}) {
    const RankCores cores = ranks_on(platform, chips);
    const Layout layout = layout_of(platform, cores);
    std::vector<int> members(cores.size());
    for (size_t i = 0; i < members.size(); ++i) members[i] = static_cast<int>(i);
    const auto orders = ring_orders(layout, members);
    EXPECT_EQ(orders.size(), 4U);
    for (const std::vector<int>& order : orders) {
      EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), members.size());
      for (size_t i = 0; i < order.size(); ++i)
        EXPECT_EQ(links_between(platform, cores, order[i], order[(i + 1) % order.size()]), 1)
            << chips.size() << " chips from " << chips[0];
    }
  }
}

TEST(Instances, LargeMessagesGoByInstances) {
  const Platform platform = machine();
  const auto chosen = [&](const std::vector<int>& chips, int64_t bytes) {
    const RankCores cores = ranks_on(platform, chips);
    return choose(default_tables(), platform.generation(),
                  request_of(Kind::kAllReduce, static_cast<int>(chips.size()), bytes),
                  layout_of(platform, cores));
  };
  EXPECT_EQ(chosen(chips_from(0, 64), 1 << 30).algorithm.name, "hier");
  EXPECT_THAT(chosen(chips_from(0, 64), 1 << 30).why, HasSubstr("several instances of an UltraServer"));
  EXPECT_EQ(chosen(chips_from(16, 32), 1 << 30).algorithm.name, "hier");
  EXPECT_EQ(chosen({0, 16, 32, 48}, 1 << 30).algorithm.name, "ring");     // round the UltraServer
  EXPECT_EQ(chosen(chips_from(16, 16), 1 << 30).algorithm.name, "ring");  // one instance
  EXPECT_EQ(chosen(chips_from(8, 16), 1 << 30).algorithm.name, "ring");   // different chips of two
  EXPECT_EQ(chosen(chips_from(0, 64), 1 << 10).algorithm.name,
            chosen(chips_from(0, 16), 1 << 10).algorithm.name);
}

TEST(Instances, PlansDoWhatIsAsked) {
  for (const int servers : {1, 2}) {
    const Platform platform = machine(servers);
    for (const int per_chip : {1, 2}) {
      const int ranks = 64 * servers * per_chip;
      if (ranks > 128) continue;
      const Layout layout = layout_of(platform, place_ranks(platform, ranks, 8 / per_chip, 0));
      for (const char* algorithm : {"hier", "ring", "rdh", "kangaring", "flat_ring"})
        for (const Kind kind : {Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter}) {
          const Request request = request_of(kind, ranks, int64_t{ranks} * 7);
          if (!collectives::algorithm(algorithm).why_not(request, layout).empty()) continue;
          EXPECT_THAT(verify(make_plan(algorithm, request, layout)), testing::IsEmpty())
              << algorithm << " " << ranks;
        }
    }
  }
}

// Halves go over the cables of each chip, and what is between UltraServers only over adapters.
TEST(Instances, AreFasterThanOneRing) {
  const Platform platform = machine();
  const auto us = [&](const char* algorithm) {
    const Job job{request_of(Kind::kAllReduce, 64, 1 << 28), ranks_on(platform, chips_from(0, 64)), algorithm,
                  0, 1};
    return static_cast<double>(predict(default_tables(), platform, std::span(&job, 1)).end_ps) * 1e-6;
  };
  EXPECT_LT(us("hier") * 1.5, us("ring"));
  EXPECT_EQ(us("hier"), us(""));
}

TEST(Instances, OnSeveralUltraServersToo) {
  const Platform platform = machine(2);
  const RankCores cores = place_ranks(platform, 128, 8, 0);
  const Layout layout = layout_of(platform, cores);
  const Choice choice =
      choose(default_tables(), platform.generation(), request_of(Kind::kAllReduce, 128, 1 << 30), layout);
  EXPECT_EQ(choice.algorithm.name, "hier");
  const Plan plan = choice.algorithm.plan(request_of(Kind::kAllReduce, 128, 1 << 30), layout);
  // No step leaves an instance but to the same chip of another one.
  for (size_t rank = 0; rank < plan.steps.size(); ++rank)
    for (const Step& step : plan.steps[rank]) {
      const auto own = static_cast<int>(rank);
      EXPECT_TRUE(own / 16 == step.peer / 16 || own % 16 == step.peer % 16) << own << " to " << step.peer;
    }
}

}  // namespace
}  // namespace opentrn::collectives::instances_tests
