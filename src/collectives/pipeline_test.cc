// One part of a pipeline stands for all: against the plan of all parts, each step of which is simulated.
#include "collectives/pipeline.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "collectives/cluster.h"
#include "collectives/predict.h"
#include "collectives/timing.h"

namespace opentrn::collectives {
namespace {

using arch::default_tables;
using ::testing::ElementsAre;

TEST(Pipeline, PhasesOfPartsOverlap) {
  std::vector<std::pair<int, int>> order;
  for (const PartPhase& at : order_of_phases(2)) order.emplace_back(at.part, at.phase);
  EXPECT_THAT(order, ElementsAre(std::pair(0, 0), std::pair(0, 1), std::pair(1, 0), std::pair(0, 2),
                                 std::pair(1, 1), std::pair(1, 2)));
}

struct Drawn {
  const char* machine;
  int cores_per_rank;
  const char* within;
  std::vector<Level> levels;
};

// One unit stands for all in both, so that what differs is the parts.
TEST(Pipeline, PartsHaveTheTimeOfAllSteps) {
  const std::vector<Drawn> cases = {
      {"trn2.48xlarge", 8, "", {{5, "ring"}}},
      {"trn2.48xlarge", 8, "ring", {{2, "ring"}, {2, "ring"}, {3, "mesh"}}},
      {"trn2.48xlarge", 8, "mesh", {{2, "mesh"}, {2, "ring"}}},
      {"trn2.48xlarge", 4, "", {{2, "ring"}, {3, "ring"}}},
      {"trn2.48xlarge", 4, "rdh", {{4, "mesh"}}},
      {"trn1.32xlarge", 1, "", {{2, "ring"}, {7, "ring"}}},
      {"trn1.32xlarge", 2, "kangaring", {{3, "ring"}}},
      {"trn1n.32xlarge", 2, "ring", {{3, "ring"}}},
  };
  int compared = 0;
  SplitMix64 random(3);
  for (const Drawn& drawn : cases)
    for (const int parts : {2, 3}) {
      fabric::Cluster cluster;
      cluster.taken = {{fabric::LinkClass::kHbm, 0.1 * static_cast<double>(random.below(9)), -1}};
      const Hierarchy hierarchy{drawn.within, drawn.levels, parts}, one{drawn.within, drawn.levels, 1};
      const fabric::Platform platform = fabric::Platform::make(default_tables(), drawn.machine, 2, cluster);
      RankCores cores;
      for (int core = 0; core < platform.cores() / 2; core += drawn.cores_per_rank) {
        cores.emplace_back();
        for (int i = 0; i < drawn.cores_per_rank; ++i) cores.back().push_back(core + i);
      }
      const Layout layout = layout_of(platform, cores);
      const auto per_unit = static_cast<int>(cores.size());
      Request request{.ranks = per_unit * hierarchy.units(), .dtype = DType::kBFloat16};
      request.bytes =
          symmetric_bytes(hierarchy, request.kind, 1 + static_cast<int64_t>(random.below(40'000'000)),
                          request.dtype, per_unit);
      SymmetricPlan all;
      try {
        all = symmetric_plan(request, hierarchy, layout);
      } catch (const Fault& fault) {
        ASSERT_EQ(fault.label(), "collectives.serves");
        continue;
      }
      Request of_part = request;
      of_part.bytes /= parts;
      const SymmetricPlan part = symmetric_plan(of_part, one, layout);
      const Costs costs = costs_of(default_tables(), platform.generation(), "hier");
      const auto away_all = away_of(all), away_part = away_of(part);
      collectives::Run of_all{&all.unit, costs, cores, {}, 0}, of_one{&part.unit, costs, cores, {}, 0};
      of_all.away = &away_all;
      of_one.away = &away_part;
      const ClusterTime expected = cluster_time(platform, of_all, Folding::kNone);
      const auto found = cluster_time_of_parts(platform, of_one, part, parts);
      if (!found) continue;  // little is alike
      EXPECT_EQ(found->end_ps, expected.end_ps) << drawn.machine << " " << drawn.within << " " << parts;
      EXPECT_EQ(found->steps * parts, expected.steps);
      ASSERT_EQ(found->carried.size(), expected.carried.size());
      for (size_t link = 0; link < expected.carried.size(); ++link)
        ASSERT_EQ(found->carried[link], expected.carried[link]) << link;
      ++compared;
    }
  EXPECT_GE(compared, 10);
}

// Two queues, a step of the first and one of the last phase on each; steps of a phase are of one class.
struct Small {
  TimingGraph graph, classes;
  PartSteps steps;
  std::vector<int32_t> of_step;
};
Small small() {
  Small out;
  out.graph.network.links.push_back({0, 0, 1000});
  const fabric::Hop hop{0, fabric::kWholeShare};
  out.graph.add_way(std::span(&hop, 1), 0);
  for (int queue = 0; queue < 2; ++queue)
    for (const int phase : {0, 2}) {
      TimedStep step;
      step.bytes = 100;
      step.begin_ps = 7;
      out.graph.steps.push_back(step);
      if (phase == 2) out.graph.waits.items.push_back(2 * queue);
      out.graph.waits.close();
      out.steps.phase.push_back(static_cast<int8_t>(phase));
      out.steps.queue.push_back(queue);
      out.steps.is_local.push_back(false);
      out.of_step.push_back(phase / 2);
    }
  out.steps.step_ps = 7;
  out.classes = out.graph;
  out.classes.steps.resize(2);
  out.classes.waits.first.resize(3);
  out.classes.waits.items.resize(1);
  return out;
}

std::vector<int32_t> waits_of(const TimingGraph& graph, int32_t step) {
  const auto waits = graph.waits.of(step);
  return {waits.begin(), waits.end()};
}

TEST(Pipeline, APhaseBeginsBehindTheOneThatItsQueueHasBefore) {
  const Small one = small();
  const auto all = pipelined(one.classes, one.of_step, one.steps, 3);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->steps.size(), 6U);
  EXPECT_THAT(waits_of(*all, 0), ElementsAre());
  EXPECT_THAT(waits_of(*all, 2), ElementsAre(0));     // the first phase of the second part
  EXPECT_THAT(waits_of(*all, 1), ElementsAre(0, 2));  // the last one of the first part
  EXPECT_THAT(waits_of(*all, 4), ElementsAre(1));
  EXPECT_THAT(waits_of(*all, 3), ElementsAre(2, 4));
  EXPECT_THAT(waits_of(*all, 5), ElementsAre(4, 3));  // no first phase is left
}

// What a queue has behind a phase is of another class than on the other queue, or nothing, or in memory.
TEST(Pipeline, ClassesThatDoNotBeginAlikeAreRefused) {
  Small one = small();
  one.of_step = {0, 1, 0, 2};
  one.classes = one.graph;
  EXPECT_FALSE(pipelined(one.classes, one.of_step, one.steps, 3));
  one = small();
  one.steps.queue[3] = 0;
  EXPECT_FALSE(pipelined(one.classes, one.of_step, one.steps, 3));
  one = small();
  one.steps.is_local[2] = true;
  EXPECT_FALSE(pipelined(one.classes, one.of_step, one.steps, 3));
}

TEST(Pipeline, StepsOfQueuesThatGoOnOtherwiseAreToldApart) {
  Small one = small();
  tell_phases_apart(one.graph, one.steps);
  EXPECT_FALSE(tell_queues_apart(one.graph, one.of_step, one.steps));
  one.of_step = {0, 1, 0, 2};
  EXPECT_TRUE(tell_queues_apart(one.graph, one.of_step, one.steps));
  EXPECT_NE(one.graph.steps[0].kind, one.graph.steps[2].kind);
  one.of_step = {0, 1, 3, 2};
  EXPECT_FALSE(tell_queues_apart(one.graph, one.of_step, one.steps));
}

// A local step behind one continues its request, whichever part that is of.
TEST(Pipeline, LocalStepsContinueThoseOfOtherParts) {
  Small one = small();
  one.steps.is_local.assign(4, true);
  tell_phases_apart(one.graph, one.steps);
  EXPECT_NE(one.graph.steps[0].kind, one.graph.steps[1].kind);
  const auto all = pipelined(one.classes, one.of_step, one.steps, 2);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->steps[0].begin_ps, 7);
  for (size_t step = 1; step < 4; ++step) EXPECT_EQ(all->steps[step].begin_ps, 0) << step;
}

}  // namespace
}  // namespace opentrn::collectives
