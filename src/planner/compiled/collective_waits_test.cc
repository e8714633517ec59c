#include "planner/compiled/collective_waits.h"

#include <gtest/gtest.h>

#include "arch/timing_table.h"
#include "planner/communication.h"

namespace opentrn::planner::compiled {
namespace {

using collectives::Kind;

constexpr double kBytes = 8e6;

// Two blocks, whose pieces take a millisecond each.
MicroBatchPasses passes_of(double hbm_bytes) {
  MicroBatchPasses passes;
  const PieceTime piece{1e-3, hbm_bytes};
  passes.embedding = passes.logits = passes.shares = passes.logits_backward = passes.embedding_backward =
      piece;
  for (HalfPasses* half : {&passes.attention, &passes.mlp}) {
    half->forward = half->first = half->backward = half->again = piece;
    half->weights = {{kBytes, 0.5}, {kBytes, 1}};
  }
  passes.layers = 2;
  passes.embedding_bytes = passes.output_bytes = kBytes;
  passes.sums = true;
  return passes;
}

struct Waits : testing::Test {
  Machine machine = machine_of(arch::default_tables(), "trn2.3xlarge", 1, 1);
  CollectiveTimes times;
  double memory_of_a_piece = arch::timing(Generation::kV3).constant("hbm_bandwidth_gb_s") * 1e9 * 1e-3;
};

// Of weights and their gradients, over eight ranks.
struct WeightWaits : Waits {
  Layout layout{.dp = 8, .zero = 0};
  double sum_s = times.seconds(machine, Kind::kAllReduce, {8, 1}, kBytes);

  double wait_s(const MicroBatchPasses& passes) {
    return collective_waits(passes, machine, layout, times).weights_s.value();
  }
};

// The last sum, of the embedding's gradient, has nothing beside it.
TEST_F(WeightWaits, APassThatLeavesMemoryHidesTheSumsBesideIt) {
  EXPECT_NEAR(wait_s(passes_of(0)), sum_s, 0.01 * sum_s);
  MicroBatchPasses passes = passes_of(0);
  passes.optimizer = {1e-3, 0};
  EXPECT_NEAR(wait_s(passes), std::max(0.0, sum_s - 0.5e-3), 0.01 * sum_s);
}

TEST_F(WeightWaits, APassThatMemoryBindsHidesNone) {
  const double wait = wait_s(passes_of(memory_of_a_piece)), all = 10 * sum_s;
  EXPECT_GT(wait, 0.5 * all);
  EXPECT_LT(wait, all);
}

// ZeRO-1 and 2 scatter what they sum, and gather what the optimizer has updated.
TEST_F(WeightWaits, PartsOfTheOptimizerFollowTheirGradientsAndAreGathered) {
  layout.zero = 1;
  const double gather = times.seconds(machine, Kind::kAllGather, {8, 1}, kBytes),
               scatter = times.seconds(machine, Kind::kReduceScatter, {8, 1}, kBytes);
  MicroBatchPasses passes = passes_of(0);
  passes.optimizer = {10e-3, 0};  // a millisecond for each tensor
  // The embedding's gradient is summed beside the updates of the block before it; its gather has nothing
  // beside.
  EXPECT_NEAR(wait_s(passes), gather, 0.01 * gather);
  // Where nothing takes time, all of both are waited for.
  for (PieceTime* each : {&passes.embedding, &passes.logits, &passes.shares, &passes.logits_backward,
                          &passes.embedding_backward, &passes.attention.forward, &passes.attention.first,
                          &passes.attention.backward, &passes.mlp.forward, &passes.mlp.first,
                          &passes.mlp.backward, &passes.optimizer})
    each->seconds = 1e-9;
  EXPECT_NEAR(wait_s(passes), 10 * (gather + scatter), 0.01 * gather);
}

TEST_F(WeightWaits, PartsWaitForWeightsThatAreGathered) {
  layout.zero = 3;
  const double gather = times.seconds(machine, Kind::kAllGather, {8, 1}, kBytes),
               scatter = times.seconds(machine, Kind::kReduceScatter, {8, 1}, kBytes);
  // The first piece needs the embedding, and the last gradient is summed alone; all others go beside.
  EXPECT_NEAR(wait_s(passes_of(0)), gather + scatter, 0.01 * gather);
  // Pieces that take no time wait for every gather before the output layer.
  MicroBatchPasses quick = passes_of(0);
  quick.embedding.seconds = 1e-9;
  for (HalfPasses* half : {&quick.attention, &quick.mlp})
    for (PieceTime* each : {&half->forward, &half->first, &half->backward}) each->seconds = 1e-9;
  EXPECT_GT(wait_s(quick), 10 * gather);
}

// Blocks that run again gather their weights again.
TEST_F(WeightWaits, BlocksThatRunAgainGatherAgain) {
  layout.zero = 3;
  const double gather = times.seconds(machine, Kind::kAllGather, {8, 1}, kBytes),
               scatter = times.seconds(machine, Kind::kReduceScatter, {8, 1}, kBytes);
  MicroBatchPasses quick = passes_of(0);
  for (PieceTime* each :
       {&quick.embedding, &quick.logits, &quick.shares, &quick.logits_backward, &quick.embedding_backward})
    each->seconds = 1e-9;
  for (HalfPasses* half : {&quick.attention, &quick.mlp})
    for (PieceTime* each : {&half->forward, &half->first, &half->backward, &half->again})
      each->seconds = 1e-9;
  EXPECT_NEAR(wait_s(quick), 10 * (gather + scatter), 0.01 * gather);
  quick.recompute = true;
  EXPECT_NEAR(wait_s(quick), 18 * gather + 10 * scatter, 0.01 * gather);
}

// Of activations, over two ranks.
struct ActivationWaits : Waits {
  Layout layout{.tp = 2, .dp = 4, .zero = 1};
  double sum_s = times.seconds(machine, Kind::kAllReduce, {2, 1}, kBytes),
         gather_s = times.seconds(machine, Kind::kAllGather, {2, 1}, kBytes),
         scatter_s = times.seconds(machine, Kind::kReduceScatter, {2, 1}, kBytes);

  MicroBatchPasses passes = [] {
    MicroBatchPasses made = passes_of(0);
    made.activation_bytes = kBytes;
    return made;
  }();
  CollectiveWaits waits() { return collective_waits(passes, machine, layout, times); }
};

// Two for each block in the forward pass; in the backward pass one behind the output layer and two for each
// block, of which the last leaves a rank its part of each token.
TEST_F(ActivationWaits, WhatNothingIsBesideIsWaitedFor) {
  passes.sums = false;
  EXPECT_NEAR(waits().activations_s, gather_s + (4 + 1 + 3) * sum_s + scatter_s, 0.01 * sum_s);
  EXPECT_FALSE(waits().weights_s.has_value());
}

// Tensors are updated where the next piece waits for a sum.
TEST_F(ActivationWaits, UpdatesHideTheSumsOfTheBackwardPass) {
  passes.optimizer = {10e-3, 0};
  const auto both = waits();
  const double of_weights = times.seconds(machine, Kind::kAllGather, {4, 2}, kBytes);
  // The output layer's table is updated behind the first backward piece: only the sum before that is waited
  // for.
  EXPECT_NEAR(both.activations_s + *both.weights_s, gather_s + 5 * sum_s + of_weights, 0.05 * sum_s);
}

// Attention that runs again does so above the pieces that do not need it; the MLP's sum is read by nobody.
TEST_F(ActivationWaits, SumsThatRunAgainAreBesideThePieceAbove) {
  passes.sums = false;
  const double before = waits().activations_s;
  passes.recompute = true;
  EXPECT_NEAR(waits().activations_s, before, 0.01 * sum_s);
}

TEST_F(ActivationWaits, SequencesThatAreCutAreGatheredAndScattered) {
  passes.sums = false;
  layout.sp = true;
  passes.norm = passes.norm_backward = passes.attention.norm = passes.attention.norm_backward =
      passes.mlp.norm = passes.mlp.norm_backward = {1e-3, 0};
  const double ends = 2 * times.seconds(machine, Kind::kAllToAll, {2, 1}, kBytes / 2);
  // One of each for a half and a pass, and for the output layer; its gradient leaves a fifth of a millisecond
  // beside.
  EXPECT_NEAR(waits().activations_s, ends + 9 * (gather_s + scatter_s) - std::min(scatter_s, 0.2e-3),
              0.01 * sum_s);
}

// Ranks with parts of a sequence gather keys, then values; backward their gradients are scattered.
TEST_F(ActivationWaits, KeysOfASequenceAreWaitedFor) {
  layout = {.cp = 2, .dp = 4, .zero = 1};
  passes.sums = false;
  const double before = waits().activations_s;
  passes.context = 2;
  passes.attention.key_bytes = 2 * kBytes;
  const auto found = [&](double seconds) {
    passes.attention.before_keys = passes.attention.before_keys_backward = {seconds, 0};
    return waits();
  };
  // Of two blocks: values are there before keys, and gradients of both before those of queries.
  const CollectiveWaits beside = found(1e-3);
  EXPECT_NEAR(beside.context_s, 2 * gather_s, 0.01 * gather_s);
  EXPECT_NEAR(beside.activations_s - beside.context_s, before, 0.01 * gather_s);
  EXPECT_NEAR(found(1e-9).context_s, 2 * 2 * gather_s, 0.01 * gather_s);
  // Cores with rows of queries: those of a rank add up first what they have of keys' and values' gradients.
  machine.cores_per_rank = 2;
  passes.by_rows = true;
  const double own = found(1e-9).context_s;
  passes.attention.head_bytes = 4 * kBytes;
  EXPECT_GT(found(1e-9).context_s, own);
}

TEST_F(ActivationWaits, TokensAreWaitedForAtTheirExperts) {
  passes.sums = false;
  const double before = waits().activations_s;
  const double exchange_s = times.seconds(machine, Kind::kAllToAll, {2, 2}, kBytes);
  const auto found = [&](double seconds) {
    const BothWays piece{{seconds, 0}, {seconds, 0}};
    passes.experts = ExpertPasses{piece, piece, piece, kBytes, 2, 0};
    return waits();
  };
  // There and back in two blocks: forward, the next piece needs all tokens. Backward, exchanges go on beside
  // the rest of the piece before them and the first part of the one behind.
  const CollectiveWaits beside = found(1e-3);
  EXPECT_NEAR(beside.experts_s, 4 * exchange_s, 0.01 * exchange_s);
  EXPECT_NEAR(beside.activations_s - beside.experts_s, before, 0.01 * sum_s);
  EXPECT_NEAR(found(0).experts_s, 8 * exchange_s, 0.01 * exchange_s);
  // Experts that every token meets work meanwhile: forward beside the way there, backward beside the way
  // back.
  passes.experts->route.forward = passes.experts->combine.backward = {exchange_s, 0};
  passes.experts->shared_forward = passes.experts->shared_backward = 1;
  EXPECT_NEAR(waits().experts_s, 4 * exchange_s, 0.01 * exchange_s);
}

// Cores with halves of a rank's tokens: what both bring to places is whole before it is sent, and so is what
// their experts made. Backward, places' gradients leave before the router's is there.
TEST_F(ActivationWaits, HalvesOfTokensAreWaitedForAtTheirExperts) {
  passes.sums = false;
  const double exchange_s = times.seconds(machine, Kind::kAllToAll, {2, 2}, kBytes);
  const auto found = [&](double seconds) {
    const BothWays piece{{seconds, 0}, {seconds, 0}};
    passes.experts = ExpertPasses{piece, piece, piece, kBytes, 2, 0};
    passes.experts->places = piece;
    return waits().experts_s;
  };
  EXPECT_NEAR(found(1e-3), 6 * exchange_s, 0.01 * exchange_s);
  EXPECT_NEAR(found(1e-9), 8 * exchange_s, 0.01 * exchange_s);
}

// First blocks without experts meet what blocks of a model without any do.
TEST_F(ActivationWaits, FirstBlocksHaveAnMlpOfTheirOwn) {
  passes.sums = false;
  const CollectiveWaits before = waits();
  const BothWays piece{{1e-3, 0}, {1e-3, 0}};
  passes.experts = ExpertPasses{piece, piece, piece, kBytes, 2, 0};
  const double of_all = waits().experts_s;
  passes.dense_mlp = passes.mlp;
  passes.dense = 1;
  EXPECT_NEAR(waits().experts_s, of_all / 2, 0.01 * of_all);
  passes.dense = passes.layers;
  EXPECT_NEAR(waits().activations_s, before.activations_s, 1e-9);
}

// Two ranks of four have a copy of an expert's weights, whose gradients meet there.
TEST_F(WeightWaits, ExpertsMeetTheirCopies) {
  MicroBatchPasses passes = passes_of(memory_of_a_piece);
  const BothWays piece{{1e-3, memory_of_a_piece}, {1e-3, memory_of_a_piece}};
  passes.experts = ExpertPasses{piece, piece, piece, 0, 1, 0};
  const double of_eight = wait_s(passes);
  passes.experts->ranks = 4;
  const double of_two = wait_s(passes);
  EXPECT_LT(of_two, of_eight);
  passes.experts->ranks = 8;  // and then nobody does
  EXPECT_LT(wait_s(passes), of_two);
}

// 1F1B in ticks on eight stages: one forward and one back alone wait for what they send; of chunks, a tick
// has both, and what the pass forward sends goes beside the one back.
TEST_F(Waits, TicksOfBothPassesHideWhatTheFirstSends) {
  MicroBatchPasses passes = passes_of(0);
  passes.stages = 8;
  passes.sums = false;
  passes.activation_bytes = kBytes;
  passes.token_bytes = 1024;
  Layout layout{.pp = 8, .schedule = Schedule::k1F1BInTicks, .zero = 0, .recompute = Recompute::kFull};
  const double send = times.seconds(machine, Kind::kPermute, {8, 1}, kBytes),
               sum = times.seconds(machine, Kind::kAllReduce, {8, 1}, kBytes);
  const TickWaits alone = tick_waits(passes, machine, layout, times);
  EXPECT_NEAR(alone.tick_s, 2 * send, 0.01 * send);
  EXPECT_GT(alone.sends_s, 0.99 * send);
  EXPECT_LT(alone.sends_s, 2.01 * send);
  EXPECT_GT(alone.ends_s, 0);
  layout.vpp = 2;
  const TickWaits both = tick_waits(passes, machine, layout, times);
  EXPECT_NEAR(both.tick_s, send, 0.01 * send);
  EXPECT_NEAR(both.tick_s + both.loss_s, alone.tick_s + alone.loss_s, 1e-9);
  // Where nothing takes time, a loss waits for what the last stage made, and for the sum of its gradients.
  for (PieceTime* each :
       {&passes.embedding, &passes.logits, &passes.shares, &passes.logits_backward,
        &passes.embedding_backward, &passes.attention.forward, &passes.attention.first,
        &passes.attention.backward, &passes.mlp.forward, &passes.mlp.first, &passes.mlp.backward})
    each->seconds = 1e-9;
  EXPECT_GT(tick_waits(passes, machine, layout, times).loss_s, 1.99 * sum);
}

}  // namespace
}  // namespace opentrn::planner::compiled
