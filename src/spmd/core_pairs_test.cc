#include "spmd/core_pairs.h"

#include <gtest/gtest.h>

#include "graph/eval/evaluate.h"
#include "graph/text/text.h"
#include "graph/verify.h"
#include "spmd/partition.h"

namespace opentrn::spmd {
namespace {

using graph::Function;
using graph::Literal;
using graph::Module;
using graph::OpKind;
using graph::ValueId;
using graph::eval::RuntimeValue;
using Floats = std::vector<float>;

Literal literal(const Floats& values, std::vector<int64_t> dims) {
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  return {graph::Type::tensor(graph::ElementType::kF32, std::move(dims)),
          std::vector<std::byte>(bytes, bytes + values.size() * sizeof(float))};
}

constexpr std::string_view kBody = R"(({
      ^bb0(%l: tensor<f32>, %r: tensor<f32>):
        %t = stablehlo.add %l, %r : tensor<f32>
        stablehlo.return %t : tensor<f32> }) )";

// Two devices: a sum, a gather of the sum's halves by device number, an exchange, a permute.
Module sample() {
  return graph::parse_module(
      R"(module { func.func @main(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<8x6xf32>,
      tensor<4x6xf32>, tensor<4x6xf32>, tensor<ui32>) {
    %s = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
      replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> )" +
          std::string(kBody) + R"(: (tensor<4x6xf32>) -> tensor<4x6xf32>
    %g = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64,
      channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>,
      replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}>
      : (tensor<4x6xf32>) -> tensor<8x6xf32>
    %p = "stablehlo.collective_permute"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>,
      source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %a = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>,
      replica_groups = dense<[[0]]> : tensor<1x1xi64>}> )" +
          std::string(kBody) + R"(: (tensor<4x6xf32>) -> tensor<4x6xf32>
    %n = stablehlo.partition_id : tensor<ui32>
    return %s, %g, %p, %a, %n : tensor<4x6xf32>, tensor<8x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<ui32>
  } })",
      "pairs");
}

std::vector<std::vector<RuntimeValue>> run(const Module& module, const std::vector<Literal>& of_devices) {
  const std::vector<const Function*> functions(of_devices.size(), &module.entry());
  std::vector<std::vector<RuntimeValue>> arguments;
  for (const Literal& each : of_devices) arguments.push_back({{each}});
  return graph::eval::evaluate_parallel(module, functions, 1, static_cast<int64_t>(of_devices.size()),
                                        arguments, {});
}

std::vector<Literal> inputs() {
  std::vector<Literal> all;
  for (int device = 0; device < 2; ++device) {
    Floats values;
    for (int i = 0; i < 24; ++i) values.push_back(static_cast<float>(100 * device + i));
    all.push_back(literal(values, {4, 6}));
  }
  return all;
}

TEST(CorePairs, BothCoresOfADeviceHaveWhatItHad) {
  Module module = sample();
  const std::vector<Literal> given = inputs();
  const auto wanted = run(module, given);
  on_core_pairs(module.entry(), 2);
  graph::verify(module);
  const auto found = run(module, {given[0], given[0], given[1], given[1]});
  for (size_t core = 0; core < 4; ++core)
    for (size_t i = 0; i < wanted[0].size(); ++i)
      EXPECT_EQ(found[core][i].literal(), wanted[core / 2][i].literal()) << core << " " << i;
}

// Of rows that the core has: every exchange of devices is one of their first cores and one of their second.
TEST(CorePairs, WhatIsCutOverTheCoresKeepsItsValues) {
  for (const int dim : {0, 1}) {
    Module module = sample();
    const std::vector<Literal> given = inputs();
    const auto wanted = run(module, given);
    on_core_pairs(module.entry(), 2);
    const AxisGrid grid = core_grid(2);
    Cuts cuts(2);
    cuts[static_cast<size_t>(dim)] = core_axes(grid);
    const SpmdModule local = partition(module, module.entry(), grid, {{module.entry().arguments()[0], cuts}});
    graph::verify(local.module);
    std::vector<Literal> parts;
    for (int64_t core = 0; core < 4; ++core)
      parts.push_back(part_of(given[static_cast<size_t>(core) / 2], local.inputs[0], core));
    const auto found = run(local.module, parts);
    int logical = 0;
    graph::walk(local.module.entry(), local.module.entry().body(), [&](graph::OpId id) {
      const auto bytes = bytes_of_logical_core(local.module.entry().op(id));
      if (!bytes) return;
      EXPECT_EQ(*bytes, 96);  // the whole array, though each core brings a half
      ++logical;
    });
    EXPECT_EQ(logical, 4);
    for (size_t device = 0; device < 2; ++device)
      for (size_t i = 0; i < 4; ++i) {
        const std::vector<Literal> halves{found[2 * device][i].literal(), found[2 * device + 1][i].literal()};
        const Literal& whole = wanted[device][i].literal();
        EXPECT_EQ(joined(halves, whole.type(), local.outputs[i]), whole) << dim << " " << device << " " << i;
      }
  }
}

}  // namespace
}  // namespace opentrn::spmd
