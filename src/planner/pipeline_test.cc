#include "planner/pipeline.h"

#include <random>

#include <gtest/gtest.h>

#include "planner/pipeline_events.h"

namespace opentrn::planner {
namespace {

Pipeline closed_form(const std::vector<StageTime>& stages, int chunks, int64_t micro_batches) {
  Pipeline pipeline{.stages = static_cast<int>(stages.size()), .chunks = chunks, .micro_batches = micro_batches};
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

TEST(Pipeline, NoStageIsFasterThanItsWork) {
  const std::vector<StageTime> stages = {{1, 2}, {3, 4}, {1, 2}};
  EXPECT_GE(simulate_pipeline_s(stages, 1, 16, 0.5), 16 * 7.0);
}

TEST(Pipeline, KeepsAsManyMicroBatchesAsStages) {
  EXPECT_EQ(in_flight(8, 1, 64), 8);
  EXPECT_EQ(in_flight(8, 1, 4), 4);
  EXPECT_DOUBLE_EQ(in_flight(8, 3, 64), 8 * (1 + 7.0 / 24));  // arXiv:2205.05198, section 4.2.3
}

}  // namespace
}  // namespace opentrn::planner
