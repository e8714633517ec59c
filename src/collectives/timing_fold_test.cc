// Runs in which one step stands for all that symmetry makes equal, against runs of all steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "collectives/algorithms.h"
#include "collectives/predict.h"
#include "collectives/ring_orders.h"
#include "collectives/simulation.h"
#include "collectives/values.h"
#include "fabric/alike_flows.h"
#include "fabric/recurring_flows.h"

namespace opentrn::collectives {
namespace {

using arch::default_tables;
using fabric::Platform;

void expect_same(const Timing& folded, const Timing& all, const std::string& what) {
  ASSERT_EQ(folded.runs.size(), all.runs.size());
  EXPECT_EQ(folded.carried, all.carried) << what;
  for (size_t run = 0; run < all.runs.size(); ++run) {
    ASSERT_EQ(folded.runs[run].ends_ps, all.runs[run].ends_ps) << what;
    for (size_t rank = 0; rank < all.runs[run].steps.size(); ++rank)
      for (size_t step = 0; step < all.runs[run].steps[rank].size(); ++step) {
        ASSERT_EQ(folded.runs[run].steps[rank][step].start_ps, all.runs[run].steps[rank][step].start_ps)
            << what;
        ASSERT_EQ(folded.runs[run].steps[rank][step].end_ps, all.runs[run].steps[rank][step].end_ps) << what;
      }
  }
}

// What simulate() does where it pays: with large graphs, components of flows that are alike are solved once,
// with others, sets of flows that come again are.
// Whether it does here.
template <typename TheFlows>
bool is_same_over(const Platform& platform, std::span<const collectives::Run> runs, const Timing& all,
                  const std::string& what) {
  const TimingGraph graph = timing_graph(platform, runs);
  SimulationOver<TheFlows> simulation(graph);
  const std::optional<GraphTimes> times = simulation.run_while_it_pays();
  if (!times) return false;
  EXPECT_EQ(times->carried, all.carried) << what;
  size_t next = 0;
  for (const RunTime& run : all.runs)
    for (const auto& list : run.steps)
      for (const StepTime& step : list) {
        EXPECT_EQ(times->steps[next].start_ps, step.start_ps) << what;
        EXPECT_EQ(times->steps[next++].end_ps, step.end_ps) << what;
      }
  return true;
}

// Random machines, operations, algorithms, sizes, late ranks and groups: regular ones and such that have no
// symmetry left.
TEST(TimingFold, EveryStepHasTheTimeOfTheRunOfAll) {
  const char* machines[] = {"trn1n.32xlarge",   "trn2.48xlarge", "Trn2 UltraServer",
                            "trn3-gen1-server", "inf2.48xlarge", "trn1.32xlarge"};
  const Kind kinds[] = {Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter, Kind::kAllToAll};
  const char* algorithms[] = {"mesh", "ring", "rdh", "kangaring", "mesh_single_step", "hier", "flat_ring"};
  int folded_runs = 0, runs_seen = 0, alike_runs = 0, recurring_runs = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    SplitMix64 random(seed);
    const int count = 1 + static_cast<int>(random.below(3));
    const char* machine = machines[random.below(6)];
    const Platform platform =
        Platform::make(default_tables(), machine, std::string(machine) == "inf2.48xlarge" ? 1 : count);
    std::vector<Plan> plans(1 + random.below(2));
    std::vector<collectives::Run> runs;
    for (Plan& plan : plans) {
      int ranks = 1 << (1 + random.below(4));
      if (random.below(3) == 0) ranks = 2 + static_cast<int>(random.below(20));
      RankCores cores;
      for (int rank = 0; rank < ranks; ++rank)
        cores.push_back({random.below(8) == 0 ? rank : rank * (platform.cores() / ranks)});
      std::sort(cores.begin(), cores.end());
      cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
      ranks = static_cast<int>(cores.size());
      const Kind kind = kinds[random.below(4)];
      Request request;
      request.kind = kind;
      request.ranks = ranks;
      request.bytes = static_cast<int64_t>(1 + random.below(1 << random.below(22))) * ranks;
      request.dtype = DType::kUint8;
      const Layout layout = layout_of(platform, cores);
      std::string algorithm = kind == Kind::kAllToAll ? "all_to_all" : algorithms[random.below(7)];
      if (!collectives::algorithm(algorithm).why_not(request, layout).empty()) algorithm = "mesh";
      if (!collectives::algorithm(algorithm).why_not(request, layout).empty()) algorithm = "all_to_all";
      plan = make_plan(algorithm, request, layout);
      collectives::Run run{&plan, costs_of(default_tables(), platform.generation(), algorithm), cores, {}, 0};
      if (random.below(2) == 0) run.arrivals_ps.assign(static_cast<size_t>(ranks), 0);
      if (!run.arrivals_ps.empty() && random.below(2) == 0)
        run.arrivals_ps[random.below(static_cast<uint64_t>(ranks))] =
            static_cast<int64_t>(random.below(50'000'000));
      run.priority = static_cast<int>(random.below(2));
      runs.push_back(run);
    }
    const Timing folded = time_of(platform, runs), all = time_of(platform, runs, Folding::kNone);
    expect_same(folded, all, "seed " + std::to_string(seed));
    ASSERT_EQ(all.classes, all.steps);
    alike_runs += is_same_over<fabric::AlikeFlows>(platform, runs, all, "seed " + std::to_string(seed));
    recurring_runs +=
        is_same_over<fabric::RecurringFlows>(platform, runs, all, "seed " + std::to_string(seed));
    ++runs_seen;
    folded_runs += folded.classes < folded.steps;
  }
  EXPECT_GT(folded_runs, runs_seen / 3);
  EXPECT_EQ(alike_runs, runs_seen);
  EXPECT_GT(recurring_runs, runs_seen / 3);
}

TEST(TimingFold, ALinkThatIsSlowerHasAClassOfItsOwn) {
  fabric::Cluster slower;
  slower.taken = {{fabric::LinkClass::kEfa, 0.5, 1}};
  const Platform even = Platform::make(default_tables(), "trn1.32xlarge", 4),
                 uneven = Platform::make(default_tables(), "trn1.32xlarge", 4, slower);
  const RankCores cores = place_ranks(even, 128, 1, 4);
  Request request;
  request.kind = Kind::kAllGather;
  request.ranks = 128;
  request.bytes = 1 << 14;
  const Plan plan = make_plan("mesh", request, layout_of(even, cores));
  const collectives::Run run{&plan, costs_of(default_tables(), even.generation(), "mesh"), cores, {}, 0};
  const Timing alike = time_of(even, std::span(&run, 1)), unlike = time_of(uneven, std::span(&run, 1));
  EXPECT_LT(alike.classes * 8, alike.steps);
  EXPECT_GT(unlike.classes, alike.classes);
  EXPECT_GT(unlike.end_ps(), alike.end_ps());
  expect_same(unlike, time_of(uneven, std::span(&run, 1), Folding::kNone), "one slow server");
}

// A ring leaves a chip from the rank at the link to the next one, and comes to the rank at its other end: its
// bytes cross no chip but within it.
TEST(TimingFold, RingsLeaveAChipAtThePortOfTheNext) {
  const Platform platform = Platform::make(default_tables(), "trn2.48xlarge");
  for (const int cores_per_rank : {1, 2}) {
    const RankCores cores = place_ranks(platform, 128 / cores_per_rank, cores_per_rank, 1);
    const Layout layout = layout_of(platform, cores);
    check(layout, static_cast<int>(cores.size()));
    std::vector<int> members(cores.size());
    for (size_t i = 0; i < members.size(); ++i) members[i] = static_cast<int>(i);
    const auto orders = ring_orders(layout, members);
    ASSERT_EQ(orders.size(), 4u);
    for (const std::vector<int>& order : orders)
      for (size_t i = 0; i < order.size(); ++i) {
        const auto place = [&](size_t at) {
          return platform.place(cores[static_cast<size_t>(order[at % order.size()])][0]);
        };
        const fabric::Place from = place(i), to = place(i + 1);
        if (from.chip == to.chip) continue;
        EXPECT_EQ(from.seng, platform.port(from.chip, to.chip)) << from.chip << " to " << to.chip;
        EXPECT_EQ(to.seng, platform.port(to.chip, from.chip)) << from.chip << " to " << to.chip;
      }
  }
}

// The two rings of the torus with their directions are one ring seen from 16 places: a step stands for 16.
TEST(TimingFold, StepsOfTheRingsOfAWholeTorusAreAlike) {
  const Platform platform = Platform::make(default_tables(), "trn2.48xlarge");
  for (const char* algorithm : {"ring", "kangaring"}) {
    const RankCores cores = place_ranks(platform, 64, 2, 1);
    Request request;
    request.kind = Kind::kAllReduce;
    request.ranks = 64;
    request.bytes = 64 << 12;
    request.dtype = DType::kFloat32;
    const Layout layout = layout_of(platform, cores);
    const Plan plan = make_plan(algorithm, request, layout);
    const collectives::Run run{
        &plan, costs_of(default_tables(), platform.generation(), algorithm), cores, {}, 0};
    const Timing folded = time_of(platform, std::span(&run, 1));
    prove(plan);
    EXPECT_LE(folded.classes * 16, folded.steps) << algorithm;
    expect_same(folded, time_of(platform, std::span(&run, 1), Folding::kNone), algorithm);
  }
}

// An all-reduce over the 128 ranks of an UltraServer, of which at most one step in `alike` is simulated.
void expect_alike_in_an_ultraserver(const char* algorithm, int64_t bytes, DType dtype, int64_t alike) {
  const Platform platform = Platform::make(default_tables(), "Trn2 UltraServer");
  const RankCores cores = place_ranks(platform, 128, 4, 0);
  Request request;
  request.kind = Kind::kAllReduce;
  request.ranks = 128;
  request.bytes = bytes;
  request.dtype = dtype;
  const Plan plan = make_plan(algorithm, request, layout_of(platform, cores));
  const collectives::Run run{
      &plan, costs_of(default_tables(), platform.generation(), algorithm), cores, {}, 0};
  const Timing folded = time_of(platform, std::span(&run, 1));
  prove(plan);
  EXPECT_LE(folded.classes * alike, folded.steps);
  expect_same(folded, time_of(platform, std::span(&run, 1), Folding::kNone), algorithm);
}

// Chains of sums are relative to their owner, so displacements by two along each axis of the UltraServer keep
// them: two rows, two columns, two instances.
TEST(TimingFold, StepsOfTheMeshOfAnUltraServerAreAlike) {
  expect_alike_in_an_ultraserver("mesh", 1 << 15, DType::kUint8, 8);
}

// The parts of its pipeline are cut where the ranks' parts of them are equally long: 2^n bytes in thirds keep
// what is alike. A ring whose share is the part of its own instance starts before the others, so that two of
// the four instances are alike.
TEST(TimingFold, StepsOfThePipelineOverInstancesAreAlike) {
  expect_alike_in_an_ultraserver("hier", 1 << 26, DType::kFloat32, 2);
}

TEST(TimingFold, PassesThatAreNoOrderOfAChipsRanksAreRefused) {
  Layout layout = simple_layout(4, 2);
  layout.passes = {{{1, 0}, {0, 1}}};
  check(layout, 4);
  for (const auto& wrong :
       std::vector<std::vector<std::vector<int>>>{{{1, 0}}, {{1, 1}, {0, 1}}, {{0}, {0, 1}}}) {
    layout.passes = {wrong};
    EXPECT_THROW(check(layout, 4), Fault);
  }
}

}  // namespace
}  // namespace opentrn::collectives
