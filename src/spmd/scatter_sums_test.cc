// Programs in which sums are cut give what they gave before, with fewer bytes. Both run on the reference
// evaluator, of which every device is a process.
#include "spmd/scatter_sums.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "graph/eval/evaluate.h"
#include "graph/text/text.h"
#include "graph/verify.h"

namespace opentrn::spmd {
namespace {

using graph::Literal;
using graph::OpKind;
using Table = std::vector<int64_t>;  // by device

// A sum of [rows, columns] over groups, of which each device keeps a part that begins at its rows and
// columns.
struct Example {
  int64_t rows = 0, columns = 0, part_rows = 0, part_columns = 0;
  std::vector<std::vector<int64_t>> groups;
  Table first_rows, first_columns;
  std::string more;                // ops in front of the return
  std::string returned = "%part";  // of the type of a part
  std::string combiner = "add";

  int64_t devices() const { return static_cast<int64_t>(first_rows.size()); }
  std::string whole() const { return fmt::format("tensor<{}x{}xf32>", rows, columns); }
  std::string part() const { return fmt::format("tensor<{}x{}xf32>", part_rows, part_columns); }

  static std::string start(const std::string& name, const Table& table) {
    const auto n = table.size();
    return fmt::format(R"(
    %{0}_table = stablehlo.constant dense<[{1}]> : tensor<{2}xi64>
    %{0}_id = stablehlo.partition_id : tensor<ui32>
    %{0}_at = stablehlo.convert %{0}_id : (tensor<ui32>) -> tensor<i64>
    %{0}_one = stablehlo.dynamic_slice %{0}_table, %{0}_at, sizes = [1] : (tensor<{2}xi64>, tensor<i64>) -> tensor<1xi64>
    %{0} = stablehlo.reshape %{0}_one : (tensor<1xi64>) -> tensor<i64>)",
                       name, fmt::join(table, ", "), n);
  }

  graph::Module module() const {
    std::vector<std::string> rows_of_groups;
    for (const auto& group : groups) rows_of_groups.push_back(fmt::format("[{}]", fmt::join(group, ", ")));
    graph::Module made =
        graph::parse_module(fmt::format(
                                R"(module {{
  func.func public @main(%x: {0}, %at: tensor<i64>) -> {1} {{
    %sum = "stablehlo.all_reduce"(%x) <{{channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, replica_groups = dense<[{2}]> : tensor<{3}x{4}xi64>, use_global_device_ids}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.{5} %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }}) : ({0}) -> {0}{6}{7}
    %part = stablehlo.dynamic_slice %sum, %row, %column, sizes = [{8}, {9}] : ({0}, tensor<i64>, tensor<i64>) -> {1}
    {10}
    return {11} : {1}
  }}
}})",
                                whole(), part(), fmt::join(rows_of_groups, ", "), groups.size(),
                                groups[0].size(), combiner, start("row", first_rows),
                                start("column", first_columns), part_rows, part_columns, more, returned),
                            "example");
    graph::verify(made);
    return made;
  }
};

int ops_in(const graph::Module& module, OpKind kind) {
  int count = 0;
  const graph::Function& function = module.entry();
  graph::walk(function, function.body(), [&](graph::OpId id) { count += function.op(id).kind == kind; });
  return count;
}

// Small whole numbers, whose sums are exact in any order.
std::vector<std::vector<Literal>> results(const graph::Module& module, int64_t devices) {
  std::mt19937 random(3);
  std::vector<std::vector<graph::eval::RuntimeValue>> arguments(static_cast<size_t>(devices));
  for (auto& of_device : arguments) {
    const graph::Type type = module.entry().argument_types()[0];
    std::vector<std::byte> bytes(static_cast<size_t>(type.byte_count()));
    for (size_t at = 0; at < bytes.size(); at += 4) {
      const auto value = static_cast<float>(random() % 17) - 8;
      std::memcpy(bytes.data() + at, &value, 4);
    }
    of_device.push_back({Literal(type, std::move(bytes))});
    of_device.push_back({Literal(graph::Type::scalar(graph::ElementType::kI64), std::vector<std::byte>(8))});
  }
  const std::vector<const graph::Function*> functions(arguments.size(), &module.entry());
  std::vector<std::vector<Literal>> all;
  for (const auto& values : graph::eval::evaluate_parallel(module, functions, 1, devices, arguments)) {
    auto& of_device = all.emplace_back();
    for (const auto& value : values) of_device.push_back(value.literal());
  }
  return all;
}

// The module after the pass, which has to give what it gave before.
graph::Module replaced(const Example& example, int expected) {
  const graph::Module before = example.module();
  graph::Module after = before;
  EXPECT_EQ(scatter_sums(after, after.entry(), example.devices()), expected) << graph::print_module(before);
  graph::verify(after);
  EXPECT_EQ(results(after, example.devices()), results(before, example.devices()))
      << graph::print_module(after);
  return after;
}

// Mesh (dp 2, tp 2): a gradient is summed over dp and cut by it.
Example over_data() { return {8, 6, 4, 6, {{0, 2}, {1, 3}}, {0, 0, 4, 4}, {0, 0, 0, 0}}; }

TEST(ScatterSums, ASumThatIsCutByItsDevicesIsOneReduceScatter) {
  const graph::Module made = replaced(over_data(), 1);
  EXPECT_EQ(ops_in(made, OpKind::reduce_scatter_), 1);
  EXPECT_EQ(ops_in(made, OpKind::all_reduce_), 0);
  EXPECT_EQ(ops_in(made, OpKind::dynamic_slice_), 0);
  EXPECT_EQ(ops_in(made, OpKind::partition_id_), 0);  // nothing asks for the device's number any more
}

TEST(ScatterSums, PartsInAnotherOrderThanTheGroupsArePermuted) {
  Example example = over_data();
  example.first_rows = {4, 0, 0, 4};
  const graph::Module made = replaced(example, 1);
  graph::walk(made.entry(), made.entry().body(), [&](graph::OpId id) {
    const graph::Op& op = made.entry().op(id);
    if (op.kind == OpKind::reduce_scatter_) {
      EXPECT_EQ(op.matrix(graph::Attr::replica_groups).values, (std::vector<int64_t>{2, 0, 1, 3}));
    }
  });
}

TEST(ScatterSums, EachDimensionThatIsCutIsOneStepTheNearestDevicesFirst) {
  const Example example{8, 6, 4, 2, {{0, 1, 2, 3, 4, 5}}, {0, 0, 0, 4, 4, 4}, {0, 2, 4, 0, 2, 4}};
  const graph::Module made = replaced(example, 1);
  std::vector<int64_t> dims;
  graph::walk(made.entry(), made.entry().body(), [&](graph::OpId id) {
    const graph::Op& op = made.entry().op(id);
    if (op.kind == OpKind::reduce_scatter_) dims.push_back(op.integer(graph::Attr::scatter_dimension));
  });
  EXPECT_EQ(dims, (std::vector<int64_t>{1, 0}));  // {0, 1, 2} are nearer than {0, 3}
}

TEST(ScatterSums, PartsThatSeveralDevicesKeepAreSummedAmongThemWhereTheyAreLarge) {
  Example small{8, 6, 4, 6, {{0, 1, 2, 3}}, {0, 0, 4, 4}, {0, 0, 0, 0}};
  EXPECT_EQ(ops_in(replaced(small, 0), OpKind::all_reduce_), 1);
  Example large = small;
  large.rows = 8192, large.part_rows = 4096;
  large.first_rows = {0, 0, 4096, 4096};
  const graph::Module made = replaced(large, 1);
  EXPECT_EQ(ops_in(made, OpKind::reduce_scatter_), 1);
  EXPECT_EQ(ops_in(made, OpKind::all_reduce_), 1);
}

TEST(ScatterSums, OtherCombinersAreReplacedToo) {
  Example example = over_data();
  example.combiner = "maximum";
  (void)replaced(example, 1);
}

TEST(ScatterSums, WhatElseReadsTheSumKeepsIt) {
  Example example = over_data();
  example.more =
      "%half = stablehlo.slice %sum [0:4, 0:6] : (tensor<8x6xf32>) -> tensor<4x6xf32>\n"
      "    %both = stablehlo.add %half, %part : tensor<4x6xf32>";
  example.returned = "%both";
  (void)replaced(example, 0);
}

TEST(ScatterSums, TwoCutsOfTheSamePartAreOne) {
  Example example = over_data();
  example.more =
      "%again = stablehlo.dynamic_slice %sum, %row, %column, sizes = [4, 6] : (tensor<8x6xf32>, tensor<i64>, "
      "tensor<i64>) -> tensor<4x6xf32>\n    %both = stablehlo.add %again, %part : tensor<4x6xf32>";
  example.returned = "%both";
  EXPECT_EQ(ops_in(replaced(example, 1), OpKind::reduce_scatter_), 1);
}

TEST(ScatterSums, PartsThatOverlapOrAreMissingOrDependOnDataStay) {
  Example overlap = over_data();
  overlap.first_rows = {0, 0, 2, 2};
  (void)replaced(overlap, 0);
  Example missing = over_data();
  missing.first_rows = {0, 4, 0, 4};  // cut by tp, over which nothing is summed
  (void)replaced(missing, 0);
  Example of_data = over_data();
  of_data.more =
      "%moved = stablehlo.dynamic_slice %sum, %at, %column, sizes = [4, 6] : (tensor<8x6xf32>, tensor<i64>, "
      "tensor<i64>) -> tensor<4x6xf32>";
  of_data.returned = "%moved";
  (void)replaced(of_data, 0);
}

// Devices in any order, groups of any of their axes, parts by any axes.
TEST(ScatterSums, RandomMeshesAndCutsGiveTheSame) {
  std::mt19937 random(11);
  int hits = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const int64_t axes = 1 + static_cast<int64_t>(random() % 3);
    std::vector<int64_t> sizes(static_cast<size_t>(axes));
    for (int64_t& size : sizes) size = 2 + static_cast<int64_t>(random() % 2);
    const int64_t devices = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
    std::vector<int64_t> order(static_cast<size_t>(devices));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    // What an axis does: summed over, and cuts nothing, rows or columns.
    std::vector<uint32_t> summed(sizes.size()), cut(sizes.size());
    for (size_t a = 0; a < sizes.size(); ++a) {
      summed[a] = random() % 3 != 0;
      cut[a] = random() % 3;
    }
    if (std::ranges::count(summed, 1u) == 0) summed[0] = 1;
    Example example;
    int64_t by_rows = 1, by_columns = 1;
    for (size_t a = 0; a < sizes.size(); ++a)
      (cut[a] == 1 ? by_rows : by_columns) *= cut[a] == 0 ? 1 : sizes[a];
    example.part_rows = 1 + static_cast<int64_t>(random() % 2);
    example.part_columns = random() % 2 ? 3 : 1024;
    example.rows = example.part_rows * by_rows;
    example.columns = example.part_columns * by_columns;
    example.first_rows.resize(static_cast<size_t>(devices));
    example.first_columns.resize(static_cast<size_t>(devices));
    std::map<std::vector<int64_t>, std::vector<int64_t>> groups;
    for (int64_t place = 0; place < devices; ++place) {
      const int64_t device = order[static_cast<size_t>(place)];
      std::vector<int64_t> rest;
      int64_t left = place, row = 0, column = 0;
      for (size_t a = 0; a < sizes.size(); ++a) {
        const int64_t here = left % sizes[a];
        left /= sizes[a];
        if (!summed[a]) rest.push_back(here);
        if (cut[a] == 1) row = row * sizes[a] + here;
        if (cut[a] == 2) column = column * sizes[a] + here;
      }
      groups[rest].push_back(device);
      example.first_rows[static_cast<size_t>(device)] = row * example.part_rows;
      example.first_columns[static_cast<size_t>(device)] = column * example.part_columns;
    }
    for (auto& [rest, group] : groups) example.groups.push_back(group);
    const graph::Module before = example.module();
    graph::Module after = before;
    hits += scatter_sums(after, after.entry(), devices);
    graph::verify(after);
    ASSERT_EQ(results(after, devices), results(before, devices)) << graph::print_module(before);
  }
  EXPECT_GT(hits, 6);
  EXPECT_LT(hits, 54);
}

}  // namespace
}  // namespace opentrn::spmd
