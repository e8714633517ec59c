// Plans of one unit that stands for all: written out they are proved, and have the same time.
#include "collectives/symmetric.h"

#include <array>
#include <limits>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "collectives/cluster.h"
#include "collectives/symmetric_direct.h"
#include "collectives/testing/samples.h"
#include "collectives/timing.h"

namespace opentrn::collectives {
namespace {

using arch::default_tables;

// Every kind of level, alone and behind each other, with every algorithm within units.
TEST(Symmetric, WrittenOutItDoesWhatIsAsked) {
  const std::vector<std::vector<Level>> hierarchies = {
      {{2, "ring"}},
      {{3, "ring"}},
      {{5, "ring"}},
      {{2, "mesh"}},
      {{4, "mesh"}},
      {{2, "ring"}, {2, "ring"}},
      {{2, "ring"}, {2, "ring"}, {3, "ring"}},
      {{3, "mesh"}, {2, "ring"}},
      {{4, "ring"}, {3, "mesh"}},
      {{2, "mesh"}, {3, "mesh"}, {2, "ring"}},
      {{18, "mesh"}},
  };
  const std::vector<Layout> units = {simple_layout(1), simple_layout(2), simple_layout(4),
                                     simple_layout(4, 2), simple_layout(6, 2)};
  int proved = 0;
  for (const auto& levels : hierarchies)
    for (const Layout& unit : units)
      for (const char* within : {"mesh", "ring", "kangaring", "rdh"})
        for (const Kind kind : {Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter}) {
          Hierarchy hierarchy{within, levels, kind == Kind::kAllReduce ? 1 + proved % 3 : 1};
          const int per_unit = static_cast<int>(unit.ranks.size());
          Request request;
          request.kind = kind;
          request.ranks = per_unit * hierarchy.units();
          request.dtype = DType::kBFloat16;
          request.bytes = symmetric_bytes(hierarchy, kind, 7 * request.ranks, request.dtype, per_unit);
          SymmetricPlan plan;
          try {
            plan = symmetric_plan(request, hierarchy, unit);
          } catch (const Fault& fault) {
            ASSERT_EQ(fault.label(), "collectives.serves");
            continue;
          }
          ASSERT_EQ(joined(verify(expanded(plan))), "")
              << within << " " << name_of(kind) << " " << hierarchy.units() << " x " << per_unit;
          ++proved;
        }
  EXPECT_GT(proved, 300);
}

bool same(const SymmetricPlan& a, const SymmetricPlan& b) {
  const auto same_steps = [](const Step& x, const Step& y) {
    return x.reduces == y.reduces && x.has_second_target == y.has_second_target && x.peer == y.peer &&
           x.from == y.from && x.to == y.to && x.bytes == y.bytes && x.channel == y.channel &&
           x.waits.begin == y.waits.begin && x.waits.count == y.waits.count &&
           x.places.begin == y.places.begin && x.places.count == y.places.count;
  };
  const auto same_seen = [](const SeenFrom& x, const SeenFrom& y) {
    return x.buffer == y.buffer && x.begin == y.begin && x.end == y.end && x.period == y.period &&
           x.level == y.level && x.is_absolute == y.is_absolute && x.is_whole == y.is_whole;
  };
  const auto of_each = [](const auto& equal) {
    return [&](const auto& x, const auto& y) { return std::ranges::equal(x, y, equal); };
  };
  return std::ranges::equal(a.unit.steps, b.unit.steps, of_each(same_steps)) &&
         a.unit.wait_pool == b.unit.wait_pool && a.unit.place_pool == b.unit.place_pool &&
         a.unit.channels == b.unit.channels && a.unit.scratch_bytes == b.unit.scratch_bytes &&
         a.toward == b.toward && a.waits_toward == b.waits_toward && a.stage == b.stage &&
         std::ranges::equal(a.seen, b.seen, of_each(same_seen));
}

// The parts of a pipeline that are written as the first one are what they are when each is written by itself.
TEST(Symmetric, PartsOfAPipelineAreWrittenAsTheFirst) {
  const std::vector<std::vector<Level>> hierarchies = {
      {{5, "ring"}}, {{2, "mesh"}, {3, "ring"}}, {{2, "ring"}, {2, "ring"}, {3, "mesh"}}};
  int compared = 0;
  for (const auto& levels : hierarchies)
    for (const Layout& unit : {simple_layout(1), simple_layout(4), simple_layout(6, 2), simple_layout(8, 2)})
      for (const char* within : {"mesh", "ring", "kangaring", "rdh"})
        for (const int pipeline : {1, 2, 3}) {
          const Hierarchy hierarchy{within, levels, pipeline};
          const int per_unit = static_cast<int>(unit.ranks.size());
          Request request{.ranks = per_unit * hierarchy.units(), .dtype = DType::kBFloat16};
          request.bytes =
              symmetric_bytes(hierarchy, request.kind, 14 * request.ranks, request.dtype, per_unit);
          try {
            ASSERT_TRUE(same(symmetric_plan(request, hierarchy, unit),
                             symmetric_plan(request, hierarchy, unit, Parts::kEach)))
                << within << " " << per_unit << " ranks a unit, " << pipeline << " parts";
          } catch (const Fault& fault) {
            ASSERT_EQ(fault.label(), "collectives.serves");
            continue;
          }
          ++compared;
        }
  EXPECT_GT(compared, 80);
}

// Straight to the target, written out.
TEST(Symmetric, DirectPlansDoWhatIsAsked) {
  const std::vector<std::vector<Level>> hierarchies = {{{2, "ring"}},
                                                       {{5, "ring"}},
                                                       {{2, "ring"}, {2, "ring"}, {3, "ring", true}},
                                                       {{4, "mesh"}, {3, "mesh"}}};
  for (const auto& levels : hierarchies)
    for (const int per_unit : {1, 2, 3, 4}) {
      const Hierarchy hierarchy{"", levels, 1};
      Request request;
      request.kind = Kind::kAllToAll;
      request.ranks = per_unit * hierarchy.units();
      request.bytes = 3 * request.ranks;
      EXPECT_EQ(joined(verify(expanded(symmetric_all_to_all(request, hierarchy, per_unit, Written::kAll)))),
                "");
      EXPECT_EQ(joined(verify(expanded(symmetric_shift(5, levels[0], per_unit)))), "");
      int64_t alike = 0;
      for (const auto& list : symmetric_all_to_all(request, hierarchy, per_unit, Written::kAlike).alike)
        for (const int32_t count : list) alike += count;
      EXPECT_EQ(alike * hierarchy.units(), int64_t{request.ranks} * request.ranks);
    }
}

void expect_one_stands_for_all(const ClusterJob& job) {
  const ClusterSummary one = cluster_summary(default_tables(), job, Extent::kOneUnit),
                       classes = cluster_summary(default_tables(), job, Extent::kAllUnits),
                       all = cluster_summary(default_tables(), job, Extent::kAllSteps);
  EXPECT_EQ(one.end_ps, all.end_ps) << job.machine << " " << job.levels;
  EXPECT_EQ(classes.end_ps, all.end_ps);
  EXPECT_EQ(one.steps, all.steps);
  EXPECT_EQ(one.summary.busiest, all.summary.busiest);
  EXPECT_EQ(one.summary.busiest_share, all.summary.busiest_share);
  EXPECT_LE(one.classes * job.units, all.steps);
}

TEST(Symmetric, OneUnitHasTheTimeOfAll) {
  for (const char* machine : {"trn1.32xlarge", "trn2.48xlarge"})
    for (const char* levels : {"", "ring:6", "mesh:6", "rdh:2,ring:3", "mesh:3,mesh:2"})
      for (const Kind kind : {Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter, Kind::kAllToAll}) {
        ClusterJob job;
        job.machine = machine;
        job.units = 6;
        job.cores_per_rank = machine[3] == '1' ? 2 : 8;
        job.kind = kind;
        job.bytes = 50'000'000;
        job.levels = levels;
        job.within = levels[0] == 'm' ? "mesh" : "";
        expect_one_stands_for_all(job);
      }
}

// Instances of UltraServers are units of the plan, whose links and cables one instance stands for.
TEST(Symmetric, OneInstanceHasTheTimeOfItsUltraServerAndOfAll) {
  struct Case {
    const char* machine;
    int cores_per_rank, units, pod;
    Kind kind;
    const char* levels;
  };
  for (const Case& one : {Case{"Trn2 UltraServer", 8, 2, 0, Kind::kAllReduce, ""},
                          Case{"Trn2 UltraServer", 8, 6, 2, Kind::kAllReduce, ""},
                          Case{"Trn2 UltraServer", 8, 4, 2, Kind::kAllGather, "mesh:2,mesh:2"},
                          Case{"Trn2 UltraServer", 4, 3, 0, Kind::kReduceScatter, ""},
                          Case{"Trn2 UltraServer X2H", 4, 4, 2, Kind::kAllReduce, ""},
                          Case{"Trn2 UltraServer X2H", 8, 3, 0, Kind::kAllGather, "ring:3"}}) {
    ClusterJob job;
    job.machine = one.machine;
    job.units = one.units;
    job.cores_per_rank = one.cores_per_rank;
    job.kind = one.kind;
    job.bytes = 300'000'000;
    job.levels = one.levels;
    job.cluster.pod_units = one.pod;
    if (one.pod > 0) job.cluster.oversubscription = 3;
    job.cluster.taken = {{fabric::LinkClass::kUltraServer, 0.25, -1}, {fabric::LinkClass::kEfa, 0.1, -1}};
    expect_one_stands_for_all(job);
    EXPECT_EQ(cluster_summary(default_tables(), job, Extent::kOneUnit).levels[0].instance, 1);
  }
  // What is said of the way within a unit is of the whole UltraServer, and so are small messages.
  ClusterJob job;
  job.machine = "Trn2 UltraServer";
  job.cores_per_rank = 8;
  job.bytes = 300'000'000;
  job.within = "ring";
  EXPECT_EQ(cluster_summary(default_tables(), job, Extent::kOneUnit).levels.size(), 1U);
  job.within = "";
  EXPECT_EQ(cluster_summary(default_tables(), job, Extent::kOneUnit).levels.size(), 3U);
  job.bytes = 1 << 20;
  EXPECT_EQ(cluster_summary(default_tables(), job, Extent::kOneUnit).levels.size(), 1U);
}

// Large meshes of 2^n ranks within units: one rank is written, on links that its unit's ranks load unevenly.
TEST(Symmetric, OneRankHasTheTimeOfAll) {
  struct Case {
    const char* machine;
    int cores_per_rank, units, pod;
    const char* levels;
    Kind kind;
  };
  // The run of all steps takes seconds; drawn clusters are held to classes, which are held to that above.
  for (const Case& one : {Case{"trn2.48xlarge", 2, 2, 0, "rdh:2", Kind::kAllReduce},
                          Case{"trn2.48xlarge", 2, 2, 0, "mesh:2", Kind::kReduceScatter},
                          Case{"trn2.48xlarge", 2, 4, 2, "ring:2,ring:2", Kind::kAllGather}}) {
    ClusterJob job;
    job.machine = one.machine;
    job.units = one.units;
    job.cores_per_rank = one.cores_per_rank;
    job.kind = one.kind;
    job.bytes = 30'000'000;
    job.levels = one.levels;
    job.within = "mesh";
    job.pipeline = 1;
    job.cluster.pod_units = one.pod;
    if (one.pod > 0) job.cluster.oversubscription = 2;
    job.cluster.taken = {{fabric::LinkClass::kNeuronLink, 0.25, -1}};
    expect_one_stands_for_all(job);
    const ClusterSummary summary = cluster_summary(default_tables(), job, Extent::kOneUnit);
    EXPECT_EQ(summary.written * summary.ranks, summary.steps);
    EXPECT_LT(summary.classes * 8, summary.steps / job.units);
  }
}

TEST(Symmetric, OneRankHasTheTimeOfAllOnDrawnClusters) {
  constexpr int kDraws = 12;
  std::mt19937 draw(5);
  const auto below = [&](uint32_t most) { return static_cast<int>(draw() % most); };
  for (int i = 0; i < kDraws; ++i) {
    ClusterJob job;
    const bool is_large = below(3) == 0;
    job.machine = is_large ? "Trn2 UltraServer" : "trn2.48xlarge";
    job.cores_per_rank = is_large ? 8 : 2;
    job.units = 2 + below(4);
    job.cluster.pod_units = job.units % 2 == 0 && below(2) == 0 ? 2 : 0;
    job.kind = std::array{Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter}[draw() % 3];
    job.bytes = 1 + below(100'000'000);
    job.within = "mesh";
    job.pipeline = 1 + below(3);
    job.cluster.oversubscription = 1 + below(3);
    job.cluster.taken = {{fabric::LinkClass::kHbm, 0.1 * below(9), -1}};
    const ClusterSummary one = cluster_summary(default_tables(), job, Extent::kOneUnit),
                         all = cluster_summary(default_tables(), job, Extent::kAllUnits);
    EXPECT_EQ(one.end_ps, all.end_ps) << i;
    EXPECT_EQ(one.steps, all.steps);
    EXPECT_EQ(one.summary.busiest_share, all.summary.busiest_share);
    EXPECT_EQ(one.written * one.ranks, one.steps);
  }
}

TEST(Symmetric, PodsOversubscriptionAndOtherJobs) {
  ClusterJob job;
  job.machine = "trn2.48xlarge";
  job.units = 12;
  job.cores_per_rank = 8;
  job.bytes = 20'000'000;
  job.cluster.pod_units = 4;
  int64_t before = 0;
  for (const double oversubscription : {1.0, 2.0, 7.5}) {
    job.cluster.oversubscription = oversubscription;
    for (const int rails : {1, 16}) {
      job.cluster.rails = rails;
      expect_one_stands_for_all(job);
    }
    const int64_t now = cluster_summary(default_tables(), job, Extent::kOneUnit).end_ps;
    EXPECT_GE(now, before);
    before = now;
  }
  job.cluster.taken = {{fabric::LinkClass::kCore, 0.3, -1}, {fabric::LinkClass::kEfa, 0.1, -1}};
  job.kind = Kind::kAllToAll;
  expect_one_stands_for_all(job);
  job.kind = Kind::kAllReduce;
  expect_one_stands_for_all(job);
  EXPECT_GT(cluster_summary(default_tables(), job, Extent::kOneUnit).end_ps, before);
}

// The run of all units needs no plan that is written out, and is the run of that plan.
TEST(Symmetric, ARunOfAllUnitsIsTheRunOfThePlanWrittenOut) {
  constexpr int kUnits = 6, kPerUnit = 16;
  const fabric::Platform platform = fabric::Platform::make(default_tables(), "trn2.48xlarge", kUnits);
  const int cores_per_rank = platform.cores() / (kUnits * kPerUnit);
  const auto cores_of = [&](int unit, int rank) {
    std::vector<int> cores(static_cast<size_t>(cores_per_rank));
    std::iota(cores.begin(), cores.end(), (unit * kPerUnit + rank) * cores_per_rank);
    return cores;
  };
  std::vector<std::vector<int>> of_unit, by_unit, by_rank;
  for (int rank = 0; rank < kPerUnit; ++rank) {
    of_unit.push_back(cores_of(0, rank));
    for (int unit = 0; unit < kUnits; ++unit) by_rank.push_back(cores_of(unit, rank));
  }
  for (int unit = 0; unit < kUnits; ++unit)
    for (int rank = 0; rank < kPerUnit; ++rank) by_unit.push_back(cores_of(unit, rank));
  for (const std::vector<Level>& levels :
       {std::vector<Level>{{2, "ring"}, {3, "mesh"}}, {{6, "ring"}}, {{3, "ring"}, {2, "ring"}}})
    for (const char* within : {"mesh", "ring"})
      for (const Kind kind : {Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter}) {
        const Hierarchy hierarchy{within, levels, kind == Kind::kAllReduce ? 2 : 1};
        Request request;
        request.kind = kind;
        request.ranks = kUnits * kPerUnit;
        request.dtype = DType::kBFloat16;
        request.bytes = symmetric_bytes(hierarchy, kind, 3'000'000, request.dtype, kPerUnit);
        const SymmetricPlan plan = symmetric_plan(request, hierarchy, layout_of(platform, of_unit));
        const Plan whole = expanded(plan);
        const Costs costs = costs_of(default_tables(), platform.generation(), "hier");
        const collectives::Run written{&whole, costs, by_rank, {}, 0};
        collectives::Run run{&plan.unit, costs, by_unit, {}, 0};
        run.all_units = &plan;
        const Timing expected = time_of(platform, std::span(&written, 1), Folding::kNone);
        for (const Folding folding : {Folding::kNone, Folding::kByClasses}) {
          const ClusterTime time = cluster_time(platform, run, folding);
          EXPECT_EQ(time.end_ps, expected.end_ps()) << within << " " << name_of(kind);
          EXPECT_EQ(time.carried, expected.carried);
          EXPECT_EQ(time.steps, expected.steps);
        }
      }
}

// A unit that differs is refused where one stands for all, and found by the classes.
TEST(Symmetric, AUnitThatDiffers) {
  ClusterJob job;
  job.machine = "trn1.32xlarge";
  job.units = 8;
  job.cores_per_rank = 2;
  job.bytes = 1 << 20;
  job.levels = "mesh:8";
  job.within = "mesh";
  job.cluster.taken = {{fabric::LinkClass::kEfa, 0.5, 3}};
  EXPECT_THROW(cluster_summary(default_tables(), job, Extent::kOneUnit), Fault);
  const ClusterSummary classes = cluster_summary(default_tables(), job, Extent::kAllUnits),
                       all = cluster_summary(default_tables(), job, Extent::kAllSteps);
  EXPECT_EQ(classes.end_ps, all.end_ps);
  EXPECT_LT(classes.classes * 2, all.classes);
}

// 200,000 steps and more, and one instance with a slow adapter among them: so many are simulated with what is
// alike of their flows solved once.
TEST(Symmetric, EveryStepOfManyUnits) {
  ClusterJob job;
  job.machine = "trn2.48xlarge";
  job.units = 245;
  job.cores_per_rank = 8;
  job.bytes = 100'000'000;
  job.cluster.pod_units = 5;
  job.cluster.oversubscription = 2;
  job.within = "mesh";
  job.levels = "mesh:5,mesh:7,mesh:7";
  job.pipeline = 1;
  const ClusterSummary one = cluster_summary(default_tables(), job, Extent::kOneUnit),
                       all = cluster_summary(default_tables(), job, Extent::kAllSteps);
  EXPECT_GT(all.steps, 200'000);
  EXPECT_EQ(one.end_ps, all.end_ps);
  job.cluster.taken = {{fabric::LinkClass::kEfa, 0.5, 100}};
  const ClusterSummary classes = cluster_summary(default_tables(), job, Extent::kAllUnits),
                       slower = cluster_summary(default_tables(), job, Extent::kAllSteps);
  EXPECT_EQ(classes.end_ps, slower.end_ps);
  EXPECT_GT(slower.end_ps, all.end_ps);
}

TEST(Symmetric, WhatIsNoClusterIsRefused) {
  ClusterJob job;
  job.machine = "trn2.48xlarge";
  job.bytes = 1 << 20;
  const auto refused = [&](auto change) {
    ClusterJob changed = job;
    changed.units = 12;
    change(changed);
    EXPECT_THROW(cluster_summary(default_tables(), changed, Extent::kOneUnit), Fault);
  };
  refused([](ClusterJob& j) { j.units = 1; });
  refused([](ClusterJob& j) { j.cluster.pod_units = 5; });
  refused([](ClusterJob& j) { j.cluster.pod_units = 4, j.cluster.rails = 3; });
  refused([](ClusterJob& j) { j.cluster.pod_units = 4, j.cluster.oversubscription = 0.5; });
  for (const double much : {1e300, std::numeric_limits<double>::infinity()}) try {
      ClusterJob changed = job;
      changed.units = 12;
      changed.cluster.pod_units = 4;
      changed.cluster.oversubscription = much;
      cluster_summary(default_tables(), changed, Extent::kOneUnit);
      ADD_FAILURE() << much;
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.label(), "fabric.cluster");
    }
  refused([](ClusterJob& j) { j.cluster.taken = {{fabric::LinkClass::kEfa, 1.0, -1}}; });
  refused([](ClusterJob& j) { j.cluster.taken = {{fabric::LinkClass::kSwitch, 0.5, -1}}; });
  refused([](ClusterJob& j) { j.levels = "ring:5"; });
  refused([](ClusterJob& j) { j.levels = "rdh:12"; });
  refused([](ClusterJob& j) { j.levels = "tree:12"; });
  refused([](ClusterJob& j) { j.levels = "ring"; });
  refused([](ClusterJob& j) { j.cluster.pod_units = 4, j.levels = "ring:6,ring:2"; });
  refused([](ClusterJob& j) { j.kind = Kind::kBroadcast; });
  refused([](ClusterJob& j) { j.pipeline = 4; });
  refused([](ClusterJob& j) { j.cores_per_rank = 3; });
}

}  // namespace
}  // namespace opentrn::collectives
