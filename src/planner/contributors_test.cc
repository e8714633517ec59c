#include "planner/contributors.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/hf_config.h"

namespace opentrn::planner {
namespace {

const arch::Tables& contributor_tables() { return arch::default_tables(); }

struct Contributors : testing::Test {
  Job job{.model = model_named(contributor_tables(), "Llama-2-7B"), .seq = 4096, .global_batch = 64};
  Machine machine = machine_of(contributor_tables(), "p5.48xlarge", 2);
  Stack stack = stack_of(contributor_tables(), "megatron-core");

  std::vector<Contributor> of(const Layout& layout) const {
    return contributors(contributor_tables(), job, machine, stack, evaluate(job, machine, stack, layout));
  }
  static const Contributor* named(const std::vector<Contributor>& all, const std::string& key) {
    const auto found =
        std::ranges::find_if(all, [&](const Contributor& each) { return each.key.ends_with(key); });
    return found == all.end() ? nullptr : &*found;
  }
};

TEST_F(Contributors, EachIsTheStepAtBothEndsOfAnInput) {
  const Layout layout{.tp = 2, .dp = 8};
  const auto all = of(layout);
  const Contributor* memory = named(all, "memory_share");
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory->confidence, "assumed");
  EXPECT_DOUBLE_EQ(memory->high, 1.25);
  Machine slow = machine;
  slow.rates.memory_bytes_s /= 1.25;
  EXPECT_DOUBLE_EQ(memory->high_s, evaluate(job, slow, stack, layout).step_s);
  for (size_t i = 1; i < all.size(); ++i) EXPECT_GE(all[i - 1].width_s(), all[i].width_s());
}

TEST_F(Contributors, WhatALayoutDoesNotUseIsNone) {
  machine = machine_of(contributor_tables(), "p5.48xlarge", 1);
  const auto all = of({.tp = 1, .dp = 8});
  EXPECT_EQ(named(all, "across_share"), nullptr);
  EXPECT_EQ(named(all, "host_link_gb_s"), nullptr);
  EXPECT_NE(named(of({.tp = 1, .dp = 8, .offload = true}), "host_link_gb_s"), nullptr);
}

TEST_F(Contributors, TheRestMakesUpTheWidthOfTheInterval) {
  const Layout layout{.tp = 2, .dp = 8};
  const auto all = of(layout);
  const double step_s = evaluate(job, machine, stack, layout).step_s;
  const Interval interval = interval_of(contributor_tables(), stack, machine, step_s);
  double squares = 0;
  for (const Contributor& each : all) squares += std::pow(each.width_s(), 2);
  ASSERT_NE(named(all, "measured_to_predicted_high"), nullptr);
  EXPECT_NEAR(std::sqrt(squares), interval.high - interval.low, 1e-9);
}

TEST_F(Contributors, CompiledLayersHaveTheBandOfTheTimingModel) {
  machine = machine_of(contributor_tables(), "trn1.32xlarge", 1);
  stack = stack_of(contributor_tables(), "neuron");
  LayerTimes layers;
  layers.block = {.forward = 0.01, .backward = 0.02};
  layers.output_s = 0.005;
  Estimate plan = evaluate(job, machine, stack, {.tp = 8, .dp = 4}, &layers);
  plan.layers = "compiled";
  const auto all = contributors(contributor_tables(), job, machine, stack, plan, &layers);
  EXPECT_NE(named(all, "model.v2"), nullptr);
  EXPECT_EQ(named(all, "matmul_share"), nullptr);
}

}  // namespace
}  // namespace opentrn::planner
