// Steps of jobs: one unit that stands for all against all units written out, and against times of the
// collectives alone.
#include "collectives/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/random.h"
#include "collectives/testing/jobs.h"
#include "collectives/testing/samples.h"

namespace opentrn::collectives {
namespace {

using arch::default_tables;

TrainingStep compute(int64_t us, int64_t hbm_bytes = 0) {
  TrainingStep step;
  step.compute_ps = us * 1'000'000;
  step.hbm_bytes = hbm_bytes;
  return step;
}
TrainingStep collective(Kind kind, std::vector<std::string> over, int64_t bytes, bool beside = false) {
  TrainingStep step;
  step.kind = kind;
  step.over = std::move(over);
  step.bytes = bytes;
  step.beside = beside;
  return step;
}
TrainingStep repeated(int64_t times, std::vector<TrainingStep> steps) {
  TrainingStep step;
  step.repeat = times;
  step.steps = std::move(steps);
  return step;
}

TrainingJob job_on(const char* machine, int units, int cores_per_rank, std::vector<Axis> axes) {
  TrainingJob job;
  job.machine = machine;
  job.units = units;
  job.cores_per_rank = cores_per_rank;
  job.axes = std::move(axes);
  return job;
}

TrainingTime time_of_job(const TrainingJob& job, Extent extent = Extent::kOneUnit) {
  return training_time(default_tables(), job, extent);
}

TEST(Training, OneCollectiveTakesWhatItTakesAlone) {
  for (const Kind kind : {Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter, Kind::kAllToAll}) {
    ClusterJob cluster;
    cluster.machine = "trn2.48xlarge";
    cluster.units = 8;
    cluster.cores_per_rank = 8;
    cluster.kind = kind;
    cluster.bytes = 10'000'000;
    TrainingJob job = job_on("trn2.48xlarge", 8, 8, {{"all", 128}});
    job.blocks = {{"", 1, {collective(kind, {"all"}, cluster.bytes)}}};
    const TrainingTime time = time_of_job(job);
    EXPECT_EQ(time.end_ps, cluster_summary(default_tables(), cluster, Extent::kOneUnit).end_ps)
        << name_of(kind);
    EXPECT_EQ(time.exposed_ps, time.end_ps);
    EXPECT_EQ(time.collectives[0].alone_ps, time.end_ps);
  }
}

TEST(Training, StepsFollowEachOtherUnlessTheyRunBeside) {
  TrainingJob job = job_on("trn1n.32xlarge", 4, 1, {{"tp", 32}, {"dp", 4}});
  const TrainingStep gather = collective(Kind::kAllGather, {"tp"}, 1 << 20),
                     reduce = collective(Kind::kReduceScatter, {"dp"}, 64 << 20);
  job.blocks = {{"gather", 1, {gather}}, {"reduce", 1, {reduce}}};
  const TrainingTime apart = time_of_job(job);
  const int64_t gather_ps = apart.blocks[0].ps, reduce_ps = apart.blocks[1].ps;
  ASSERT_GT(reduce_ps, 3 * gather_ps);

  job.blocks = {{"", 5, {compute(100), gather, compute(50)}}};
  const TrainingTime serial = time_of_job(job);
  EXPECT_EQ(serial.blocks[0].ps, gather_ps + 150'000'000);
  EXPECT_EQ(serial.end_ps, 5 * (gather_ps + 150'000'000));
  EXPECT_EQ(serial.exposed_ps, 5 * gather_ps);
  EXPECT_EQ(serial.collectives[0].count, 5);

  // A reduction beside 10 ms of compute is not seen.
  TrainingStep beside = reduce;
  beside.beside = true;
  job.blocks = {{"", 1, {beside, compute(100'000)}}};
  const TrainingTime hidden = time_of_job(job);
  EXPECT_EQ(hidden.end_ps, 100'000'000'000);
  EXPECT_EQ(hidden.exposed_ps, 0);
  EXPECT_EQ(hidden.blocks[0].collectives_ps, reduce_ps);

  // Both are on the same links: each slows the other down.
  job.blocks = {{"", 1, {beside, collective(Kind::kAllGather, {"dp"}, 64 << 20)}}};
  const TrainingTime shared = time_of_job(job);
  for (const CollectiveUse& use : shared.collectives)
    EXPECT_GT(use.mean_ps, static_cast<double>(use.alone_ps));
  EXPECT_GT(shared.end_ps, reduce_ps);
  EXPECT_LE(shared.end_ps, shared.collectives[0].alone_ps + shared.collectives[1].alone_ps);

  // `wait` comes back to it.
  TrainingStep wait;
  wait.waits = true;
  job.blocks = {{"", 1, {beside, wait, compute(10)}}};
  EXPECT_EQ(time_of_job(job).end_ps, reduce_ps + 10'000'000);
  job.blocks = {{"", 1, {repeated(3, {compute(10), repeated(2, {gather})})}}};
  EXPECT_EQ(time_of_job(job).end_ps, 30'000'000 + 6 * gather_ps);
}

TEST(Training, ComputeTakesTheMemoryThatCollectivesLeave) {
  TrainingJob job = job_on("trn2.48xlarge", 1, 2, {{"tp", 4}, {"dp", 16}});
  const TrainingStep gather = collective(Kind::kAllGather, {"dp"}, 64 << 20, true);
  job.blocks = {{"", 1, {compute(20'000, 10'000'000'000)}}};
  EXPECT_EQ(time_of_job(job).end_ps, 20'000'000'000);
  // It goes on with what a collective leaves of the memory, and is never ahead of its own time.
  job.blocks = {{"", 1, {gather, compute(20'000, 1'000'000'000)}}};
  const TrainingTime light = time_of_job(job);
  EXPECT_GE(light.end_ps, 20'000'000'000);
  EXPECT_LE(light.end_ps, 20'000'000'000 + light.collectives[0].alone_ps);
  EXPECT_EQ(light.collectives[0].mean_ps, static_cast<double>(light.collectives[0].alone_ps));
  job.blocks = {{"", 1, {gather, compute(20'000, 12'500'000'000)}}};
  EXPECT_GT(time_of_job(job).end_ps, 20'000'000'000);
  EXPECT_GE(time_of_job(job).end_ps, light.end_ps);
}

// Random machines, axes, pods and steps: all units written out and every step simulated.
TEST(Training, OneUnitHasTheTimeOfAll) {
  int between = 0;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    SplitMix64 random(seed);
    const bool trn1 = random.below(2) == 0;
    TrainingJob job = job_on(trn1 ? "trn1.32xlarge" : "trn2.48xlarge", 1, trn1 ? 2 : 8, {});
    const std::vector<std::vector<Axis>> shapes = {{{"tp", 16}, {"dp", 6}},
                                                   {{"tp", 4}, {"ep", 8}, {"dp", 3}},
                                                   {{"tp", 8}, {"pp", 2}, {"ep", 3}, {"dp", 2}},
                                                   {{"ep", 32}, {"dp", 3}},
                                                   {{"tp", 16}, {"pp", 3}, {"dp", 2}}};
    job.axes = shapes[random.below(5)];
    job.units = 6;
    if (random.below(2) == 0) {
      job.cluster.pod_units = random.below(2) == 0 ? 1 : 6;
      job.cluster.oversubscription = 1 + static_cast<double>(random.below(4));
    }
    const Kind kinds[] = {Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter, Kind::kAllToAll,
                          Kind::kPermute};
    TrainingBlock block{"", 1, {}};
    for (int i = 0; i < 4; ++i) {
      const Kind kind = kinds[random.below(5)];
      const Axis& axis = job.axes[random.below(static_cast<uint32_t>(job.axes.size()))];
      block.steps.push_back(collective(
          kind, {axis.name}, 1000 + static_cast<int64_t>(random.below(3'000'000)), random.below(2) == 0));
      if (random.below(2) == 0)
        block.steps.push_back(compute(1 + random.below(500), random.below(100'000'000)));
    }
    block.steps.push_back(compute(3));
    job.blocks = {block, block};
    const TrainingTime one = time_of_job(job), all = time_of_job(job, Extent::kAllSteps),
                       classes = time_of_job(job, Extent::kAllUnits);
    EXPECT_EQ(one.end_ps, all.end_ps) << "case " << seed;
    EXPECT_EQ(classes.end_ps, all.end_ps) << "case " << seed;
    EXPECT_EQ(one.exposed_ps, all.exposed_ps);
    ASSERT_EQ(one.collectives.size(), all.collectives.size());
    for (size_t i = 0; i < one.collectives.size(); ++i) {
      EXPECT_EQ(one.collectives[i].mean_ps, all.collectives[i].mean_ps) << "case " << seed;
      EXPECT_EQ(one.collectives[i].alone_ps, all.collectives[i].alone_ps);
      between += one.collectives[i].ranks > 16;
    }
    EXPECT_LE(one.classes, all.classes);
  }
  EXPECT_GT(between, 0);
}

// Stages that send in pods and out of them, and an axis whose ranks lie in units and in others.
TEST(Training, StagesThatDoNotAllSendAlikeHaveTheTimeOfAll) {
  for (const std::vector<Axis>& axes : {std::vector<Axis>{{"tp", 16}, {"pp", 6}, {"dp", 2}},
                                        {{"tp", 4}, {"pp", 16}, {"dp", 3}},
                                        {{"tp", 8}, {"pp", 24}}})
    for (const int pod : {0, 2, 4}) {
      TrainingJob job = job_on("trn1.32xlarge", 1, 2, axes);
      job.units = 12;
      job.cluster.pod_units = pod;
      job.cluster.oversubscription = pod > 0 ? 3 : 1;
      job.blocks = {{"",
                     2,
                     {compute(40, 5'000'000), collective(Kind::kAllReduce, {"tp"}, 2'000'003),
                      collective(Kind::kPermute, {"pp"}, 777'777), compute(3)}}};
      const TrainingTime one = time_of_job(job), all = time_of_job(job, Extent::kAllSteps);
      EXPECT_EQ(one.end_ps, all.end_ps) << axes.size() << " axes, pods of " << pod;
      EXPECT_EQ(one.exposed_ps, all.exposed_ps);
      ASSERT_EQ(one.collectives.size(), 2u);
      EXPECT_EQ(one.collectives[1].mean_ps, all.collectives[1].mean_ps);
      EXPECT_EQ(one.collectives[1].algorithm, "permute");
      EXPECT_LE(one.classes, all.classes);
    }
  // Too many to be written out.
  TrainingJob large = job_on("trn1.32xlarge", 1, 2, {{"tp", 16}, {"pp", 6}, {"dp", 128}});
  large.units = 768;
  large.cluster.pod_units = 4;
  large.blocks = {{"", 1, {collective(Kind::kPermute, {"pp"}, 777'777)}}};
  EXPECT_THROW(time_of_job(large), Fault);
}

// Random factorizations, most of which lie unevenly on units; pods that are not full.
TEST(Training, EveryLayoutHasTheTimeOfAllItsStepsWrittenOut) {
  int uneven = 0, folded = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SplitMix64 random(seed);
    const TrainingJob job = random_job(random, 32, 256);
    const TrainingTime one = time_of_job(job);
    EXPECT_EQ(difference(one, time_of_job(job, Extent::kAllSteps)), "") << text_of(job);
    uneven += one.units_written > 1;
    folded += one.units_written > 1 && one.classes < one.written;
  }
  EXPECT_GT(uneven, 20);
  EXPECT_GT(folded, 5);
}

TEST(Training, GroupsThatLieUnevenlyGoBetweenInstancesOnlyWhereTheyMust) {
  // Three ranks of tensor parallelism do not divide the 32 of an instance: two groups of 32 lie on two each.
  const auto time_of_tp = [](int units, int tp, int dp) {
    TrainingJob job = job_on("trn1.32xlarge", units, 1, {{"tp", tp}, {"dp", dp}});
    job.blocks = {{"", 1, {collective(Kind::kAllReduce, {"tp"}, 4'000'000)}}};
    return time_of_job(job);
  };
  const TrainingTime uneven = time_of_tp(3, 3, 32), even = time_of_tp(4, 4, 32);
  EXPECT_EQ(uneven.units_written, 3);
  EXPECT_EQ(even.units_written, 1);
  EXPECT_GT(uneven.end_ps, even.end_ps);
  EXPECT_LT(uneven.classes, uneven.written);
  // Sixty-fold that, all triples of instances do the same, and so do its classes.
  const TrainingTime large = time_of_tp(60, 3, 640);
  EXPECT_EQ(large.end_ps, uneven.end_ps);
  EXPECT_EQ(large.written, 20 * uneven.written);
  EXPECT_EQ(large.classes, uneven.classes);
  // Together with its neighbour an axis may lie evenly: three by 32 ranks are three instances.
  TrainingJob both = job_on("trn1.32xlarge", 6, 1, {{"tp", 3}, {"cp", 32}, {"dp", 2}});
  both.blocks = {{"", 1, {collective(Kind::kAllReduce, {"cp", "tp"}, 4'000'000)}}};
  EXPECT_EQ(time_of_job(both).units_written, 1);
}

// One instance whose adapters another job uses: no other stands for it.
TEST(Training, AnInstanceThatDiffersIsWrittenOut) {
  TrainingJob job = job_on("trn1.32xlarge", 8, 2, {{"tp", 16}, {"dp", 8}});
  job.blocks = {{"", 1, {collective(Kind::kAllReduce, {"dp"}, 64'000'000), compute(5)}}};
  const TrainingTime alike = time_of_job(job);
  job.cluster.taken = {{fabric::LinkClass::kEfa, 0.5, 2}};
  const TrainingTime one = time_of_job(job), all = time_of_job(job, Extent::kAllSteps);
  EXPECT_EQ(difference(one, all), "");
  EXPECT_EQ(one.units_written, 8);
  EXPECT_LT(one.classes, one.written);
  EXPECT_GT(one.end_ps, 1.5 * static_cast<double>(alike.end_ps));
  // The links of a pod that is not full are those of a full one.
  job.cluster = {};
  job.cluster.pod_units = 3;
  job.cluster.oversubscription = 4;
  EXPECT_EQ(difference(time_of_job(job), time_of_job(job, Extent::kAllSteps)), "");
  job.cluster.pod_units = 9;  // the only one
  EXPECT_EQ(time_of_job(job).end_ps, alike.end_ps);
  EXPECT_EQ(time_of_job(job).units_written, 1);
}

// What follows a wait is simulated once, however often it is repeated.
TEST(Training, PartsOfABlockAreSimulatedOnce) {
  TrainingJob job = job_on("trn1.32xlarge", 3, 1, {{"tp", 3}, {"dp", 32}});
  const TrainingStep sum = collective(Kind::kAllReduce, {"tp"}, 400'000),
                     beside = collective(Kind::kReduceScatter, {"dp"}, 3'000'000, true);
  TrainingStep wait;
  wait.waits = true;
  job.blocks = {{"", 2, {compute(7), sum, beside, compute(20, 9'000'000), sum, wait, sum, compute(1)}}};
  EXPECT_EQ(difference(time_of_job(job), time_of_job(job, Extent::kAllSteps)), "");
  const TrainingTime few = time_of_job(job);
  job.blocks[0].steps = {repeated(20'000, job.blocks[0].steps)};
  const TrainingTime many = time_of_job(job);
  EXPECT_EQ(many.end_ps, 20'000 * few.end_ps);
  EXPECT_EQ(many.exposed_ps, 20'000 * few.exposed_ps);
}

TEST(Training, WhatIsNoJobIsRefused) {
  const auto refused = [](auto change) {
    TrainingJob job = job_on("trn2.48xlarge", 6, 8, {{"tp", 16}, {"dp", 6}});
    job.blocks = {{"", 1, {collective(Kind::kAllReduce, {"dp"}, 1 << 20)}}};
    EXPECT_GT(time_of_job(job).end_ps, 0);
    change(job);
    EXPECT_THROW(time_of_job(job), Fault);
  };
  refused([](TrainingJob& j) { j.axes[1].size = 5; });
  refused([](TrainingJob& j) { j.axes[0].size = 12; });
  refused([](TrainingJob& j) { j.axes.pop_back(); });
  refused([](TrainingJob& j) { j.axes[1].name = "tp"; });
  refused([](TrainingJob& j) { j.axes.push_back({"pp", 2}); });
  refused([](TrainingJob& j) { j.cluster.pod_units = -1; });
  refused([](TrainingJob& j) { j.cluster.taken = {{fabric::LinkClass::kEfa, 0.5, 6}}; });
  refused([](TrainingJob& j) { j.blocks.clear(); });
  refused([](TrainingJob& j) { j.blocks[0].steps.clear(); });
  refused([](TrainingJob& j) { j.blocks[0].repeat = 0; });
  refused([](TrainingJob& j) { j.blocks[0].steps[0].over = {"ep"}; });
  refused([](TrainingJob& j) { j.blocks[0].steps[0].over = {"dp", "dp"}; });
  refused([](TrainingJob& j) { j.blocks[0].steps[0].over = {}; });
  refused([](TrainingJob& j) { j.blocks[0].steps[0].bytes = 0; });
  refused([](TrainingJob& j) { j.blocks[0].steps[0].compute_ps = 5; });
  refused([](TrainingJob& j) { j.blocks[0].steps[0] = {}; });
  refused([](TrainingJob& j) { j.blocks[0].steps[0].repeat = 1'000'001; });
  refused([](TrainingJob& j) { j.blocks[0].steps[0].kind = Kind::kBroadcast; });
  refused([](TrainingJob& j) { j.blocks = {{"", 1'000'000, {repeated(1000, {compute(1'000'000)})}}}; });
}

}  // namespace
}  // namespace opentrn::collectives
