#include "planner/compiled/weight_waits.h"

#include <gtest/gtest.h>

#include "arch/timing_table.h"
#include "planner/communication.h"

namespace opentrn::planner::compiled {
namespace {

constexpr double kBytes = 8e6;

// Two blocks, whose pieces take a millisecond each.
MicroBatchPasses passes_of(double hbm_bytes) {
  MicroBatchPasses passes;
  const PieceTime piece{1e-3, hbm_bytes};
  passes.embedding = passes.logits = passes.shares = passes.logits_backward = passes.embedding_backward =
      piece;
  passes.attention = passes.mlp = {piece, piece, {{kBytes, 0.5}, {kBytes, 1}}};
  passes.layers = 2;
  passes.embedding_bytes = passes.output_bytes = kBytes;
  return passes;
}

struct WeightWaits : testing::Test {
  Machine machine = machine_of(arch::default_tables(), "trn2.3xlarge", 1, 1);
  Layout layout{.dp = 8, .zero = 0};
  double sum_s = all_reduce_s(machine, {8, 1}, kBytes);
  double memory_of_a_piece = arch::timing(Generation::kV3).constant("hbm_bandwidth_gb_s") * 1e9 * 1e-3;
};

// The last sum, of the embedding's gradient, has nothing beside it.
TEST_F(WeightWaits, APassThatLeavesMemoryHidesTheSumsBesideIt) {
  EXPECT_NEAR(weights_wait_s(passes_of(0), machine, layout), sum_s, 0.01 * sum_s);
  MicroBatchPasses passes = passes_of(0);
  passes.optimizer = {1e-3, 0};
  EXPECT_NEAR(weights_wait_s(passes, machine, layout), std::max(0.0, sum_s - 0.5e-3), 0.01 * sum_s);
}

TEST_F(WeightWaits, APassThatMemoryBindsHidesNone) {
  const double wait = weights_wait_s(passes_of(memory_of_a_piece), machine, layout), all = 10 * sum_s;
  EXPECT_GT(wait, 0.5 * all);
  EXPECT_LT(wait, all);
}

// ZeRO-1 and 2 scatter what they sum, and gather what the optimizer has updated.
TEST_F(WeightWaits, PartsOfTheOptimizerFollowTheirGradientsAndAreGathered) {
  layout.zero = 1;
  const double gather = all_gather_s(machine, {8, 1}, kBytes);
  MicroBatchPasses passes = passes_of(0);
  passes.optimizer = {10e-3, 0};  // a millisecond for each tensor
  // The embedding's gradient is summed beside the updates of the block before it; its gather has nothing
  // beside.
  EXPECT_NEAR(weights_wait_s(passes, machine, layout), gather, 0.01 * gather);
  // Where nothing takes time, all of both are waited for.
  for (PieceTime* each : {&passes.embedding, &passes.logits, &passes.shares, &passes.logits_backward,
                          &passes.embedding_backward, &passes.attention.forward, &passes.attention.backward,
                          &passes.mlp.forward, &passes.mlp.backward, &passes.optimizer})
    each->seconds = 1e-9;
  EXPECT_NEAR(weights_wait_s(passes, machine, layout), 20 * gather, 0.01 * gather);
}

TEST_F(WeightWaits, PartsWaitForWeightsThatAreGathered) {
  layout.zero = 3;
  const double gather = all_gather_s(machine, {8, 1}, kBytes);
  // The first piece needs the embedding, and the last gradient is summed alone; all others go beside.
  EXPECT_NEAR(weights_wait_s(passes_of(0), machine, layout), 2 * gather, 0.01 * gather);
  // Pieces that take no time wait for every gather before the output layer.
  MicroBatchPasses quick = passes_of(0);
  quick.embedding.seconds = 1e-9;
  for (HalfPasses* half : {&quick.attention, &quick.mlp})
    for (PieceTime* each : {&half->forward, &half->backward}) each->seconds = 1e-9;
  EXPECT_GT(weights_wait_s(quick, machine, layout), 10 * gather);
}

}  // namespace
}  // namespace opentrn::planner::compiled
