#include "spmd/run/chain_cuts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/text/text.h"
#include "spmd/core_pairs.h"
#include "spmd/partition.h"
#include "spmd/run/both_cores.h"
#include "spmd/run/cost.h"
#include "spmd/run/device_program.h"
#include "spmd/run/logical_core.h"

namespace opentrn::spmd {
namespace {

using graph::Literal;
using graph::Module;
using graph::OpKind;
using graph::Type;

// Four heads of queries that share one of keys and values, between a projection and the output layer; in
// float32 and without a softmax, so that sums are exact.
Module shared_keys() {
  return graph::parse_module(R"(module {
  func.func @main(%x: tensor<1024x512xf32>, %q: tensor<512x512xf32>, %k: tensor<512x128xf32>,
                  %o: tensor<512x512xf32>) -> tensor<1024x512xf32> {
    %0 = stablehlo.dot_general %x, %q, contracting_dims = [1] x [0]
      : (tensor<1024x512xf32>, tensor<512x512xf32>) -> tensor<1024x512xf32>
    %1 = stablehlo.reshape %0 : (tensor<1024x512xf32>) -> tensor<1024x4x128xf32>
    %2 = stablehlo.transpose %1, dims = [1, 0, 2] : (tensor<1024x4x128xf32>) -> tensor<4x1024x128xf32>
    %3 = stablehlo.dot_general %x, %k, contracting_dims = [1] x [0]
      : (tensor<1024x512xf32>, tensor<512x128xf32>) -> tensor<1024x128xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [1, 2] : (tensor<1024x128xf32>) -> tensor<4x1024x128xf32>
    %5 = stablehlo.dot_general %2, %4, batching_dims = [0] x [0], contracting_dims = [2] x [2]
      : (tensor<4x1024x128xf32>, tensor<4x1024x128xf32>) -> tensor<4x1024x1024xf32>
    %6 = stablehlo.sign %5 : tensor<4x1024x1024xf32>
    %7 = stablehlo.dot_general %6, %4, batching_dims = [0] x [0], contracting_dims = [2] x [1]
      : (tensor<4x1024x1024xf32>, tensor<4x1024x128xf32>) -> tensor<4x1024x128xf32>
    %8 = stablehlo.sign %7 : tensor<4x1024x128xf32>
    %9 = stablehlo.transpose %8, dims = [1, 0, 2] : (tensor<4x1024x128xf32>) -> tensor<1024x4x128xf32>
    %10 = stablehlo.reshape %9 : (tensor<1024x4x128xf32>) -> tensor<1024x512xf32>
    %11 = stablehlo.dot_general %10, %o, contracting_dims = [1] x [0]
      : (tensor<1024x512xf32>, tensor<512x512xf32>) -> tensor<1024x512xf32>
    return %11 : tensor<1024x512xf32>
  } })",
                             "shared_keys");
}

// Latent attention's way to keys: a few columns, their largest taken off as a norm has it, and more of them.
Module compressed() {
  return graph::parse_module(R"(module {
  func.func @main(%x: tensor<1024x2048xf32>, %down: tensor<2048x256xf32>, %up: tensor<256x2048xf32>,
                  %o: tensor<2048x2048xf32>) -> tensor<1024x2048xf32> {
    %0 = stablehlo.dot_general %x, %down, contracting_dims = [1] x [0]
      : (tensor<1024x2048xf32>, tensor<2048x256xf32>) -> tensor<1024x256xf32>
    %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %least) applies stablehlo.maximum across dimensions = [1]
      : (tensor<1024x256xf32>, tensor<f32>) -> tensor<1024xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<1024xf32>) -> tensor<1024x256xf32>
    %3 = stablehlo.subtract %0, %2 : tensor<1024x256xf32>
    %4 = stablehlo.sign %3 : tensor<1024x256xf32>
    %5 = stablehlo.dot_general %4, %up, contracting_dims = [1] x [0]
      : (tensor<1024x256xf32>, tensor<256x2048xf32>) -> tensor<1024x2048xf32>
    %6 = stablehlo.sign %5 : tensor<1024x2048xf32>
    %7 = stablehlo.dot_general %6, %o, contracting_dims = [1] x [0]
      : (tensor<1024x2048xf32>, tensor<2048x2048xf32>) -> tensor<1024x2048xf32>
    return %7 : tensor<1024x2048xf32>
  } })",
                             "compressed");
}

// Three heads of queries with the keys of one, and weights that the largest score of each query has part in.
// `sums`: of all rows of queries too, as of a bias's gradient.
Module of_three_heads(bool sums) {
  const std::string sum = sums ? R"(
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %15 = stablehlo.reduce(%13 init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<1024x384xf32>, tensor<f32>) -> tensor<384xf32>
    return %14, %15 : tensor<1024x512xf32>, tensor<384xf32>
  } })"
                               : R"(
    return %14 : tensor<1024x512xf32>
  } })";
  const std::string_view results = sums ? "(tensor<1024x512xf32>, tensor<384xf32>)" : "tensor<1024x512xf32>";
  return graph::parse_module(fmt::format(R"(module {{
  func.func @main(%x: tensor<1024x512xf32>, %q: tensor<512x384xf32>, %k: tensor<512x128xf32>,
                  %o: tensor<384x512xf32>) -> {} {{
    %0 = stablehlo.dot_general %x, %q, contracting_dims = [1] x [0]
      : (tensor<1024x512xf32>, tensor<512x384xf32>) -> tensor<1024x384xf32>
    %1 = stablehlo.reshape %0 : (tensor<1024x384xf32>) -> tensor<1024x3x128xf32>
    %2 = stablehlo.transpose %1, dims = [1, 0, 2] : (tensor<1024x3x128xf32>) -> tensor<3x1024x128xf32>
    %3 = stablehlo.dot_general %x, %k, contracting_dims = [1] x [0]
      : (tensor<1024x512xf32>, tensor<512x128xf32>) -> tensor<1024x128xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [1, 2] : (tensor<1024x128xf32>) -> tensor<3x1024x128xf32>
    %5 = stablehlo.dot_general %2, %4, batching_dims = [0] x [0], contracting_dims = [2] x [2]
      : (tensor<3x1024x128xf32>, tensor<3x1024x128xf32>) -> tensor<3x1024x1024xf32>
    %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %6 = stablehlo.reduce(%5 init: %least) applies stablehlo.maximum across dimensions = [2]
      : (tensor<3x1024x1024xf32>, tensor<f32>) -> tensor<3x1024xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<3x1024xf32>) -> tensor<3x1024x1024xf32>
    %8 = stablehlo.add %5, %7 : tensor<3x1024x1024xf32>
    %9 = stablehlo.sign %8 : tensor<3x1024x1024xf32>
    %10 = stablehlo.dot_general %9, %4, batching_dims = [0] x [0], contracting_dims = [2] x [1]
      : (tensor<3x1024x1024xf32>, tensor<3x1024x128xf32>) -> tensor<3x1024x128xf32>
    %11 = stablehlo.sign %10 : tensor<3x1024x128xf32>
    %12 = stablehlo.transpose %11, dims = [1, 0, 2] : (tensor<3x1024x128xf32>) -> tensor<1024x3x128xf32>
    %13 = stablehlo.reshape %12 : (tensor<1024x3x128xf32>) -> tensor<1024x384xf32>
    %14 = stablehlo.dot_general %13, %o, contracting_dims = [1] x [0]
      : (tensor<1024x384xf32>, tensor<384x512xf32>) -> tensor<1024x512xf32>{})",
                                         results, sum),
                             "three_heads");
}
Module three_heads() { return of_three_heads(false); }
Module summed_heads() { return of_three_heads(true); }

// A choice of one of eight for each row, rows read as was chosen, and two products of them.
Module chosen_rows() {
  return graph::parse_module(R"(module {
  func.func @main(%given: tensor<1024x512xf32>, %choose: tensor<512x8xf32>, %up: tensor<512x8192xf32>,
                  %down: tensor<8192x512xf32>) -> tensor<1024x512xf32> {
    %x = stablehlo.sign %given : tensor<1024x512xf32>
    %0 = stablehlo.dot_general %x, %choose, contracting_dims = [1] x [0]
      : (tensor<1024x512xf32>, tensor<512x8xf32>) -> tensor<1024x8xf32>
    %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %least) applies stablehlo.maximum across dimensions = [1]
      : (tensor<1024x8xf32>, tensor<f32>) -> tensor<1024xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<1024xf32>) -> tensor<1024x8xf32>
    %3 = stablehlo.compare EQ, %0, %2 : (tensor<1024x8xf32>, tensor<1024x8xf32>) -> tensor<1024x8xi1>
    %4 = stablehlo.iota dim = 1 : tensor<1024x8xf32>
    %eight = stablehlo.constant dense<8.0> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %eight, dims = [] : (tensor<f32>) -> tensor<1024x8xf32>
    %6 = stablehlo.select %3, %4, %5 : tensor<1024x8xi1>, tensor<1024x8xf32>
    %7 = stablehlo.reduce(%6 init: %eight) applies stablehlo.minimum across dimensions = [1]
      : (tensor<1024x8xf32>, tensor<f32>) -> tensor<1024xf32>
    %8 = stablehlo.convert %7 : (tensor<1024xf32>) -> tensor<1024xi32>
    %9 = stablehlo.reverse %8, dims = [0] : tensor<1024xi32>
    %10 = "stablehlo.gather"(%x, %9) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
        slice_sizes = array<i64: 1, 512>}> : (tensor<1024x512xf32>, tensor<1024xi32>) -> tensor<1024x512xf32>
    %11 = stablehlo.dot_general %10, %up, contracting_dims = [1] x [0]
      : (tensor<1024x512xf32>, tensor<512x8192xf32>) -> tensor<1024x8192xf32>
    %12 = stablehlo.sign %11 : tensor<1024x8192xf32>
    %13 = stablehlo.dot_general %12, %down, contracting_dims = [1] x [0]
      : (tensor<1024x8192xf32>, tensor<8192x512xf32>) -> tensor<1024x512xf32>
    return %13 : tensor<1024x512xf32>
  } })",
                             "chosen_rows");
}

// An MLP, and both of its weights scaled by one constant.
Module one_constant() {
  return graph::parse_module(R"(module {
  func.func @main(%x: tensor<1024x512xf32>, %up: tensor<512x512xf32>, %down: tensor<512x512xf32>)
      -> (tensor<512x512xf32>, tensor<512x512xf32>, tensor<1024x512xf32>) {
    %0 = stablehlo.sign %x : tensor<1024x512xf32>
    %1 = stablehlo.dot_general %0, %up, contracting_dims = [1] x [0]
      : (tensor<1024x512xf32>, tensor<512x512xf32>) -> tensor<1024x512xf32>
    %2 = stablehlo.sign %1 : tensor<1024x512xf32>
    %3 = stablehlo.dot_general %2, %down, contracting_dims = [1] x [0]
      : (tensor<1024x512xf32>, tensor<512x512xf32>) -> tensor<1024x512xf32>
    %half = stablehlo.constant dense<0.5> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %half, dims = [] : (tensor<f32>) -> tensor<512x512xf32>
    %5 = stablehlo.dot_general %0, %1, contracting_dims = [0] x [0]
      : (tensor<1024x512xf32>, tensor<1024x512xf32>) -> tensor<512x512xf32>
    %6 = stablehlo.dot_general %2, %0, contracting_dims = [0] x [0]
      : (tensor<1024x512xf32>, tensor<1024x512xf32>) -> tensor<512x512xf32>
    %7 = stablehlo.multiply %5, %4 : tensor<512x512xf32>
    %8 = stablehlo.multiply %6, %4 : tensor<512x512xf32>
    return %7, %8, %3 : tensor<512x512xf32>, tensor<512x512xf32>, tensor<1024x512xf32>
  } })",
                             "one_constant");
}

runtime::Settings logical_core() {
  runtime::Settings settings;
  settings.target = "trn2.3xlarge";
  settings.physical_cores_per_core = 2;
  settings.cores = {0};
  return settings;
}

using Types = std::vector<std::string>;

// Of products and of exchanges.
std::pair<Types, Types> cut_types(const Module& module) {
  const AxisGrid grid = core_grid(1);
  const auto chains = chain_cuts(module.entry(), grid, core_axes(grid));
  std::pair<Types, Types> found;
  if (!chains) return found;
  const SpmdModule local = partition(module, chains->function, grid, chains->stated.values);
  const graph::Function& entry = local.module.entry();
  graph::walk(entry, entry.body(), [&](graph::OpId id) {
    const graph::Op& op = entry.op(id);
    const std::string type = op.results.empty() ? "" : entry.type(op.results[0]).to_string();
    if (op.kind == OpKind::dot_general_) found.first.push_back(type);
    if (op.has(graph::Attr::replica_groups)) found.second.push_back(type);
  });
  return found;
}

// Heads of queries are cut, the keys that all of them read are whole, and the only exchange is the sum that
// the chain ends in, of which each device gets its rows.
TEST(ChainCuts, HeadsThatShareKeysAreCut) {
  const auto [products, exchanges] = cut_types(shared_keys());
  EXPECT_EQ(products, (Types{"tensor<1024x256xf32>", "tensor<1024x128xf32>", "tensor<2x1024x1024xf32>",
                             "tensor<2x1024x128xf32>", "tensor<1024x512xf32>"}));
  EXPECT_EQ(exchanges, (Types{"tensor<512x512xf32>"}));
}

// Each device has all heads of its own queries, and the only exchange brings it the other's keys.
TEST(ChainCuts, QueriesAreCutWhereHeadsCannotBe) {
  const auto [products, exchanges] = cut_types(three_heads());
  EXPECT_EQ(products, (Types{"tensor<512x384xf32>", "tensor<512x128xf32>", "tensor<3x512x1024xf32>",
                             "tensor<3x512x128xf32>", "tensor<512x512xf32>"}));
  EXPECT_EQ(exchanges, (Types{"tensor<3x1024x128xf32>"}));
  // What is summed over queries, and not spread again, is no softmax.
  EXPECT_EQ(cut_types(summed_heads()).first, products);
}

// Rows of what chooses, so that only what was chosen is exchanged; what is read as was chosen is read in
// parts of rows.
TEST(ChainCuts, ChoicesAreCutByRows) {
  const auto [products, exchanges] = cut_types(chosen_rows());
  EXPECT_EQ(products, (Types{"tensor<512x8xf32>", "tensor<1024x4096xf32>", "tensor<1024x512xf32>"}));
  // Rows that choose, what they chose, rows that are read, and the chain's sum.
  EXPECT_EQ(exchanges, (Types{"tensor<512x512xf32>", "tensor<1024xi32>", "tensor<1024x512xf32>",
                              "tensor<512x512xf32>"}));
}

// The gradients of both are cut along the inner width, and nothing but the chain's sum is exchanged.
TEST(ChainCuts, WhatIsTheSameEverywhereSaysNothingOfItsReaders) {
  const auto [products, exchanges] = cut_types(one_constant());
  EXPECT_EQ(products, (Types{"tensor<1024x256xf32>", "tensor<1024x512xf32>", "tensor<512x256xf32>",
                             "tensor<256x512xf32>"}));
  EXPECT_EQ(exchanges, (Types{"tensor<512x512xf32>"}));
}

// Half of the tokens by the narrow weight, whose columns are normed, and half of the next one's columns: what
// lies between is exchanged, and nothing for the norm.
TEST(ChainCuts, NormsOfFewColumnsAreOfRows) {
  const auto [products, exchanges] = cut_types(compressed());
  EXPECT_EQ(products, (Types{"tensor<512x256xf32>", "tensor<1024x1024xf32>", "tensor<1024x2048xf32>"}));
  EXPECT_EQ(exchanges, (Types{"tensor<1024x256xf32>", "tensor<512x2048xf32>"}));
}

class ChainValues : public testing::TestWithParam<Module (*)()> {};
INSTANTIATE_TEST_SUITE_P(Programs, ChainValues,
                         testing::Values(shared_keys, three_heads, summed_heads, chosen_rows, compressed));

TEST_P(ChainValues, AreThoseOfOneCore) {
  const Module module = GetParam()();
  const AxisGrid grid = core_grid(1);
  const auto chains = chain_cuts(module.entry(), grid, core_axes(grid));
  ASSERT_TRUE(chains);
  SpmdModule local = partition(module, chains->function, grid, chains->stated.values);
  const ShardedModel both(module, grid.mesh(), std::move(local), {}, settings_of_cores(logical_core()),
                          "chains");
  std::vector<Literal> arguments;
  for (const Type& type : module.entry().argument_types()) {
    std::vector<float> values(static_cast<size_t>(type.element_count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 2654435761U >> 8) % 3) - 1;
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    arguments.emplace_back(type, std::vector<std::byte>(bytes, bytes + values.size() * sizeof(float)));
  }
  Parts parts;
  DeviceOptions options;
  options.parts = &parts;
  const auto one = compile_for_device(module, options);
  EXPECT_EQ(both.run(arguments), one->run(module.entry().result_types, arguments));
  EXPECT_LT(both.cost().device_us.value(), 0.7 * cost_of(*one).device_us.value());
}

// One table for both ends of a model: rows of it are read by number, and products give a column for each row.
TEST(ChainCuts, ATableIsCutForEachOfItsUses) {
  const auto [products, exchanges] = cut_types(graph::parse_module(R"(module {
  func.func @main(%tokens: tensor<256xi32>, %table: tensor<2048x512xf32>) -> tensor<256xf32> {
    %0 = "stablehlo.gather"(%table, %tokens) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
        slice_sizes = array<i64: 1, 512>}> : (tensor<2048x512xf32>, tensor<256xi32>) -> tensor<256x512xf32>
    %1 = stablehlo.dot_general %0, %table, contracting_dims = [1] x [1]
      : (tensor<256x512xf32>, tensor<2048x512xf32>) -> tensor<256x2048xf32>
    %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %least) applies stablehlo.maximum across dimensions = [1]
      : (tensor<256x2048xf32>, tensor<f32>) -> tensor<256xf32>
    return %2 : tensor<256xf32>
  } })",
                                                                   "one_table"));
  EXPECT_EQ(products, Types{"tensor<256x1024xf32>"});
  // The other half of each row, the table's own rows whole, and the largest of both.
  EXPECT_EQ(exchanges, (Types{"tensor<1024x512xf32>", "tensor<256x512xf32>", "tensor<256xf32>"}));
}

// Its columns are features of one head, which scores are summed over.
TEST(ChainCuts, NoneBeginsWithColumnsThatCannotBeFollowed) {
  const Module module = graph::parse_module(R"(module {
  func.func @main(%x: tensor<64x64xf32>, %k: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = stablehlo.dot_general %x, %k, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %1 = stablehlo.dot_general %0, %0, contracting_dims = [1] x [1]
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %1 : tensor<64x64xf32>
  } })",
                                            "one_head");
  const AxisGrid grid = core_grid(1);
  EXPECT_FALSE(chain_cuts(module.entry(), grid, core_axes(grid)));
}

}  // namespace
}  // namespace opentrn::spmd
