#include "planner/links.h"

#include <gtest/gtest.h>

#include "base/fault.h"
#include "collectives/cluster.h"
#include "collectives/summary.h"
#include "planner/contributors.h"
#include "planner/cost_on_links.h"
#include "planner/hf_config.h"

namespace opentrn::planner::links_tests {
namespace {

using collectives::Kind;

const arch::Tables& link_tables() { return arch::default_tables(); }

TEST(Links, ACollectiveInsideAnInstanceIsThatOfItsPlans) {
  Links links(link_tables(), "trn1.32xlarge", 1, 1, {});
  const fabric::Platform platform = fabric::Platform::make(link_tables(), "trn1.32xlarge", 1);
  const auto cores = collectives::place_ranks(platform, 32, 1, 1);
  for (const int64_t bytes : {64 << 10, 16 << 20}) {
    const double us = collectives::summary_of(link_tables(), platform, cores,
                                              {Kind::kAllGather, DType::kBFloat16, bytes, 8, ""})
                          .us;
    EXPECT_NEAR(1e6 * links.seconds(Kind::kAllGather, {8, 1}, double(bytes)), us, 0.02 * us) << bytes;
  }
  EXPECT_EQ(links.simulated(), 2);
  links.seconds(Kind::kAllGather, {8, 1}, 64 << 10);
  EXPECT_EQ(links.simulated(), 2);  // known
}

// `opentrn fabric cluster` knows collectives on all ranks; a group of all of them is the same.
TEST(Links, ACollectiveOfAllRanksIsThatOfTheCluster) {
  constexpr int kUnits = 49, kRanks = 64;
  Links links(link_tables(), "trn2.48xlarge", kUnits, 2, {});
  collectives::ClusterJob job;
  job.machine = "trn2.48xlarge";
  job.units = kUnits;
  job.cores_per_rank = 2;
  job.dtype = DType::kBFloat16;
  job.bytes = int64_t{kUnits} * kRanks * 65536;
  const auto cluster = collectives::cluster_summary(link_tables(), job, collectives::Extent::kOneUnit);
  const double ours =
      1e12 * links.seconds(Kind::kAllReduce, {int64_t{kUnits} * kRanks, 1}, double(job.bytes));
  EXPECT_NEAR(ours / double(cluster.end_ps), 1, 0.05);
}

// Groups of every eighth rank share the adapters with seven others, which groups of neighbours do not.
TEST(Links, GroupsThatGoBetweenUnitsShareTheAdapters) {
  Links links(link_tables(), "trn1.32xlarge", 4, 1, {});
  const double bytes = 64e6;
  const double inside = links.seconds(Kind::kAllReduce, {8, 1}, bytes);
  const double between = links.seconds(Kind::kAllReduce, {16, 8}, bytes);
  EXPECT_GT(between, 2 * inside);
  // Uplinks of half the bandwidth of the adapters below them.
  Links slow(link_tables(), "trn1.32xlarge", 4, 1, {.pod_units = 1, .oversubscription = 2});
  const double oversubscribed = slow.seconds(Kind::kAllReduce, {16, 8}, bytes);
  EXPECT_GT(oversubscribed, 1.4 * between);
  EXPECT_LT(oversubscribed, 2.2 * between);
  EXPECT_EQ(slow.seconds(Kind::kAllReduce, {8, 1}, bytes), inside);
}

TEST(Links, GroupsThatDoNotDivideTheRanksAreRefused) {
  Links links(link_tables(), "trn1.32xlarge", 2, 1, {});
  for (const Group group : {Group{3, 1}, Group{8, 16}, Group{128, 1}}) {
    try {
      links.seconds(Kind::kAllReduce, group, 1e6);
      FAIL() << group.ranks;
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.kind(), FaultKind::kInput);
      EXPECT_EQ(fault.label(), "plan.links");
    }
  }
}

TEST(Links, CollectivesThatOverlapShareTheLinks) {
  Links links(link_tables(), "trn1.32xlarge", 1, 1, {});
  const double bytes = 64e6;
  const Call inside{Kind::kAllReduce, {8, 1}, bytes, 4}, same{Kind::kAllGather, {8, 1}, bytes},
      across{Kind::kAllGather, {4, 8}, bytes};
  const auto alone = [&](const Call& call) {
    return double(call.count) * links.seconds(call.kind, call.group, call.bytes);
  };
  const auto added = [&](double compute_s, std::span<const Call> in, const Call& hidden) {
    return links.added_s(compute_s, in, std::span(&hidden, 1));
  };
  // It would be over before those inside are, were it on links of its own.
  ASSERT_LT(alone(same), alone(inside));
  EXPECT_GT(added(0, {&inside, 1}, same), 0.5 * alone(same));
  EXPECT_LT(added(0, {&inside, 1}, same), 1.05 * alone(same));
  // Rows and columns of the torus hardly meet, and nothing meets a computation.
  EXPECT_LT(added(0, {&inside, 1}, across), 0.1 * alone(across));
  EXPECT_LT(added(8 * alone(same), {&inside, 1}, same), 0.01 * alone(same));
  EXPECT_NEAR(added(0, {}, same), alone(same), 1e-6 * alone(same));
  EXPECT_EQ(links.added_s(0, std::span(&inside, 1), {}), 0);
}

// A pipeline of sixteen stages on four servers: three of four sends stay inside.
TEST(Links, SendsOfAPipelineOnSeveralServersTakeAsLongAsThoseBetweenThem) {
  Links links(link_tables(), "trn1.32xlarge", 4, 1, {});
  const double bytes = 8e6;
  const double between = links.seconds(Kind::kPermute, {4, 32}, bytes);
  // The last eight ranks of a server send out of it, by as many ranks for each adapter as if all 32 did.
  EXPECT_NEAR(links.seconds(Kind::kPermute, {16, 8}, bytes) / between, 1, 1e-9);
  EXPECT_GT(between, links.seconds(Kind::kPermute, {4, 8}, bytes));
}

Job job_of_70b() {
  Job job{.model = model_named(link_tables(), "Llama-3.1-70B"), .seq = 4096, .global_batch = 512};
  return job;
}

TEST(CostOnLinks, FinalistsAreEvaluatedThere) {
  Machine machine = machine_of(link_tables(), "trn1.32xlarge", 16);
  const Stack stack = stack_of(link_tables(), "neuron");
  const Job job = job_of_70b();
  SearchOptions options;
  options.top = 4;
  SearchResult result = search(job, machine, stack, options);
  ASSERT_FALSE(result.best.empty());
  const SearchResult before = result;
  const OnLinks on = cost_on_links(link_tables(), job, machine, stack, {}, 4, result);
  EXPECT_GT(on.plans, 0U);
  EXPECT_GT(on.links->simulated(), 0);
  for (size_t i = 0; i < on.plans; ++i) {
    const Estimate& plan = result.best[i];
    ASSERT_TRUE(plan.tiers_s);
    EXPECT_EQ(plan.step_s, evaluate(job, machine, stack, plan.layout).step_s);
    EXPECT_NEAR(plan.step_s / *plan.tiers_s, 1, 0.5);
    // Compute and memory are what they were.
    const auto old = std::ranges::find(before.best, plan.layout, &Estimate::layout);
    ASSERT_NE(old, before.best.end());
    EXPECT_EQ(plan.time.compute, old->time.compute);
    EXPECT_EQ(plan.memory.total(), old->memory.total());
    if (i > 0) {
      EXPECT_GE(plan.step_s, result.best[i - 1].step_s);
    }
  }
  const auto inputs = contributors(link_tables(), job, machine, stack, result.best[0], nullptr);
  EXPECT_TRUE(std::ranges::any_of(
      inputs, [](const Contributor& each) { return each.what == "collectives on the links"; }));
  EXPECT_FALSE(std::ranges::any_of(
      inputs, [](const Contributor& each) { return each.what == "network between servers"; }));
}

TEST(CostOnLinks, HiddenSumsOfGradientsShareTheLinksOfTensorParallelism) {
  Machine machine = machine_of(link_tables(), "trn1.32xlarge", 2);
  Stack stack = stack_of(link_tables(), "megatron-core");
  stack.exposed_communication = 0;
  Job job = job_of_70b();
  job.model = model_named(link_tables(), "Llama-3.1-8B");
  machine.links = std::make_shared<Links>(link_tables(), machine.instance, 2, 1, fabric::Cluster{});
  const auto gradients = [&](double hides_tp, int16_t pp, bool hides_sends) {
    stack.hides_tp = hides_tp;
    stack.hides_sends = hides_sends;
    const Layout layout{.tp = 8, .pp = pp, .dp = 8 / pp, .zero = 1, .sp = true};
    const Estimate made = evaluate(job, machine, stack, layout);
    return pp > 1 ? made.time.tp : made.time.gradients;
  };
  // What a rank waits for hides them as a computation does, but not for all of its time.
  const double without = gradients(1, 1, false), beside = gradients(0, 1, false);
  EXPECT_GT(beside, 0);
  EXPECT_LT(beside, without);
  // Sends between stages slow TP's.
  EXPECT_GT(gradients(0, 2, true), gradients(0, 2, false));
}

TEST(Links, GroupsThatLieUnevenlyAreWrittenOut) {
  Links links(link_tables(), "trn1.32xlarge", 3, 1, {});
  const double bytes = 4e6;
  const double even = links.seconds(Kind::kAllReduce, {4, 1}, bytes);
  EXPECT_EQ(links.units_written(), 1);
  // Groups of three lie on two instances, and groups of 32 on all.
  EXPECT_GT(links.seconds(Kind::kAllReduce, {3, 1}, bytes), even);
  EXPECT_GT(links.seconds(Kind::kAllReduce, {32, 3}, bytes), even);
  EXPECT_GT(links.seconds(Kind::kPermute, {6, 16}, bytes), 0);
  EXPECT_EQ(links.units_written(), 3);
  EXPECT_LT(links.classes(), links.written());
  // Stages in pairs, of three: as of two.
  Links two(link_tables(), "trn1.32xlarge", 2, 1, {});
  EXPECT_NEAR(links.seconds(Kind::kAllReduce, {2, 32}, bytes) / two.seconds(Kind::kAllReduce, {2, 32}, bytes),
              1, 1e-9);
}

TEST(CostOnLinks, APlanWhoseGroupsDoNotLieEvenlyIsOnThem) {
  Machine machine = machine_of(link_tables(), "trn1.32xlarge", 4);
  const Stack stack = stack_of(link_tables(), "neuron");
  Job job = job_of_70b();
  job.model = model_named(link_tables(), "Llama-3.1-8B");
  SearchOptions options;
  options.top = 1;
  options.fixed.tp = 8;
  options.fixed.pp = 1;
  SearchResult result = search(job, machine, stack, options);
  ASSERT_EQ(result.best.size(), 1U);
  // Sixteen replicas, four of them on a server, and pods of three servers.
  fabric::Cluster pods;
  pods.pod_units = 3;
  const OnLinks on = cost_on_links(link_tables(), job, machine, stack, pods, 1, result);
  EXPECT_EQ(on.plans, 1U);
  EXPECT_TRUE(on.refused.empty());
  EXPECT_TRUE(result.best[0].tiers_s);
  EXPECT_EQ(on.links->units_written(), 4);
  EXPECT_FALSE(contributors(link_tables(), job, machine, stack, result.best[0], nullptr).empty());
}

TEST(CostOnLinks, MachinesOfOthersHaveNone) {
  Machine machine = machine_of(link_tables(), "p4d.24xlarge", 2);
  SearchResult none;
  EXPECT_THROW(cost_on_links(link_tables(), job_of_70b(), machine, stack_of(link_tables(), "megatron-core"),
                             {}, 4, none),
               Fault);
}

}  // namespace
}  // namespace opentrn::planner::links_tests
