#include "collectives/algorithms.h"

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/choose.h"
#include "collectives/hierarchical.h"
#include "collectives/predict.h"
#include "collectives/testing/samples.h"
#include "collectives/verify.h"

namespace opentrn::collectives {
namespace {

using testing::HasSubstr;

Request all_reduce(int ranks, int64_t bytes) {
  return {.kind = Kind::kAllReduce, .ranks = ranks, .bytes = bytes, .dtype = DType::kFloat32};
}

// Bytes that cross from one rank to another.
int64_t bytes_sent(const Plan& plan) {
  int64_t bytes = 0;
  for (size_t rank = 0; rank < plan.steps.size(); ++rank)
    for (const Step& step : plan.steps[rank]) {
      if (step.peer != static_cast<int>(rank)) bytes += step.bytes;
      if (const At* second = plan.second_target(static_cast<int>(rank), step))
        if (second->rank != static_cast<int>(rank)) bytes += step.bytes;
    }
  return bytes;
}

TEST(Algorithms, MoveWhatTheDocumentsSay) {
  constexpr int64_t kBytes = 64 * 1024;
  const Request request = all_reduce(16, kBytes);
  // Twice (N - 1) / N of the message for each rank; the single-step mesh N - 1 messages.
  for (const char* name : {"mesh", "ring", "rdh"})
    EXPECT_EQ(bytes_sent(make_plan(name, request, torus_layout(1))), 2 * 15 * kBytes) << name;
  EXPECT_EQ(bytes_sent(make_plan("mesh_single_step", request, torus_layout(1))), 16 * 15 * kBytes);
}

TEST(Algorithms, RdhGoesAlongTheAxesOfTheTorus) {
  const Plan plan = make_plan("rdh", all_reduce(16, 4096), torus_layout(1));
  std::set<std::pair<int, int>> links;
  for (int rank = 0; rank < 16; ++rank)
    for (const Step& step : plan.steps[static_cast<size_t>(rank)])
      if (step.peer != rank) links.insert({rank, step.peer});
  EXPECT_EQ(links.size(), 64u);
  for (const auto& [from, to] : links) {
    const int rows = (to / 4 - from / 4 + 4) % 4, columns = (to % 4 - from % 4 + 4) % 4;
    EXPECT_TRUE((rows == 0 && columns % 2 == 1) || (columns == 0 && rows % 2 == 1)) << from << " to " << to;
  }
}

TEST(Algorithms, KangaringReadsOnceForTwoWrites) {
  // Per part and pair of ranks: gathering 1 read and 2 writes, reducing 3 reads and 1 write.
  const Request request = sample_request(Kind::kAllGather, 8, DType::kFloat32, 64);
  const Plan gather = make_plan("kangaring", request, simple_layout(8, 2));
  int64_t reads = 0, writes = 0;
  for (size_t rank = 0; rank < 8; ++rank)
    for (const Step& step : gather.steps[rank]) {
      if (step.channel == gather.channels - 1) continue;  // a rank's own part
      reads += step.bytes;
      writes += step.bytes * (step.has_second_target ? 2 : 1);
    }
  EXPECT_EQ(reads, 8 * 4 * request.bytes);   // each of 8 parts passes 4 pairs
  EXPECT_EQ(writes, 8 * 7 * request.bytes);  // and reaches 7 ranks

  const Plan reduce = make_plan("kangaring", sample_request(Kind::kReduceScatter, 8, DType::kFloat32, 64),
                                simple_layout(8, 2));
  for (size_t rank = 0; rank < 8; ++rank)
    for (const Step& step : reduce.steps[rank])
      EXPECT_LE(reduce.more_sources(static_cast<int>(rank), step).size(), 2u);
}

// As many rings as adapters; each adapter is left by one, and another one comes by it.
TEST(Algorithms, RingsThroughAllServersLeaveByAllAdapters) {
  struct Case {
    const char* machine;
    int ranks, adapters;
  };
  for (const Case& one : {Case{"trn1.32xlarge", 64, 8}, Case{"trn1.32xlarge", 32, 4},
                          Case{"trn1n.32xlarge", 64, 16}, Case{"trn1n.32xlarge", 128, 16}}) {
    const int servers = one.ranks == 128 ? 4 : 2;
    const fabric::Platform platform = fabric::Platform::make(arch::default_tables(), one.machine, servers);
    const RankCores cores = place_ranks(platform, one.ranks, 1, servers);
    const Layout layout = layout_of(platform, cores);
    Request request{.kind = Kind::kAllGather, .ranks = one.ranks, .bytes = 1 << 12, .dtype = DType::kUint8};
    const Plan plan = make_plan("flat_ring", request, layout);
    prove(plan);
    std::map<fabric::LinkId, int64_t> bytes;  // by way of each adapter, out and in
    for (int rank = 0; rank < one.ranks; ++rank)
      for (const Step& step : plan.steps[static_cast<size_t>(rank)])
        for (const fabric::Hop& hop :
             platform.path(cores[static_cast<size_t>(rank)][0], cores[static_cast<size_t>(step.peer)][0])
                 .hops)
          if (platform.network().links[static_cast<size_t>(hop.link)].kind == fabric::LinkClass::kEfa)
            bytes[hop.link] += step.bytes;
    ASSERT_EQ(bytes.size(), static_cast<size_t>(one.adapters * servers * 2)) << one.machine << one.ranks;
    for (const auto& [link, carried] : bytes)
      EXPECT_EQ(carried, bytes.begin()->second) << one.machine << one.ranks;
  }
}

// No page says what network joins these: plans of values need none.
TEST(Algorithms, RingsWithoutKnownAdaptersGoByChips) {
  const fabric::Platform platform = fabric::Platform::make(arch::default_tables(), "inf2.48xlarge", 2);
  const Layout layout = layout_of(platform, place_ranks(platform, 16, 1, 2));
  EXPECT_TRUE(layout.adapters.empty());
  prove(make_plan("flat_ring", all_reduce(16, 1 << 12), layout));
}

// Four ranks of a chip, four links: at no time are all of them on one.
TEST(Algorithms, RanksOfAChipTakeTheAxesOfTheCubeInTurn) {
  const fabric::Platform platform = fabric::Platform::make(arch::default_tables(), "trn2.48xlarge");
  const Layout layout = layout_of(platform, place_ranks(platform, 64, 2, 1));
  Request request = all_reduce(64, 1 << 20);
  request.kind = Kind::kAllGather;
  const Plan plan = make_plan("rdh", request, layout);
  std::map<int, std::set<int>> first;  // [chip]: to which chips its ranks send first
  for (size_t rank = 0; rank < plan.steps.size(); ++rank) {
    const int chip = layout.ranks[rank].chip;
    for (const Step& step : plan.steps[rank])
      if (const int to = layout.ranks[static_cast<size_t>(step.peer)].chip; to != chip) {
        first[chip].insert(to);
        break;
      }
  }
  ASSERT_EQ(first.size(), 16u);
  for (const auto& [chip, to] : first) EXPECT_EQ(to.size(), 4u) << chip;
}

TEST(Algorithms, PlansOf256RanksStaySmall) {
  for (const char* name : {"mesh", "ring", "rdh", "kangaring"})
    EXPECT_LE(make_plan(name, all_reduce(256, 1 << 20), torus_layout(16)).step_count(), 2'000'000u) << name;
  for (const char* name : {"hier", "flat_ring"})
    EXPECT_LE(make_plan(name, all_reduce(256, 1 << 20), torus_layout(4, 4)).step_count(), 2'000'000u) << name;
}

TEST(Algorithms, StagesOfAPipelineOverlap) {
  // With more parts, less of the message lies between the first step and the first one between servers.
  const auto longest_first = [](int pipeline) {
    const Plan plan =
        hierarchical({"mesh", "mesh", pipeline}).plan(all_reduce(8, 24 * 1024), simple_servers(2, 4));
    return plan.steps[0][0].bytes;
  };
  EXPECT_EQ(longest_first(1), 3 * longest_first(3));
}

TEST(Choose, FollowsTheThresholds) {
  const arch::Tables& tables = arch::default_tables();
  const auto chosen = [&](Generation generation, int64_t bytes, const Layout& layout) {
    const Choice choice =
        choose(tables, generation, all_reduce(static_cast<int>(layout.ranks.size()), bytes), layout);
    EXPECT_THAT(choice.why, HasSubstr(choice.algorithm.name));
    return choice.algorithm.name;
  };
  constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;
  EXPECT_EQ(chosen(Generation::kV3, 512, torus_layout(4)), "mesh_single_step");
  EXPECT_EQ(chosen(Generation::kV3, 4 * kKiB, torus_layout(4)), "mesh");
  EXPECT_EQ(chosen(Generation::kV3, kMiB, torus_layout(4)), "mesh");
  EXPECT_EQ(chosen(Generation::kV3, 2 * kMiB, torus_layout(4)), "rdh");
  EXPECT_EQ(chosen(Generation::kV3, 64 * kMiB, torus_layout(4)), "kangaring");
  EXPECT_EQ(chosen(Generation::kV3, 64 * kMiB, torus_layout(1)), "ring");
  EXPECT_EQ(chosen(Generation::kV3, 2 * kMiB, simple_layout(6, 2)), "kangaring");  // 3 chips are no cube
  EXPECT_EQ(choose(tables, Generation::kV3, all_reduce(6, 2 * kMiB), simple_layout(6, 2)).rival.value().name,
            "mesh");
  EXPECT_FALSE(choose(tables, Generation::kV3, all_reduce(6, 60 * kMiB), simple_layout(6, 2)).rival);
  EXPECT_EQ(chosen(Generation::kV2, kMiB, simple_layout(8, 2)), "mesh");
  EXPECT_EQ(chosen(Generation::kV2, kMiB + 4, simple_layout(8, 2)), "ring");
  EXPECT_EQ(chosen(Generation::kV2, 4 * kMiB, simple_layout(32, 2)), "mesh");  // 128 KiB for each rank
  EXPECT_EQ(chosen(Generation::kV2, 4 * kMiB + 4, simple_layout(32, 2)), "ring");
  EXPECT_EQ(chosen(Generation::kV2, 4 * kMiB, torus_layout(2, 2)), "hier");
  EXPECT_EQ(chosen(Generation::kV3, 2 * kMiB, simple_servers(4, 1)), "rdh");
  EXPECT_EQ(chosen(Generation::kV3, 2 * kMiB, torus_layout(4, 2)), "hier");
  EXPECT_EQ(chosen(Generation::kV2, 128 * kMiB, torus_layout(2, 2)), "hier");
  EXPECT_EQ(
      choose(tables, Generation::kV2, all_reduce(64, 128 * kMiB), torus_layout(2, 2)).rival.value().name,
      "flat_ring");
  EXPECT_EQ(choose(tables, Generation::kV2, all_reduce(64, 64 * kMiB), torus_layout(2, 2)).rival.value().name,
            "hier");  // with meshes within servers
  EXPECT_FALSE(choose(tables, Generation::kV2, all_reduce(64, kMiB), torus_layout(2, 2)).rival);
  EXPECT_FALSE(choose(tables, Generation::kV3, all_reduce(128, 128 * kMiB), torus_layout(4, 2)).rival);
  const Request a2a = sample_request(Kind::kAllToAll, 4);
  EXPECT_EQ(choose(tables, Generation::kV3, a2a, simple_layout(4)).algorithm.name, "all_to_all");
  EXPECT_THAT(choose(tables, Generation::kV3, all_reduce(64, 2 * kMiB), torus_layout(4)).why,
              HasSubstr("above 1048576 B (collective.trn2.mesh_bytes_max)"));
}

// AWS takes flat rings on Trn1 for large messages "where [they have] a clear edge": what is chosen is the
// faster one of the two, on every number of servers.
TEST(Choose, AFlatRingIsTakenWhereItIsFaster) {
  const arch::Tables& tables = arch::default_tables();
  std::set<std::string> chosen;
  for (const auto& [machine, ranks, servers] :
       {std::tuple{"trn1.32xlarge", 64, 2}, {"trn1n.32xlarge", 32, 2}, {"trn1n.32xlarge", 128, 4}})
    for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter}) {
      const fabric::Platform platform = fabric::Platform::make(tables, machine, servers);
      Job job{.request = {.kind = kind, .ranks = ranks, .bytes = int64_t{1} << 28},
              .cores = place_ranks(platform, ranks, 1, servers),
              .algorithm = {}};
      const auto end = [&](const std::string& algorithm) {
        job.algorithm = algorithm;
        return predict(tables, platform, std::span(&job, 1)).end_ps;
      };
      const int64_t hierarchy = end("hier"), ring = end("flat_ring");
      EXPECT_EQ(end(""), std::min(hierarchy, ring)) << machine << " " << ranks << " " << name_of(kind);
      chosen.insert(plan_of(tables, platform, job).algorithm);
      EXPECT_THAT(plan_of(tables, platform, job).why, HasSubstr("flat_ring"));
    }
  EXPECT_THAT(chosen, testing::ElementsAre("flat_ring", "hier"));
}

// "The most optimal one for each communication stage": no jump where meshes within servers end.
TEST(Choose, AHierarchyTakesAMeshWithinServersWhereItIsFaster) {
  const arch::Tables& tables = arch::default_tables();
  for (const auto& [machine, ranks, cores] :
       {std::tuple{"trn1.32xlarge", 64, 1}, {"trn1n.32xlarge", 16, 1}, {"trn2.48xlarge", 32, 2}}) {
    const fabric::Platform platform = fabric::Platform::make(tables, machine, 2);
    const auto end = [&](int64_t bytes) {
      const Job job{.request = {.kind = Kind::kAllReduce, .ranks = ranks, .bytes = bytes},
                    .cores = place_ranks(platform, ranks, cores, 2),
                    .algorithm = {}};
      return static_cast<double>(predict(tables, platform, std::span(&job, 1)).end_ps);
    };
    EXPECT_LT(end(9 << 17) / end(1 << 20), 1.5) << machine;  // 1/8 more bytes
  }
}

// Between 1 MiB and 56 MiB RDH is documented; of ranks that it cannot serve nothing is.
TEST(Choose, WhatRdhCannotServeTakesTheFasterOfMeshAndRings) {
  const arch::Tables& tables = arch::default_tables();
  const fabric::Platform platform = fabric::Platform::make(tables, "trn2.48xlarge");
  std::set<std::string> chosen;
  for (const int ranks : {5, 24, 31, 48})
    for (const int64_t bytes : {5 << 18, 5 << 20, 5 << 22}) {
      Job job{.request = {.kind = Kind::kAllReduce, .ranks = ranks, .bytes = bytes},
              .cores = place_ranks(platform, ranks, 2, 1),
              .algorithm = {}};
      const auto end = [&](const std::string& algorithm) {
        job.algorithm = algorithm;
        return predict(tables, platform, std::span(&job, 1)).end_ps;
      };
      const int64_t ring = end(ranks % 4 == 0 ? "kangaring" : "ring"), mesh = end("mesh");
      EXPECT_EQ(end(""), std::min(ring, mesh)) << ranks << " " << bytes;
      chosen.insert(plan_of(tables, platform, job).algorithm);
    }
  EXPECT_THAT(chosen, testing::ElementsAre("kangaring", "mesh", "ring"));
}

}  // namespace
}  // namespace opentrn::collectives
