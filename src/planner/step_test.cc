#include "planner/step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/communication.h"
#include "planner/hf_config.h"
#include "planner/interval.h"
#include "planner/memory.h"

namespace opentrn::planner::step_tests {
namespace {

using testing::HasSubstr;

const arch::Tables& tables() { return arch::default_tables(); }

struct Step : testing::Test {
  Job job{.model = model_named(tables(), "Llama-2-7B"), .seq = 4096, .global_batch = 64};
  Machine machine = machine_of(tables(), "p5.48xlarge", 2);
  Stack stack = stack_of(tables(), "megatron-core");
};

TEST_F(Step, TheCausesAddUpAndMfuFollows) {
  const Estimate plan = evaluate(job, machine, stack, {.tp = 2, .dp = 8});
  EXPECT_DOUBLE_EQ(plan.step_s, plan.time.total());
  const double flops = job.model.flops_per_token(4096) * 4096 * 64;
  EXPECT_DOUBLE_EQ(plan.mfu, flops / (plan.step_s * 16 * 989e12));
  EXPECT_LT(plan.mfu, 0.8034 * 1.2);
}

TEST_F(Step, RecomputationCostsAForwardPass) {
  const Layout layout{.dp = 16};
  Layout full = layout;
  full.recompute = Recompute::kFull;
  const Estimate plain = evaluate(job, machine, stack, layout), again = evaluate(job, machine, stack, full);
  EXPECT_GT(again.step_s, 1.2 * plain.step_s);
  EXPECT_LT(again.memory.activations, 0.1 * plain.memory.activations);
}

TEST_F(Step, ABubbleShrinksWithChunks) {
  machine = machine_of(tables(), "p5.48xlarge", 1);
  const Estimate plain = evaluate(job, machine, stack, {.pp = 8});
  EXPECT_NEAR(plain.time.bubble / (plain.step_s - plain.time.bubble), 7.0 / 64, 0.03);
  EXPECT_NEAR(evaluate(job, machine, stack, {.pp = 8, .vpp = 4}).time.bubble, plain.time.bubble / 4, 1e-9);
}

// Shards of eight ranks have copies on each server, which add their gradients up over the network.
TEST_F(Step, CopiesOfShardsAddTheirGradientsUp) {
  machine = machine_of(tables(), "p5.48xlarge", 8);
  stack.hides_gradients = false;
  stack.exposed_communication = 1;
  Layout layout{.dp = 64, .zero = 3};
  layout.shard = 8;
  const Estimate plan = evaluate(job, machine, stack, layout);
  const double part = parameters_per_rank(job.model, layout, true, true) * stack.reduced_bytes / 8;
  const double summed = all_reduce_s(machine, {8, 8}, part);
  layout.dp = 8;
  job.global_batch /= 8;
  const Estimate alone = evaluate(job, machine_of(tables(), "p5.48xlarge", 1), stack, layout);
  EXPECT_NEAR(plan.time.gradients, alone.time.gradients + summed, 1e-6);
  // An optimizer that eight share: all have the sum, and weights are gathered inside a server.
  Layout states{.dp = 64, .zero = 1}, within = states;
  within.shard = 8;
  EXPECT_LT(evaluate(job, machine, stack, states).memory.optimizer,
            evaluate(job, machine, stack, within).memory.optimizer);
}

TEST(Communication, ATokenGoesToAServerOnce) {
  const Machine machine = machine_of(tables(), "p5.48xlarge", 8);
  const Group group{64, 1};
  EXPECT_LT(forwarded_s(machine, group, 1e9, 8), all_to_all_s(machine, group, 1e9));
  // One copy is sent as it was.
  EXPECT_NEAR(forwarded_s(machine, group, 1e9, 1), all_to_all_s(machine, group, 1e9),
              0.02 * all_to_all_s(machine, group, 1e9));
  EXPECT_DOUBLE_EQ(forwarded_s(machine, {8, 1}, 1e9, 8), all_to_all_s(machine, {8, 1}, 1e9));
}

TEST_F(Step, SlowerLinksTakeLonger) {
  const Layout layout{.tp = 8, .dp = 2, .sp = true};
  const double fast = evaluate(job, machine, stack, layout).step_s;
  machine.inside.bytes_s /= 4;
  EXPECT_GT(evaluate(job, machine, stack, layout).step_s, 1.1 * fast);
}

TEST_F(Step, SaysWhyALayoutIsNone) {
  EXPECT_THAT(illegal_because(job, machine, {.tp = 3}), HasSubstr("ranks"));
  EXPECT_THAT(illegal_because(job, machine, {.tp = 16}), HasSubstr("fast links"));
  EXPECT_THAT(illegal_because(job, machine, {.pp = 2, .dp = 8, .vpp = 3}),
              HasSubstr("divides neither 32 layers nor two more"));
  EXPECT_THAT(illegal_because(job, machine, {.ep = 2, .dp = 16}), HasSubstr("experts"));
  EXPECT_THAT(illegal_because(job, machine, {.dp = 16, .micro_batch = 3}), HasSubstr("global batch"));
  EXPECT_THAT(illegal_because(job, machine, {.pp = 2, .dp = 8, .zero = 3}), HasSubstr("ZeRO"));
}

TEST(Communication, FollowsTheRing) {
  Machine machine;
  machine.ranks = 64;
  machine.ranks_per_server = machine.domain = 8;
  machine.inside = {100e9, 0};
  machine.across = {10e9, 0};
  EXPECT_DOUBLE_EQ(all_gather_s(machine, {8, 1}, 8e9), 0.07);
  EXPECT_DOUBLE_EQ(all_reduce_s(machine, {8, 1}, 8e9), 0.14);
  // Two servers: all eight network shares carry the one ring.
  EXPECT_DOUBLE_EQ(all_gather_s(machine, {16, 1}, 16e9), 15e9 / 80e9);
  // One rank a server: its own share only.
  EXPECT_DOUBLE_EQ(all_gather_s(machine, {8, 8}, 8e9), 7e9 / 10e9);
  EXPECT_EQ(all_gather_s(machine, {1, 1}, 8e9), 0);
}

// Two cores of a rank add up each of a block's four sums; one has nobody to meet.
TEST(Communication, CoresOfARankAddUpAmongThemselves) {
  Machine machine;
  machine.inside_rank = {50e9, 1e-6};
  EXPECT_EQ(inside_rank_s(machine, 1e9), 0);
  machine.cores_per_rank = 2;
  EXPECT_DOUBLE_EQ(inside_rank_s(machine, 1e9), 0.01 + 1e-6);

  const Machine pairs = machine_of(tables(), "trn2.48xlarge", 1, 2),
                single = machine_of(tables(), "trn2.48xlarge", 1, 1);
  EXPECT_GT(pairs.inside_rank.bytes_s, 1e9);
  EXPECT_EQ(single.inside_rank.bytes_s, 0);
  Machine free = pairs;
  free.inside_rank = {};
  const Job job{.model = model_named(tables(), "Llama-2-7B"), .seq = 4096, .global_batch = 64};
  const Stack stack = stack_of(tables(), "neuron");
  // 16 replicas of 4 ranks, of 64: 4 micro-batches of 4,096 tokens each.
  const Layout layout{.tp = 4, .dp = 16};
  const double exchange = inside_rank_s(pairs, 4096.0 * double(job.model.hidden) * 2) * (1 - stack.hides_tp);
  const double with = evaluate(job, pairs, stack, layout).time.tp,
               without = evaluate(job, free, stack, layout).time.tp;
  EXPECT_NEAR(with - without, 4 * exchange * double(job.model.layers) * 4, 1e-6 * with);
}

TEST(Machine, KnowsEveryInstanceThatItLists) {
  for (const std::string& name : plannable_instances(tables())) {
    // The plans of the largest fabrics take seconds.
    if (name.find("UltraServer") != std::string::npos) continue;
    const Machine machine = machine_of(tables(), name, 1);
    EXPECT_GT(machine.ranks, 0) << name;
    EXPECT_GT(machine.rates.matmul[0], 1e12) << name;
    EXPECT_LE(machine.rates.matmul[0], machine.rates.peak[0]) << name;
    EXPECT_GT(machine.memory_bytes, 1e9) << name;
  }
  EXPECT_EQ(machine_of(tables(), "p4de.24xlarge", 2).across.bytes_s,
            machine_of(tables(), "p4d.24xlarge", 2).across.bytes_s);
  EXPECT_THROW(machine_of(tables(), "p5.49xlarge", 1), Fault);
}

// Trainium's int8 peak is twice its bfloat16's, and its float8 peak is not.
TEST(Machine, HasNoFloat8FasterThanItsOwn) {
  const auto rates = [](const char* name) { return machine_of(arch::default_tables(), name, 1).rates; };
  for (const char* name : {"trn1.32xlarge", "inf2.48xlarge"}) {
    EXPECT_DOUBLE_EQ(rates(name).peak[1], rates(name).peak[0]) << name;
    EXPECT_LE(rates(name).matmul[1], rates(name).matmul[0]) << name;
  }
  EXPECT_GT(rates("trn2.48xlarge").matmul[1], 1.5 * rates("trn2.48xlarge").matmul[0]);
  EXPECT_GT(rates("p5.48xlarge").matmul[1], 1.5 * rates("p5.48xlarge").matmul[0]);
  // An A100 has int8 alone: weights of 8 bits are widened to bfloat16, and float8 products are refused.
  EXPECT_DOUBLE_EQ(rates("p4d.24xlarge").matmul[1], rates("p4d.24xlarge").matmul[0]);
  const Job job{.model = model_named(arch::default_tables(), "Llama-2-7B"),
                .seq = 4096,
                .global_batch = 8,
                .precision = Precision::kFp8};
  EXPECT_THAT(illegal_because(job, machine_of(arch::default_tables(), "p4d.24xlarge", 1), {.dp = 8}),
              testing::HasSubstr("A100 SXM 40GB has no products of float8"));
  EXPECT_EQ(illegal_because(job, machine_of(arch::default_tables(), "p5.48xlarge", 1), {.dp = 8}), "");
}

TEST(Interval, IsWiderWhereNothingWasMeasured) {
  const Stack stack = stack_of(tables(), "neuron");
  const Interval one = interval_of(tables(), stack, machine_of(tables(), "trn1.32xlarge", 1), 1);
  const Interval two = interval_of(tables(), stack, machine_of(tables(), "trn2.48xlarge", 1), 1);
  EXPECT_TRUE(one.measured);
  EXPECT_FALSE(two.measured);
  EXPECT_LT(two.low, one.low);
  EXPECT_GT(two.high, one.high);
}

}  // namespace
}  // namespace opentrn::planner::step_tests
