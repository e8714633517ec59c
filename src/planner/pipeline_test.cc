#include "planner/pipeline.h"

#include <random>

#include <gtest/gtest.h>

#include "planner/pipeline_events.h"

namespace opentrn::planner {
namespace {

Pipeline closed_form(const std::vector<StageTime>& stages, int chunks, int64_t micro_batches) {
  Pipeline pipeline{
      .stages = static_cast<int>(stages.size()), .chunks = chunks, .micro_batches = micro_batches};
  for (const StageTime& stage : stages) {
    pipeline.slowest_s = std::max(pipeline.slowest_s, stage.forward + stage.backward);
    pipeline.sum_s += stage.forward + stage.backward;
  }
  return pipeline;
}

TEST(Pipeline, IsTheScheduleExactlyWhereStagesAreEqual) {
  for (const int stages : {1, 2, 3, 4, 8, 12})
    for (const int chunks : {1, 2, 3, 5})
      for (const int rounds : {1, 2, 5}) {
        if (stages == 1 && chunks > 1) continue;
        const int64_t micro_batches = int64_t{stages} * rounds;
        const std::vector<StageTime> equal(stages, {1.25, 2.5});
        EXPECT_NEAR(pipeline_s(closed_form(equal, chunks, micro_batches)).total_s(),
                    simulate_pipeline_s(equal, chunks, micro_batches, 0), 1e-9)
            << stages << " stages, " << chunks << " chunks, " << micro_batches << " micro-batches";
      }
}

TEST(Pipeline, IsWithinATenthOfTheScheduleOfUnequalStages) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> time(0.9, 1.2);
  for (int round = 0; round < 200; ++round) {
    const int depth = 2 + static_cast<int>(random() % 7);
    std::vector<StageTime> stages;
    for (int i = 0; i < depth; ++i) {
      const double forward = time(random);
      stages.push_back({forward, 2 * forward});
    }
    const int64_t micro_batches = depth + static_cast<int64_t>(random() % 40);
    const double ours = pipeline_s(closed_form(stages, 1, micro_batches)).total_s();
    const double schedule = simulate_pipeline_s(stages, 1, micro_batches, 0);
    EXPECT_NEAR(ours / schedule, 1, 0.1) << depth << " stages, " << micro_batches << " micro-batches";
  }
}

// Equal stages: forward, backward, and of that the weights' gradients.
const StageTime kTimes[] = {{1, 2, 1}, {1, 2, 0.8}, {1, 2.3, 1}, {1.5, 2.25, 0.5}};

TEST(Pipeline, ZeroBubbleAndDualPipeAreTheirSchedulesExactlyWhereStagesAreEqual) {
  for (const StageTime& time : kTimes)
    for (const int stages : {2, 4, 8, 12})
      for (const int64_t micro_batches : {2 * stages, 5 * stages})
        for (const Schedule schedule : {Schedule::kZbH1, Schedule::kDualPipe}) {
          const std::vector<StageTime> equal(stages, time);
          Pipeline pipeline = closed_form(equal, 1, micro_batches);
          pipeline.schedule = schedule;
          pipeline.forward_s = time.forward;
          pipeline.backward_s = time.backward;
          pipeline.weight_s = time.weight;
          const PipelineRun run = run_pipeline(schedule, equal, 1, micro_batches, 0);
          EXPECT_NEAR(pipeline_s(pipeline).total_s(), run.end_s, 1e-9)
              << to_string(schedule) << " " << stages << " stages, " << micro_batches << " micro-batches";
          EXPECT_DOUBLE_EQ(in_flight(schedule, stages, 1, micro_batches), run.in_flight)
              << to_string(schedule);
        }
}

// On as many ticks as there are micro-batches and other stages all of them compute, each way.
TEST(Pipeline, GPipeIsItsScheduleExactlyWhereStagesAreEqual) {
  for (const StageTime& time : kTimes)
    for (const int stages : {2, 3, 8})
      for (const int64_t micro_batches : {1, 2, 24}) {
        const std::vector<StageTime> equal(stages, time);
        Pipeline pipeline = closed_form(equal, 1, micro_batches);
        pipeline.schedule = Schedule::kGPipe;
        pipeline.forward_s = time.forward;
        pipeline.backward_s = time.backward;
        const double ticks = double(micro_batches) + stages - 1;
        EXPECT_NEAR(pipeline_s(pipeline).total_s(), ticks * (time.forward + time.backward), 1e-9);
        const PipelineRun run = run_pipeline(Schedule::kGPipe, equal, 1, micro_batches, 0);
        EXPECT_NEAR(pipeline_s(pipeline).total_s(), run.end_s, 1e-9);
        EXPECT_EQ(run.in_flight, double(micro_batches));
        // What ticks without a micro-batch are given is kept too.
        EXPECT_EQ(in_flight(Schedule::kGPipe, stages, 1, micro_batches), ticks);
        pipeline.send_s = 0.125;
        EXPECT_NEAR(pipeline_s(pipeline).sends_s, 2 * ticks * 0.125, 1e-9);
      }
}

// As GPipe, with one chunk of a stage on a tick; what is kept is bounded by the stages.
TEST(Pipeline, Alternating1F1BInTicksIsItsScheduleExactlyWhereStagesAreEqual) {
  for (const StageTime& time : kTimes)
    for (const int stages : {2, 3, 8})
      for (const int chunks : {1, 2, 3})
        for (const int64_t rounds : {1, 2, 6}) {
          const int64_t micro_batches = rounds * stages;
          const std::vector<StageTime> equal(stages, time);
          Pipeline pipeline = closed_form(equal, chunks, micro_batches);
          pipeline.schedule = Schedule::k1F1BInTicks;
          pipeline.forward_s = time.forward;
          pipeline.backward_s = time.backward;
          const double ticks = double(micro_batches * chunks) + stages - 1;
          EXPECT_NEAR(pipeline_s(pipeline).total_s(), ticks * (time.forward + time.backward) / chunks, 1e-9);
          const PipelineRun run = run_pipeline(Schedule::k1F1BInTicks, equal, chunks, micro_batches, 0);
          EXPECT_NEAR(pipeline_s(pipeline).total_s(), run.end_s, 1e-9);
          const double kept = in_flight(Schedule::k1F1BInTicks, stages, chunks, micro_batches);
          EXPECT_GE(kept, run.in_flight);  // places of chunks that are free stay
          EXPECT_LT(kept, 2 * stages);
          if (chunks == 1) {
            EXPECT_EQ(run.in_flight, std::min<double>(double(micro_batches), 2 * stages - 1));
          }
          pipeline.send_s = 0.125;
          EXPECT_NEAR(pipeline_s(pipeline).sends_s, 2 * ticks * 0.125, 1e-9);
        }
}

// Tick by tick: all stages wait for who has a pass, whether it has a micro-batch or not; gradients of weights
// are on ticks on which all stages have some.
TEST(Pipeline, ZeroBubbleInTicksHasWeightsOnFullTicksAlone) {
  const StageTime time = kTimes[0];
  for (const int stages : {2, 3, 8})
    for (const int64_t micro_batches : {1, 2, 7, 24}) {
      double all = 0;
      for (int64_t tick = 0; tick < micro_batches + 2 * stages - 2; ++tick) {
        const auto is_one = [&](int64_t micro) { return micro >= 0 && micro < micro_batches; };
        bool forward = false, backward = false;
        int weights = 0;
        for (int stage = 0; stage < stages; ++stage) {
          forward |= is_one(tick - stage);
          backward |= is_one(tick - 2 * stages + 2 + stage);
          weights += is_one(tick - 2 * stages + 2);
        }
        ASSERT_TRUE(weights == 0 || weights == stages);
        all +=
            forward * time.forward + backward * (time.backward - time.weight) + (weights > 0) * time.weight;
      }
      Pipeline pipeline = closed_form(std::vector<StageTime>(stages, time), 1, micro_batches);
      pipeline.schedule = Schedule::kZbInTicks;
      pipeline.forward_s = time.forward;
      pipeline.backward_s = time.backward;
      pipeline.weight_s = time.weight;
      EXPECT_NEAR(pipeline_s(pipeline).total_s(), all, 1e-9);
      // Whose stages do not wait for each other's ticks are no later.
      const std::vector<StageTime> equal(stages, time);
      EXPECT_LE(run_pipeline(Schedule::kZbInTicks, equal, 1, micro_batches, 0).end_s, all + 1e-9);
      EXPECT_EQ(in_flight(Schedule::kZbInTicks, stages, 1, micro_batches),
                in_flight(Schedule::k1F1BInTicks, stages, 1, micro_batches));
    }
}

// Each tick has two passes, of micro-batches from both ends; stages that do not wait for each other's are no
// later.
TEST(Pipeline, DualPipeInTicksHasTwiceTheTicksWithoutAMicroBatch) {
  const StageTime time = kTimes[0];
  for (const int stages : {2, 3, 8})
    for (const int64_t micro_batches : {2, 6, 24}) {
      const std::vector<StageTime> equal(stages, time);
      Pipeline pipeline = closed_form(equal, 1, micro_batches);
      pipeline.schedule = Schedule::kDualInTicks;
      pipeline.forward_s = time.forward;
      pipeline.backward_s = time.backward;
      const double ticks = double(micro_batches) / 2 + stages - 1;
      EXPECT_NEAR(pipeline_s(pipeline).total_s(), 2 * ticks * (time.forward + time.backward), 1e-9);
      const PipelineRun run = run_pipeline(Schedule::kDualInTicks, equal, 1, micro_batches, 0);
      EXPECT_LE(run.end_s, pipeline_s(pipeline).total_s() + 1e-9);
      EXPECT_GE(in_flight(Schedule::kDualInTicks, stages, 1, micro_batches), run.in_flight);
    }
  EXPECT_NE(no_order_because(Schedule::kDualInTicks, 4, 1, 3), "");
  EXPECT_NE(no_order_because(Schedule::kDualInTicks, 4, 2, 8), "");
}

TEST(Pipeline, EverySchedulePassesEveryMicroBatchOnce) {
  for (const Schedule schedule : {Schedule::k1F1B, Schedule::kZbH1, Schedule::kZbV, Schedule::kVHalf,
                                  Schedule::kVMin, Schedule::kDualPipe, Schedule::kGPipe,
                                  Schedule::k1F1BInTicks, Schedule::kZbInTicks, Schedule::kDualInTicks}) {
    const int stages = 6;
    const int64_t micro_batches = 18;
    const Order order = order_of(schedule, stages, 1, micro_batches);
    for (int rank = 0; rank < stages; ++rank) {
      double forward = 0, input = 0, weight = 0;
      for (const Pass& pass : order.ranks[rank]) {
        const bool pair = pass.kind == PassKind::kPair, both = pass.kind == PassKind::kBackward;
        forward += pass.kind == PassKind::kForward || pair;
        input += pass.kind == PassKind::kInput || both || pair;
        weight += pass.kind == PassKind::kWeight || both || pair;
      }
      const double each = double(micro_batches) * order.passes_per_rank;
      EXPECT_EQ(forward, each) << to_string(schedule);
      EXPECT_EQ(input, each) << to_string(schedule);
      EXPECT_EQ(weight, each) << to_string(schedule);
    }
  }
}

// As the papers order them where a forward pass and both halves of a backward pass take equally long.
TEST(Pipeline, SchedulesAreInTheOrderOfTheirPapers) {
  for (const int stages : {4, 8, 16}) {
    const int64_t micro_batches = 4L * stages;
    const std::vector<StageTime> equal(stages, {1, 2, 1});
    const auto bubble = [&](Schedule schedule, int chunks) {
      return run_pipeline(schedule, equal, chunks, micro_batches, 0).end_s - 3.0 * double(micro_batches);
    };
    const double plain = bubble(Schedule::k1F1B, 1);
    EXPECT_DOUBLE_EQ(plain, 3.0 * (stages - 1));
    EXPECT_DOUBLE_EQ(bubble(Schedule::k1F1B, 2), plain / 2);
    EXPECT_DOUBLE_EQ(bubble(Schedule::kZbH1, 1), plain / 3);
    // Its last stage begins so late; nothing else is waited for.
    EXPECT_DOUBLE_EQ(bubble(Schedule::kZbV, 1), plain / 6);
    EXPECT_LE(bubble(Schedule::kVHalf, 1), plain / 2 + 1);
    EXPECT_LT(bubble(Schedule::kVMin, 1), plain);
    const auto kept = [&](Schedule schedule) {
      return in_flight(schedule, stages, 1, micro_batches) / stages;
    };
    EXPECT_EQ(kept(Schedule::kZbH1), 1);
    EXPECT_LE(kept(Schedule::kVHalf), 0.75);
    EXPECT_LE(kept(Schedule::kVMin), 0.63);
    EXPECT_LT(kept(Schedule::kVMin), kept(Schedule::kVHalf));
  }
}

TEST(Pipeline, SaysWhatAScheduleNeeds) {
  EXPECT_EQ(no_order_because(Schedule::kZbH1, 4, 1, 8), "");
  EXPECT_NE(no_order_because(Schedule::kZbH1, 4, 2, 8), "");
  EXPECT_NE(no_order_because(Schedule::kDualPipe, 3, 1, 12), "");
  EXPECT_NE(no_order_because(Schedule::kDualPipe, 4, 1, 6), "");
  EXPECT_NE(no_order_because(Schedule::kZbV, 8, 1, 7), "");
  EXPECT_EQ(schedule_named("zb-v"), Schedule::kZbV);
  EXPECT_EQ(no_order_because(Schedule::kGPipe, 8, 1, 1), "");
  EXPECT_NE(no_order_because(Schedule::kGPipe, 1, 1, 8), "");
  EXPECT_NE(no_order_because(Schedule::kGPipe, 4, 2, 8), "");
  EXPECT_EQ(schedule_named("gpipe"), Schedule::kGPipe);
  EXPECT_EQ(no_order_because(Schedule::k1F1BInTicks, 8, 1, 1), "");
  EXPECT_NE(no_order_because(Schedule::k1F1BInTicks, 1, 1, 8), "");
  EXPECT_NE(no_order_because(Schedule::k1F1BInTicks, 4, 2, 6), "");
  EXPECT_EQ(no_order_because(Schedule::k1F1BInTicks, 4, 2, 8), "");
  EXPECT_EQ(schedule_named("1f1b-ticks"), Schedule::k1F1BInTicks);
  EXPECT_FALSE(schedule_named("pipedream"));
}

TEST(Pipeline, NoStageIsFasterThanItsWork) {
  const std::vector<StageTime> stages = {{1, 2}, {3, 4}, {1, 2}};
  EXPECT_GE(simulate_pipeline_s(stages, 1, 16, 0.5), 16 * 7.0);
}

TEST(Pipeline, KeepsAsManyMicroBatchesAsStages) {
  EXPECT_EQ(in_flight(Schedule::k1F1B, 8, 1, 64), 8);
  EXPECT_EQ(in_flight(Schedule::k1F1B, 8, 1, 4), 4);
  EXPECT_DOUBLE_EQ(in_flight(Schedule::k1F1B, 8, 3, 64),
                   8 * (1 + 7.0 / 24));  // arXiv:2205.05198, section 4.2.3
}

}  // namespace
}  // namespace opentrn::planner
