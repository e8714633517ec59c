#include "planner/memory.h"

#include <gtest/gtest.h>

#include "planner/hf_config.h"

namespace opentrn::planner::memory_tests {
namespace {

const arch::Tables& tables() { return arch::default_tables(); }

Job gpt(const char* name, double batch) {
  return {.model = model_named(tables(), name), .seq = 2048, .global_batch = batch};
}

// arXiv:2205.05198, equations 1 to 4: activations of s x b x h per layer, with dropout and unfused attention.
TEST(Memory, ActivationsAreThoseOfThePaper) {
  const Stack stack = stack_of(tables(), "megatron-lm");
  const Job job = gpt("GPT-3 175B", 64);
  const double h = 12288, a = 96, s = 2048, t = 8;
  Layout layout{.tp = 8};
  EXPECT_DOUBLE_EQ(kept_bytes_per_token(job, stack, layout, false), h * (10 + 24 / t + 5 * a * s / (h * t)));
  layout.sp = true;
  EXPECT_DOUBLE_EQ(kept_bytes_per_token(job, stack, layout, false), h / t * (34 + 5 * a * s / h));
  layout.recompute = Recompute::kSelective;
  EXPECT_DOUBLE_EQ(kept_bytes_per_token(job, stack, layout, false), 34 * h / t);
  layout.recompute = Recompute::kFull;
  layout.sp = false;
  EXPECT_DOUBLE_EQ(kept_bytes_per_token(job, stack, layout, false), 2 * h);
}

TEST(Memory, ZeroCutsWhatItSays) {
  const Machine machine = machine_of(tables(), "p5.48xlarge", 2);
  const Stack stack = stack_of(tables(), "megatron-core");
  const Job job{.model = model_named(tables(), "Llama-2-7B"), .seq = 4096, .global_batch = 16};
  Layout layout{.dp = 16, .zero = 0};
  const Memory whole = memory_of(job, machine, stack, layout);
  EXPECT_NEAR(whole.weights, 2 * job.model.parameters(), 0.01 * whole.weights);
  layout.zero = 1;
  EXPECT_NEAR(memory_of(job, machine, stack, layout).optimizer, whole.optimizer / 16, 1);
  layout.zero = 2;
  EXPECT_NEAR(memory_of(job, machine, stack, layout).gradients, whole.gradients / 16, 1);
  layout.zero = 3;
  EXPECT_NEAR(memory_of(job, machine, stack, layout).weights, 2 * whole.weights / 16, 1);  // in float32
}

TEST(Memory, ExpertsAreCutOverTheirRanks) {
  Layout layout{.dp = 64};
  const Model model = model_named(tables(), "Mixtral-8x7B");
  const double whole = parameters_per_rank(model, layout, true, true);
  EXPECT_NEAR(whole, model.parameters(), 0.001 * whole);
  layout.ep = 8;
  const double experts = model.layers * 8 * model.expert_parameters();
  EXPECT_NEAR(parameters_per_rank(model, layout, true, true), whole - experts * 7 / 8, 1e6);
}

// 32 ranks and 8 heads of keys and values: each rank has one, and four have the same.
TEST(Memory, EachRankHasAHeadOfKeysAndValues) {
  const Model model = model_named(tables(), "Llama-2-70B");
  const double h = 8192, d = 128, ffn = 28672, layers = 80;
  Layout layout{.tp = 32};
  const double block = h * 2 * d + h * 2 * d + 2 * d * h + 3 * h * ffn / 32 + 2 * h;
  const double both_ends = 2 * 32000.0 * h / 32;
  EXPECT_DOUBLE_EQ(parameters_per_rank(model, layout, true, true), layers * block + both_ends);
  layout.tp = 8;
  EXPECT_NEAR(parameters_per_rank(model, layout, true, true), model.parameters() / 8,
              2e-5 * model.parameters());
  // Queries, keys, values and attention's result of a token, of two heads and one; the MLP's three.
  const Stack stack = stack_of(tables(), "torchtitan");
  const Job job{.model = model, .seq = 4096, .global_batch = 8};
  layout.tp = 32;
  layout.sp = true;
  EXPECT_DOUBLE_EQ(kept_bytes_per_token(job, stack, layout, false),
                   stack.kept_share * 2 * (4 * h / 32 + (2 + 2 + 2) * d + 3 * ffn / 32));
}

// DeepSeek-V3's projections to fewer features are whole on each rank, as Megatron-LM has them.
TEST(Memory, EachRankHasTheLatentProjections) {
  const Model model = model_named(tables(), "DeepSeek-V3");
  const double down = 7168.0 * (1536 + 512 + 64) + 1536 + 512;
  EXPECT_DOUBLE_EQ(model.attention_parameters_of_rank(8), down + (model.attention_parameters() - down) / 8);
}

TEST(Memory, TheFullestStageDecides) {
  const Machine machine = machine_of(tables(), "p5.48xlarge", 1);
  const Stack stack = stack_of(tables(), "megatron-core");
  // One micro-batch in flight, and logits of a large vocabulary: the last stage.
  const Job wide{.model = model_named(tables(), "Llama-3.2-1B"), .seq = 8192, .global_batch = 1};
  EXPECT_STREQ(memory_of(wide, machine, stack, {.pp = 8, .recompute = Recompute::kFull}).stage, "last");
  const Job deep{.model = model_named(tables(), "Llama-2-70B"), .seq = 4096, .global_batch = 64};
  EXPECT_STREQ(memory_of(deep, machine, stack, {.pp = 8}).stage, "first");
}

// Stages that share both ends have the same weights, and keep what blocks were given on every tick.
TEST(Memory, StagesOfGPipeAreAlike) {
  const Machine machine = machine_of(tables(), "trn1.32xlarge", 1);
  const Stack stack = stack_of(tables(), "opentrn");
  const Job job{.model = model_named(tables(), "Llama-2-7B"), .seq = 4096, .global_batch = 24};
  const Layout layout{
      .tp = 8, .pp = 4, .dp = 1, .schedule = Schedule::kGPipe, .zero = 0, .recompute = Recompute::kFull};
  EXPECT_NEAR(parameters_per_rank(job.model, layout, true, false) * layout.ranks(), job.model.parameters(),
              0.001 * job.model.parameters());
  EXPECT_EQ(parameters_per_rank(job.model, layout, true, false),
            parameters_per_rank(job.model, layout, false, true));
  const Memory memory = memory_of(job, machine, stack, layout);
  const double ticks = 24 + 3, token = 2.0 * job.model.hidden;
  // Of eight blocks on a stage, and what the last of them gave with its gradient.
  EXPECT_DOUBLE_EQ(memory.activations, ticks * 4096 * token * (8 + 2));
  Layout alternating = layout;
  alternating.schedule = Schedule::k1F1B;
  EXPECT_DOUBLE_EQ(memory_of(job, machine, stack, alternating).activations, 4 * 4096 * token * 8);
}

// 1F1B in ticks keeps what blocks were given for fewer ticks than twice the stages, of any number of
// micro-batches, and four values that are under way.
TEST(Memory, StagesOf1F1BInTicksKeepNoMoreThanIsUnderWay) {
  const Machine machine = machine_of(tables(), "trn1.32xlarge", 1);
  const Stack stack = stack_of(tables(), "opentrn");
  Job job{.model = model_named(tables(), "Llama-2-7B"), .seq = 4096, .global_batch = 24};
  Layout layout{.tp = 8,
                .pp = 4,
                .dp = 1,
                .schedule = Schedule::k1F1BInTicks,
                .zero = 0,
                .recompute = Recompute::kFull};
  const double token = 2.0 * job.model.hidden;
  EXPECT_DOUBLE_EQ(memory_of(job, machine, stack, layout).activations, 4096 * token * (7 * 8 + 4));
  job.global_batch = 2400;
  EXPECT_DOUBLE_EQ(memory_of(job, machine, stack, layout).activations, 4096 * token * (7 * 8 + 4));
  // What weights' gradients are made of on a later tick lies there for as many ticks as there are stages.
  layout.schedule = Schedule::kZbInTicks;
  const double split = memory_of(job, machine, stack, layout).activations - 4096 * token * (7 * 8 + 4);
  const Model& model = job.model;
  const double numbers = 4.0 * model.hidden + (4.0 * model.hidden + 3.0 * model.ffn) / 8;
  EXPECT_NEAR(split, 4 * 4096 * 8 * 2 * numbers, 1e-3 * split);
  layout.schedule = Schedule::k1F1BInTicks;
  layout.vpp = 2;  // as many chunks, of half the blocks
  EXPECT_DOUBLE_EQ(memory_of(job, machine, stack, layout).activations, 4096 * token * (15 * 4 + 4));
}

// Of stages, or chunks, that do not divide the layers, each has room for as many blocks as the longest one.
TEST(Memory, StagesInTicksHaveTheBlocksOfTheLongest) {
  Model model = model_named(tables(), "Llama-2-7B");
  model.layers = 10;
  Layout layout{.tp = 8, .pp = 4, .schedule = Schedule::kGPipe, .recompute = Recompute::kFull};
  for (const bool first : {true, false}) EXPECT_EQ(blocks_of(model, layout, first, !first), 3);
  layout.schedule = Schedule::k1F1BInTicks;
  layout.vpp = 2;
  EXPECT_EQ(blocks_per_stage(model, layout), 4);
  layout.schedule = Schedule::k1F1B;
  layout.vpp = 1;
  EXPECT_EQ(blocks_of(model, layout, false, true), 2);
}

// A place whose block has experts on some stages only has weights of both kinds on all of them.
TEST(Memory, StagesInTicksHaveBothKindsOfBlocks) {
  Model model = model_named(tables(), "Mixtral-8x7B");
  model.dense_layers = 3;
  Layout layout{.tp = 8, .pp = 4, .schedule = Schedule::kGPipe};
  EXPECT_EQ(places_with_both(model, layout), 3);
  const double both = parameters_per_rank(model, layout, false, false);
  model.dense_layers = 0;
  EXPECT_EQ(places_with_both(model, layout), 0);
  EXPECT_NEAR(both - parameters_per_rank(model, layout, false, false), 3 * model.dense_mlp_parameters() / 8,
              1);
  model.dense_layers = 3;
  layout.schedule = Schedule::k1F1B;
  EXPECT_EQ(places_with_both(model, layout), 0);
}

}  // namespace
}  // namespace opentrn::planner::memory_tests
