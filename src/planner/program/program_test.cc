#include "planner/program/program_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "graph/text/text.h"

namespace opentrn::planner::program {
namespace {

using testing::HasSubstr;

// A step of training without its framework: two products, a gradient of the second, and both weights as they
// are next.
constexpr const char* kStep = R"(module @step {
  func.func public @main(%w1: tensor<128x512xf32>, %w2: tensor<512x128xf32>, %x: tensor<1024x128xf32>,
                         %y: tensor<1024x128xf32>)
      -> (tensor<128x512xf32>, tensor<512x128xf32>) {
    %h = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0]
      : (tensor<1024x128xf32>, tensor<128x512xf32>) -> tensor<1024x512xf32>
    %z = stablehlo.dot_general %h, %w2, contracting_dims = [1] x [0]
      : (tensor<1024x512xf32>, tensor<512x128xf32>) -> tensor<1024x128xf32>
    %e = stablehlo.subtract %z, %y : tensor<1024x128xf32>
    %g2 = stablehlo.dot_general %h, %e, contracting_dims = [0] x [0]
      : (tensor<1024x512xf32>, tensor<1024x128xf32>) -> tensor<512x128xf32>
    %b = stablehlo.dot_general %e, %w2, contracting_dims = [1] x [1]
      : (tensor<1024x128xf32>, tensor<512x128xf32>) -> tensor<1024x512xf32>
    %g1 = stablehlo.dot_general %x, %b, contracting_dims = [0] x [0]
      : (tensor<1024x128xf32>, tensor<1024x512xf32>) -> tensor<128x512xf32>
    %n1 = stablehlo.subtract %w1, %g1 : tensor<128x512xf32>
    %n2 = stablehlo.subtract %w2, %g2 : tensor<512x128xf32>
    return %n1, %n2 : tensor<128x512xf32>, tensor<512x128xf32>
  }
})";

Program step() { return Program(graph::parse_module(kStep, "step.mlir")); }

Machine machine(const char* name) { return machine_of(arch::default_tables(), name, 1); }

TEST(Program, StateIsWhatComesOutAsItWentIn) {
  const Program program = step();
  EXPECT_TRUE(program.tensors[0].is_state);
  EXPECT_TRUE(program.tensors[1].is_state);
  EXPECT_FALSE(program.tensors[2].is_state);
  EXPECT_EQ(program.state_bytes, 2 * 128 * 512 * 4);
  // Five products of 1024 x 128 x 512, and three subtractions.
  EXPECT_EQ(program.flops, 5 * 2.0 * 1024 * 128 * 512 + 1024 * 128 + 2 * 128 * 512);
}

TEST(Program, DimensionsThatLieTogetherAreOne) {
  const Program program = step();
  const std::vector<Dimensions> found = dimensions_of(program);
  const auto of = [&](const std::string& name) { return std::ranges::find(found, name, &Dimensions::name); };
  ASSERT_NE(of("input2[0]"), found.end());  // the batch: rows of x and y
  EXPECT_FALSE(of("input2[0]")->cuts_state);
  EXPECT_EQ(of("input2[0]")->elements, 2 * 1024 * 128);
  ASSERT_NE(of("input0[1]"), found.end());  // the inner width: columns of w1, rows of w2
  EXPECT_TRUE(of("input0[1]")->cuts_state);
  EXPECT_EQ(of("input0[1]")->elements, 2 * 128 * 512);
  EXPECT_EQ(of("input3[0]"), found.end());  // reached from x
}

TEST(Program, ABatchOfAProgramWithoutStateComesOutCut) {
  const Program program(graph::parse_module(
      "module { func.func public @main(%x: tensor<64x32xf32>, %w: tensor<32x16xf32>, %v: tensor<16x32xf32>)\n"
      "    -> tensor<64x32xf32> {\n"
      "  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]\n"
      "    : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>\n"
      "  %z = stablehlo.dot_general %h, %v, contracting_dims = [1] x [0]\n"
      "    : (tensor<64x16xf32>, tensor<16x32xf32>) -> tensor<64x32xf32>\n"
      "  return %z : tensor<64x32xf32> } }",
      "layers.mlir"));
  EXPECT_EQ(program.state_bytes, 0);
  for (const Dimensions& each : dimensions_of(program))
    EXPECT_EQ(each.cuts_state, each.name != "input0[0]") << each.name;
}

TEST(Program, IsPlannedOverItsBatchAndItsWeights) {
  const Program program = step();
  Asked asked;
  asked.compiled = 3;
  const Found found = plan_program(arch::default_tables(), program, machine("trn1.2xlarge"), asked);
  ASSERT_FALSE(found.plans.empty());
  for (size_t i = 1; i < found.plans.size(); ++i) EXPECT_LE(found.plans[i - 1].step_s, found.plans[i].step_s);
  const auto whole_state = std::ranges::find_if(found.plans, [](const Compiled& each) {
    return each.way.mesh_text() == "dp=2" && !each.way.shards_state;
  });
  ASSERT_NE(whole_state, found.plans.end());
  // Gradients of both weights meet, in whatever collectives.
  int64_t bytes = 0;
  for (const auto& each : whole_state->collectives) bytes += each.bytes;
  EXPECT_GE(bytes, program.state_bytes);
  EXPECT_LT(whole_state->low_s, whole_state->step_s);
  EXPECT_GT(whole_state->high_s, whole_state->step_s);
  EXPECT_FALSE(whole_state->contributors.empty());
  // Weights whole, half of x and y.
  EXPECT_EQ(whole_state->argument_bytes, double(program.state_bytes + 1024 * 128 * 4));
  EXPECT_GE(whole_state->memory_bytes, whole_state->argument_bytes);
  EXPECT_GT(whole_state->mfu, 0);
}

TEST(Program, ZeroCutsStateOverTheDevicesOfTheBatch) {
  const Program program = step();
  Asked asked;
  asked.dp = 2;
  asked.compiled = 2;
  const Found found = plan_program(arch::default_tables(), program, machine("trn1.2xlarge"), asked);
  const auto cut =
      std::ranges::find_if(found.plans, [](const Compiled& each) { return each.way.shards_state; });
  ASSERT_NE(cut, found.plans.end());
  EXPECT_EQ(cut->argument_bytes, double(program.state_bytes / 2 + 1024 * 128 * 4));
}

TEST(Program, AStatedMeshIsKept) {
  Asked asked;
  asked.mesh = "tp=2";
  asked.shard = {"input0=-,tp", "input1=tp"};
  const Found found = plan_program(arch::default_tables(), step(), machine("trn1.2xlarge"), asked);
  ASSERT_EQ(found.plans.size(), 1u);
  EXPECT_THAT(found.plans[0].shardings, testing::Contains("input0=-,tp"));
}

TEST(Program, WhatCannotBeIsRefused) {
  const Program program = step();
  const auto label = [&](const char* instance, int64_t count, const Asked& asked) -> std::string {
    try {
      plan_program(arch::default_tables(), program, machine_of(arch::default_tables(), instance, count),
                   asked);
    } catch (const Fault& fault) {
      return fault.label() + ": " + fault.message();
    }
    return "none";
  };
  EXPECT_THAT(label("p5.48xlarge", 1, {}), HasSubstr("plan.program: a program on p5.48xlarge"));
  EXPECT_THAT(label("trn1.32xlarge", 2, {}), HasSubstr("one machine"));
  Asked odd;
  odd.dp = 3;
  EXPECT_THAT(label("trn1.2xlarge", 1, odd), HasSubstr("no way to cut the program over 2 devices, dp 3"));
  Asked axis;
  axis.mesh = "tp=2";
  axis.shard = {"input0=dp"};
  EXPECT_THAT(label("trn1.2xlarge", 1, axis), HasSubstr("spmd.axis"));
}

}  // namespace
}  // namespace opentrn::planner::program
