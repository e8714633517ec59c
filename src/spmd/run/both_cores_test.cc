#include "spmd/run/both_cores.h"

#include <gtest/gtest.h>

#include "graph/text/text.h"
#include "spmd/core_pairs.h"
#include "spmd/run/cost.h"
#include "spmd/run/logical_core.h"
#include "spmd/run/parallel.h"
#include "spmd/run/step_time.h"

namespace opentrn::spmd {
namespace {

using graph::Literal;
using graph::Module;

runtime::Settings logical_cores() {
  runtime::Settings settings;
  settings.target = "trn2.3xlarge";
  settings.physical_cores_per_core = 2;
  settings.cores = {0};
  return settings;
}

// [rows, 512] times two weights.
Module mlp(int rows) {
  const std::string x = "tensor<" + std::to_string(rows) + "x512xf32>";
  const std::string h = "tensor<" + std::to_string(rows) + "x2048xf32>";
  return graph::parse_module("module { func.func @main(%x: " + x + ", %u: tensor<512x2048xf32>, " +
                                 "%d: tensor<2048x512xf32>) -> " + x + R"( {
    %0 = stablehlo.dot_general %x, %u, contracting_dims = [1] x [0] : ()" +
                                 x + ", tensor<512x2048xf32>) -> " + h + R"(
    %1 = stablehlo.tanh %0 : )" + h +
                                 R"(
    %2 = stablehlo.dot_general %1, %d, contracting_dims = [1] x [0] : ()" +
                                 h + ", tensor<2048x512xf32>) -> " + x + R"(
    return %2 : )" + x + " } }",
                             "mlp");
}

double us_of(const Module& module, int64_t devices, const runtime::Settings& settings) {
  Parts parts;
  DeviceOptions options;
  options.parts = &parts;
  const ParallelProgram program(module, module.entry(), devices, options);
  return cost_of(program, settings).device_us.value();
}

TEST(BothCores, TakeAProductsRowsFromEachOther) {
  const runtime::Settings logical = logical_cores(), cores = settings_of_cores(logical);
  EXPECT_EQ(cores.cores, (std::vector<int>{0, 1}));
  const Module module = mlp(1024);
  std::string why;
  const auto both = BothCores::of(module, module.entry(), 1, cores, why);
  ASSERT_TRUE(both) << why;
  const double one_us = us_of(module, 1, logical), both_us = us_of(both->module(), kCoresOfPair, cores);
  EXPECT_LT(both_us, 0.7 * one_us) << both->way();
}

// Where the sum cannot tell, both can be compiled; whoever cannot gets one.
TEST(BothCores, ChainsOfProductsAreGivenWhereTheyMayBeFaster) {
  const runtime::Settings cores = settings_of_cores(logical_cores());
  const Module module = mlp(1024);
  std::string why;
  MayBeFaster others;
  const auto both = BothCores::of(module, module.entry(), 1, cores, why, &others);
  ASSERT_TRUE(both);
  ASSERT_EQ(others.cuts.size(), 1) << both->way();
  EXPECT_EQ(others.cuts[0].way(), "chains of products");
  EXPECT_NE(both->way(), others.cuts[0].way());
  EXPECT_FALSE(others.one_core);
  EXPECT_EQ(BothCores::of(module, module.entry(), 1, cores, why)->way(), both->way());
}

// That each core computes all of it is no way to share it out (decision 0278).
TEST(BothCores, NoWayCutsNothing) {
  const runtime::Settings cores = settings_of_cores(logical_cores());
  for (const int rows : {8, 50, 128, 1024}) {
    const Module module = mlp(rows);
    std::string why;
    MayBeFaster others;
    const auto both = BothCores::of(module, module.entry(), 1, cores, why, &others);
    if (both) {
      EXPECT_NE(both->way(), "whole") << rows;
    }
    for (const BothCores& each : others.cuts) EXPECT_NE(each.way(), "whole") << rows;
  }
}

TEST(BothCores, PartsMakeTheWholeAgain) {
  const Module module = mlp(1024);
  std::string why;
  const auto both = BothCores::of(module, module.entry(), 1, settings_of_cores(logical_cores()), why);
  ASSERT_TRUE(both) << why;
  std::vector<Literal> arguments;
  for (const graph::Type& type : module.entry().argument_types()) {
    std::vector<float> values(static_cast<size_t>(type.element_count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 251);
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    arguments.emplace_back(type, std::vector<std::byte>(bytes, bytes + values.size() * sizeof(float)));
  }
  const auto of_cores = both->split({arguments, arguments});
  ASSERT_EQ(of_cores.size(), 4);
  EXPECT_EQ(of_cores[0], of_cores[2]);
  EXPECT_FALSE(of_cores[0] == of_cores[1]);
  const auto types = both->module().entry().argument_types();
  for (size_t i = 0; i < types.size(); ++i) EXPECT_EQ(of_cores[1][i].type(), types[i]);
}

TEST(BothCores, SmallProgramsStayOnOne) {
  const runtime::Settings cores = settings_of_cores(logical_cores());
  std::string why;
  const Module tiny = graph::parse_module(
      "module { func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> { %0 = stablehlo.add %x, %x : "
      "tensor<8xf32> return %0 : tensor<8xf32> } }",
      "tiny");
  EXPECT_FALSE(BothCores::of(tiny, tiny.entry(), 1, cores, why));
  EXPECT_EQ(why, "no cut of it promises to be faster");
}

// Two products, and between them a call that knows nothing of cores.
Module around_a_call() {
  return graph::parse_module(
      R"(module { func.func @main(%x: tensor<1024x512xf32>, %u: tensor<512x2048xf32>,
                                  %d: tensor<2048x512xf32>) -> tensor<1024x512xf32> {
        %0 = stablehlo.dot_general %x, %u, contracting_dims = [1] x [0]
          : (tensor<1024x512xf32>, tensor<512x2048xf32>) -> tensor<1024x2048xf32>
        %1 = stablehlo.custom_call @somebodys(%0) : (tensor<1024x2048xf32>) -> tensor<1024x2048xf32>
        %2 = stablehlo.dot_general %1, %d, contracting_dims = [1] x [0]
          : (tensor<1024x2048xf32>, tensor<2048x512xf32>) -> tensor<1024x512xf32>
        return %2 : tensor<1024x512xf32> } })",
      "around_a_call");
}

TEST(BothCores, ALogicalCoreMakesACallOnce) {
  const Module module = around_a_call();
  std::string why;
  const auto both = BothCores::of(module, module.entry(), 2, settings_of_cores(logical_cores()), why);
  ASSERT_TRUE(both) << why;
  int calls = 0;
  Parts parts;
  DeviceOptions options;
  options.parts = &parts;
  options.host.is_call = [](const graph::Op& op) { return op.kind == graph::OpKind::custom_call_; };
  using graph::eval::RuntimeValue;
  options.host.call = [&](const graph::Op&, const Module&, std::span<const RuntimeValue> operands) {
    ++calls;
    return std::optional(std::vector<RuntimeValue>{operands[0]});
  };
  const ParallelProgram program(both->module(), both->module().entry(), 2 * kCoresOfPair, options);
  std::vector<Literal> arguments;
  for (const graph::Type& type : module.entry().argument_types())
    arguments.emplace_back(type, std::vector<std::byte>(sizeof(float)));  // of one value
  std::vector<ParallelProgram::Values> values;
  for (const auto& of_core : both->split({arguments, arguments})) {
    auto& each = values.emplace_back();
    for (const Literal& literal : of_core) each.push_back({Literal(literal.type(), literal.dense())});
  }
  (void)program.run(values);
  EXPECT_EQ(calls, 2);
  int stages_once = 0;
  for (const ParallelProgram::Stage& stage : program.stages()) stages_once += stage.once_of_logical_core;
  EXPECT_EQ(stages_once, 1);
}

// What the two exchange lies in the stack that both read.
TEST(BothCores, MeetInTheirMemory) {
  const runtime::Settings cores = settings_of_cores(logical_cores());
  ParallelProgram::Collective exchange{collectives::Kind::kAllGather, 1 << 20, {{0, 1}}, "all_gather"};
  const double on_links_us = collective_cost(exchange, 2, cores)->us;
  exchange.is_inside_logical_core = true;
  const double gathered_us = collective_cost(exchange, 2, cores)->us;
  EXPECT_LT(gathered_us, on_links_us);
  exchange.bytes *= 2;
  EXPECT_EQ(collective_cost(exchange, 2, cores)->us, gathered_us) << "nothing is moved";
  exchange.kind = collectives::Kind::kAllReduce;
  const double summed_us = collective_cost(exchange, 2, cores)->us;
  EXPECT_GT(summed_us, 2 * gathered_us);
  exchange.bytes *= 2;
  EXPECT_NEAR(collective_cost(exchange, 2, cores)->us - 2 * gathered_us, 2 * (summed_us - 2 * gathered_us),
              1e-6);
}

TEST(BothCores, OnlyExchangesOfACoresOwnPairAreInside) {
  Module module = graph::parse_module(
      R"(module { func.func @main(%x: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
        %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, channel_handle =
          #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> :
          tensor<2x2xi64>, use_global_device_ids} : (tensor<4xf32>) -> tensor<8xf32>
        %1 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, channel_handle =
          #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> :
          tensor<2x2xi64>, use_global_device_ids} : (tensor<4xf32>) -> tensor<8xf32>
        return %0, %1 : tensor<8xf32>, tensor<8xf32> } })",
      "groups");
  mark_exchanges_inside(module.entry(), 4);
  std::vector<bool> inside;
  graph::walk(module.entry(), module.entry().body(), [&](graph::OpId id) {
    if (const graph::Op& op = module.entry().op(id); op.kind == graph::OpKind::all_gather_)
      inside.push_back(is_inside_logical_core(op));
  });
  EXPECT_EQ(inside, (std::vector<bool>{true, false}));
}

TEST(LogicalCore, AModelOnBothCoresHasTheValuesOfOne) {
  const Module module = mlp(1024);
  compiler::Options options;
  std::string why;
  const auto both = model_on_both_cores(module, options, logical_cores(), why);
  ASSERT_TRUE(both) << why;
  EXPECT_EQ(both->devices(), kCoresOfPair);
  EXPECT_LT(both->cost().device_us.value(), 0.7 * us_of(module, 1, logical_cores()));
  std::vector<Literal> arguments;
  for (const graph::Type& type : module.entry().argument_types()) {
    std::vector<float> values(static_cast<size_t>(type.element_count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 3;  // sums are exact
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    arguments.emplace_back(type, std::vector<std::byte>(bytes, bytes + values.size() * sizeof(float)));
  }
  Parts parts;
  DeviceOptions device_options;
  device_options.parts = &parts;
  const auto one = compile_for_device(module, device_options);
  EXPECT_EQ(both->run(arguments), one->run(module.entry().result_types, arguments));
}

TEST(LogicalCore, StaysOnOneWhereItIsSaidOrThereIsOne) {
  const Module module = mlp(1024);
  runtime::Settings settings = logical_cores();
  std::string why;
  settings.uses_both_cores = false;
  EXPECT_EQ(model_on_both_cores(module, {}, settings, why), nullptr);
  EXPECT_EQ(why, "OPENTRN_LOGICAL_CORE=one");
  why.clear();
  settings.physical_cores_per_core = 1;
  EXPECT_EQ(model_on_both_cores(module, {}, settings, why), nullptr);
  EXPECT_EQ(why, "");
}

}  // namespace
}  // namespace opentrn::spmd
