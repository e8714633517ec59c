// Values of a program on many devices are those on one: chosen programs, and random graphs under random cuts.
// Both sides run on the reference evaluator, of which every device is a process.
#include "spmd/partition.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "base/fault.h"
#include "graph/builder.h"
#include "graph/eval/evaluate.h"
#include "graph/text/text.h"
#include "graph/verify.h"
#include "spmd/sdy_ops.h"

namespace opentrn::spmd {
namespace {

using graph::Attr;
using graph::Attribute;
using graph::Builder;
using graph::ElementType;
using graph::Literal;
using graph::OpKind;
using graph::Type;
using graph::ValueId;
using graph::eval::RuntimeValue;

Mesh mesh_of(std::vector<Mesh::Axis> axes) { return {std::move(axes), {}}; }

// Small numbers that differ from place to place.
Literal numbers(const Type& type, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(static_cast<size_t>(type.byte_count()));
  for (size_t at = 0; at < bytes.size(); at += 4) {
    const auto integer = static_cast<int32_t>(random() % 7) - 3;
    const auto real = static_cast<float>(integer);
    std::memcpy(bytes.data() + at,
                type.element() == ElementType::kF32 ? static_cast<const void*>(&real) : &integer, 4);
  }
  return {type, std::move(bytes)};
}

std::vector<Literal> numbers_for(const graph::Function& function) {
  std::vector<Literal> values;
  for (const Type& type : function.argument_types())
    values.push_back(numbers(type, static_cast<uint32_t>(values.size()) + 1));
  return values;
}

std::vector<RuntimeValue> runtime_values(std::span<const Literal> literals) {
  std::vector<RuntimeValue> values;
  for (const Literal& literal : literals) values.push_back({literal});
  return values;
}

std::vector<Literal> on_one(const graph::Module& module, std::span<const Literal> arguments) {
  std::vector<Literal> results;
  for (const RuntimeValue& value : graph::eval::evaluate(module, module.entry(), runtime_values(arguments)))
    results.push_back(value.literal());
  return results;
}

std::vector<Literal> on_many(const SpmdModule& spmd, std::span<const Literal> arguments,
                             std::span<const Type> result_types, int64_t devices) {
  std::vector<std::vector<RuntimeValue>> by_device(static_cast<size_t>(devices));
  for (int64_t device = 0; device < devices; ++device) {
    auto& values = by_device[static_cast<size_t>(device)];
    for (size_t i = 0; i < arguments.size(); ++i)
      values.push_back({part_of(arguments[i], spmd.inputs[i], device)});
    for (const HeldConstant& constant : spmd.constants)
      values.push_back({part_of(constant.whole, constant.sharding, device)});
  }
  const graph::Function& entry = spmd.module.entry();
  const std::vector<const graph::Function*> functions(static_cast<size_t>(devices), &entry);
  const auto results = graph::eval::evaluate_parallel(spmd.module, functions, 1, devices, by_device);
  std::vector<Literal> whole;
  for (size_t i = 0; i < result_types.size(); ++i) {
    std::vector<Literal> parts;
    for (const auto& of_device : results) parts.push_back(of_device[i].literal());
    whole.push_back(joined(parts, result_types[i], spmd.outputs[i]));
  }
  return whole;
}

int count_of(const graph::Module& module, OpKind kind) {
  int count = 0;
  const graph::Function& function = module.entry();
  graph::walk(function, function.body(), [&](graph::OpId id) { count += function.op(id).kind == kind; });
  return count;
}

// `cuts`: by argument, as "tp", "-,dp": axes of a dimension are joined by '+', '-' is none.
SpmdModule spread(const graph::Module& module, const Mesh& mesh, const std::vector<std::string>& cuts) {
  const AxisGrid grid(mesh);
  StatedCuts stated;
  const graph::Function& entry = module.entry();
  for (size_t i = 0; i < cuts.size(); ++i) {
    if (cuts[i].empty()) continue;
    Sharding sharding{mesh, {}, {}};
    std::string word;
    sharding.dims.emplace_back();
    for (const char c : cuts[i] + ",") {
      if (c != ',' && c != '+') {
        word += c;
        continue;
      }
      if (word != "-") sharding.dims.back().push_back({word, 1, 0});
      word.clear();
      if (c == ',') sharding.dims.emplace_back();
    }
    sharding.dims.pop_back();
    stated[entry.arguments()[i]] = grid.cuts_of(sharding, entry.type(entry.arguments()[i]).rank());
  }
  SpmdModule spmd = partition(module, entry, grid, stated);
  graph::verify(spmd.module);
  return spmd;
}

SpmdModule expect_same(const graph::Module& module, const Mesh& mesh, const std::vector<std::string>& cuts) {
  SpmdModule spmd = spread(module, mesh, cuts);
  const std::vector<Literal> arguments = numbers_for(module.entry());
  const AxisGrid grid(mesh);
  const auto expected = on_one(module, arguments);
  const auto found = on_many(spmd, arguments, module.entry().result_types, grid.devices());
  EXPECT_EQ(found, expected) << graph::print_module(spmd.module);
  return spmd;
}

Sharding cut_by(const Mesh& mesh, const std::vector<std::vector<std::string>>& dims) {
  Sharding sharding{mesh, {}, {}};
  for (const auto& axes : dims) {
    sharding.dims.emplace_back();
    for (const std::string& axis : axes) sharding.dims.back().push_back({axis, 1, 0});
  }
  return sharding;
}

// The grid's axes say of every device which part of an array it holds, whatever mesh the sharding is of.
TEST(Partition, AGridOfSeveralMeshesHoldsWhatTheirShardingsSay) {
  const Mesh line = mesh_of({{"x", 8}}), square = mesh_of({{"dp", 2}, {"tp", 4}}),
             cube = mesh_of({{"a", 4}, {"b", 2}});
  const std::vector<Sharding> shardings{cut_by(line, {{"x"}}), cut_by(square, {{"tp"}, {"dp"}}),
                                        cut_by(square, {{"dp", "tp"}}), cut_by(cube, {{"b"}, {"a"}}),
                                        cut_by(cube, {{"a"}})};
  for (const Mesh& mesh : {line, square, cube}) {
    const AxisGrid grid(mesh, shardings);
    EXPECT_EQ(grid.devices(), 8);
    for (const Sharding& sharding : shardings) {
      const Cuts cuts = grid.cuts_of(sharding, 2);
      for (size_t d = 0; d < sharding.dims.size(); ++d) {
        EXPECT_EQ(grid.count(cuts[d]), sharding.shards(d));
        for (int64_t device = 0; device < 8; ++device)
          EXPECT_EQ(grid.index(cuts[d], device), sharding.shard(d, device)) << d << " on " << device;
      }
    }
  }
}

TEST(Partition, AGridLeavesOutMeshesThatDoNotGoTogetherWithIt) {
  const auto expresses = [](const Mesh& mesh, const Mesh& other, const std::string& axis) {
    const Sharding sharding = cut_by(other, {{axis}});
    return AxisGrid(mesh, std::vector<Sharding>{sharding}).expresses(sharding);
  };
  Mesh turned = mesh_of({{"x", 2}, {"y", 2}});
  turned.devices = {0, 2, 1, 3};
  EXPECT_FALSE(expresses(mesh_of({{"x", 4}}), turned, "x"));
  EXPECT_FALSE(expresses(mesh_of({{"x", 4}}), mesh_of({{"x", 2}}), "x"));
  EXPECT_FALSE(expresses(mesh_of({{"x", 2}, {"y", 3}}), mesh_of({{"a", 3}, {"b", 2}}), "a"));
  EXPECT_TRUE(expresses(mesh_of({{"x", 2}, {"y", 4}}), mesh_of({{"a", 4}, {"b", 2}}), "a"));
}

// Arguments and results by 2 x 3, 3 x 2 and 6 devices, in their order and in others: each device computes,
// with the values of one.
TEST(Partition, MeshesThatDoNotGoTogetherHaveTheValuesOfOneDevice) {
  const graph::Module module = graph::parse_module(R"(module {
  func.func public @main(%x: tensor<12x18xf32>, %w: tensor<18x6xf32>) -> (tensor<12x6xf32>, tensor<6x12xf32>) {
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<12x18xf32>, tensor<18x6xf32>) -> tensor<12x6xf32>
    %t = stablehlo.transpose %h, dims = [1, 0] : (tensor<12x6xf32>) -> tensor<6x12xf32>
    return %h, %t : tensor<12x6xf32>, tensor<6x12xf32>
  }
})",
                                                   "test");
  std::vector<Mesh> meshes{mesh_of({{"x", 2}, {"y", 3}}), mesh_of({{"a", 3}, {"b", 2}}), mesh_of({{"z", 6}}),
                           mesh_of({{"x", 2}, {"y", 3}})};
  meshes[3].devices = {5, 0, 3, 1, 4, 2};
  const std::vector<Literal> arguments = numbers_for(module.entry());
  const std::vector<Literal> wanted = on_one(module, arguments);
  const auto lies = [&](size_t number) {
    const Mesh& mesh = meshes[number % meshes.size()];
    const std::string first = mesh.axes.front().name, last = mesh.axes.back().name;
    if (first == last || number % 3 == 0) return cut_by(mesh, {{first}});
    return number % 3 == 1 ? cut_by(mesh, {{first}, {last}}) : cut_by(mesh, {{}, {last, first}});
  };
  int others = 0;
  for (size_t turn = 0; turn < 60; ++turn) {
    const std::vector<Sharding> inputs{lies(turn), lies(turn / 2 + 1)};
    const std::vector<std::optional<Sharding>> outputs{lies(turn * 5 + 2), lies(turn * 7 + 3)};
    const ProgramShardings stated = program_shardings(module, module.entry(), inputs, outputs, 6);
    others += static_cast<int>(stated.other.arguments.size() + stated.other.results.size());
    std::vector<Cuts> cuts(2);
    std::vector<const Cuts*> results(2);
    for (size_t i = 0; i < 2; ++i) {
      if (stated.other.results.contains(i)) continue;
      cuts[i] = stated.grid.cuts_of(*outputs[i], 2);
      results[i] = &cuts[i];
    }
    const SpmdModule spmd =
        partition(module, module.entry(), stated.grid, stated.values, results, stated.open, stated.other);
    graph::verify(spmd.module);
    for (size_t i = 0; i < 2; ++i)
      EXPECT_EQ(spmd.module.entry().argument_types()[i], inputs[i].local(arguments[i].type())) << turn;
    EXPECT_EQ(on_many(spmd, arguments, module.entry().result_types, 6), wanted) << turn;
  }
  EXPECT_GT(others, 60);
}

TEST(Partition, ArgumentsOfOneMeshAndResultsOfAnotherHaveTheValuesOfOneDevice) {
  const graph::Module module = graph::parse_module(R"(module {
  func.func public @main(%x: tensor<8x16xf32>, %w: tensor<16x8xf32>) -> tensor<8x8xf32> {
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %y = stablehlo.add %h, %h : tensor<8x8xf32>
    return %y : tensor<8x8xf32>
  }
})",
                                                   "test");
  const Mesh square = mesh_of({{"dp", 2}, {"tp", 4}}), line = mesh_of({{"x", 8}});
  const std::vector<Sharding> inputs{cut_by(square, {{"dp"}, {"tp"}}), cut_by(square, {{"tp"}})};
  const std::vector<std::optional<Sharding>> outputs{cut_by(line, {{}, {"x"}})};
  const ProgramShardings stated = program_shardings(module, module.entry(), inputs, outputs, 8);
  const Cuts wanted = stated.grid.cuts_of(*outputs[0], 2);
  const std::vector<const Cuts*> results{&wanted};
  const SpmdModule spmd = partition(module, module.entry(), stated.grid, stated.values, results, stated.open);
  graph::verify(spmd.module);
  EXPECT_EQ(spmd.module.entry().result_types[0].dims_vector(), (std::vector<int64_t>{8, 1}));
  const std::vector<Literal> arguments = numbers_for(module.entry());
  EXPECT_EQ(on_many(spmd, arguments, module.entry().result_types, 8), on_one(module, arguments));
}

// Columns of the first product and rows of the second on each device: one sum at the end.
TEST(Partition, AnMlpCutByColumnsThenRowsHasOneAllReduce) {
  const graph::Module module = graph::parse_module(R"(module {
  func.func public @main(%x: tensor<4x8xf32>, %w1: tensor<8x16xf32>, %b: tensor<16xf32>, %w2: tensor<16x8xf32>)
      -> tensor<4x8xf32> {
    %h = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %bb = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<16xf32>) -> tensor<4x16xf32>
    %s = stablehlo.add %h, %bb : tensor<4x16xf32>
    %z = stablehlo.constant dense<0.0> : tensor<4x16xf32>
    %r = stablehlo.maximum %s, %z : tensor<4x16xf32>
    %y = stablehlo.dot_general %r, %w2, contracting_dims = [1] x [0] : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  } })",
                                                   "mlp");
  const SpmdModule spmd = expect_same(module, mesh_of({{"tp", 4}}), {"-", "-,tp", "", "tp,-"});
  EXPECT_EQ(count_of(spmd.module, OpKind::all_reduce_), 1);
  EXPECT_EQ(count_of(spmd.module, OpKind::all_gather_), 0);
  // The bias has followed.
  EXPECT_EQ(spmd.inputs[2].shards(0), 4);
  // Half of the batch each, and the same.
  expect_same(module, mesh_of({{"dp", 2}, {"tp", 2}}), {"dp,-", "-,tp", "", "tp,-"});
  expect_same(module, mesh_of({{"tp", 2}, {"dp", 2}}), {"dp,tp", "tp,-", "", ""});
  // Sizes that the devices do not divide.
  expect_same(module, mesh_of({{"tp", 3}}), {"-", "-,tp", "", "tp,-"});
  expect_same(module, mesh_of({{"tp", 5}}), {"tp", "-,tp", "", ""});
  expect_same(module, mesh_of({{"tp", 32}}), {"-", "-,tp", "", "tp,-"});
}

// 4 heads on 8 devices: half a head each, and a sum over the two halves.
TEST(Partition, MoreDevicesThanHeads) {
  const graph::Module module = graph::parse_module(R"(module {
  func.func public @main(%x: tensor<3x8xf32>, %wq: tensor<8x16xf32>, %wk: tensor<8x16xf32>) -> tensor<4x3x3xf32> {
    %q = stablehlo.dot_general %x, %wq, contracting_dims = [1] x [0] : (tensor<3x8xf32>, tensor<8x16xf32>) -> tensor<3x16xf32>
    %k = stablehlo.dot_general %x, %wk, contracting_dims = [1] x [0] : (tensor<3x8xf32>, tensor<8x16xf32>) -> tensor<3x16xf32>
    %qh = stablehlo.reshape %q : (tensor<3x16xf32>) -> tensor<3x4x4xf32>
    %kh = stablehlo.reshape %k : (tensor<3x16xf32>) -> tensor<3x4x4xf32>
    %s = stablehlo.dot_general %qh, %kh, batching_dims = [1] x [1], contracting_dims = [2] x [2] : (tensor<3x4x4xf32>, tensor<3x4x4xf32>) -> tensor<4x3x3xf32>
    return %s : tensor<4x3x3xf32>
  } })",
                                                   "heads");
  const SpmdModule spmd = expect_same(module, mesh_of({{"tp", 8}}), {"-", "-,tp", "-,tp"});
  EXPECT_EQ(count_of(spmd.module, OpKind::all_gather_), 0);
  EXPECT_EQ(count_of(spmd.module, OpKind::all_reduce_), 1);
  EXPECT_EQ(spmd.outputs[0].shards(0), 4);
}

TEST(Partition, ConstantsThatAreCutAreHeldInParts) {
  const graph::Module module = graph::parse_module(R"(module {
  func.func public @main(%x: tensor<6xi32>) -> (tensor<6xi32>, tensor<6xi32>) {
    %c = stablehlo.constant dense<[1, 2, 3, 4, 5, 6]> : tensor<6xi32>
    %one = stablehlo.constant dense<1> : tensor<6xi32>
    %0 = stablehlo.add %x, %c : tensor<6xi32>
    %1 = stablehlo.add %0, %one : tensor<6xi32>
    return %1, %c : tensor<6xi32>, tensor<6xi32>
  } })",
                                                   "constants");
  const SpmdModule spmd = expect_same(module, mesh_of({{"x", 4}}), {"x"});
  ASSERT_EQ(spmd.constants.size(), 1U);
  EXPECT_EQ(spmd.constants[0].sharding.shards(0), 4);
}

TEST(Partition, AConstantLiesAsItIsStated) {
  const graph::Module module = graph::parse_module(R"(module {
  func.func public @main(%x: tensor<6xi32>) -> tensor<6xi32> {
    %c = stablehlo.constant dense<[1, 2, 3, 4, 5, 6]> : tensor<6xi32>
    %0 = stablehlo.reverse %c, dims = [0] : tensor<6xi32>
    %1 = stablehlo.add %x, %0 : tensor<6xi32>
    return %1 : tensor<6xi32>
  } })",
                                                   "held");
  const AxisGrid grid(mesh_of({{"x", 2}}));
  const graph::Function& entry = module.entry();
  const ValueId constant = entry.op(entry.block(entry.body()).ops[0]).results[0];
  const SpmdModule spmd = partition(module, entry, grid, {{constant, {{0}}}});
  // A reversal takes it whole: it is gathered from the parts, rather than held twice.
  ASSERT_EQ(spmd.constants.size(), 1U);
  EXPECT_EQ(count_of(spmd.module, OpKind::all_gather_), 1);
  const auto arguments = numbers_for(entry);
  EXPECT_EQ(on_many(spmd, arguments, entry.result_types, 2), on_one(module, arguments));
}

TEST(Partition, LoopsCarryParts) {
  const graph::Module module = graph::parse_module(R"(module {
  func.func public @main(%x: tensor<6x4xi32>, %w: tensor<4x4xi32>) -> tensor<6x4xi32> {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<6x4xi32>
      cond {
        %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %j = stablehlo.add %i, %one : tensor<i32>
        %d = stablehlo.dot_general %v, %w, contracting_dims = [1] x [0] : (tensor<6x4xi32>, tensor<4x4xi32>) -> tensor<6x4xi32>
        stablehlo.return %j, %d : tensor<i32>, tensor<6x4xi32>
      }
    return %0#1 : tensor<6x4xi32>
  } })",
                                                   "loop");
  const SpmdModule spmd = expect_same(module, mesh_of({{"x", 2}, {"y", 2}}), {"x", "-,y"});
  EXPECT_EQ(spmd.outputs[0].shards(0), 2);
  expect_same(module, mesh_of({{"x", 4}}), {"x,-", "-,x"});
}

TEST(Partition, WhatIsStatedIsHeldTo) {
  const graph::Module module = graph::parse_module(R"(module {
  func.func public @main(%x: tensor<4x6xi32>) -> tensor<6x4xi32> {
    %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x6xi32>) -> tensor<6x4xi32>
    return %0 : tensor<6x4xi32>
  } })",
                                                   "transpose");
  const Mesh mesh = mesh_of({{"x", 2}});
  const AxisGrid grid(mesh);
  const graph::Function& entry = module.entry();
  const Cuts by_rows{{0}, {}};
  const SpmdModule spmd = partition(module, entry, grid, {{entry.arguments()[0], by_rows}}, {&by_rows});
  EXPECT_EQ(count_of(spmd.module, OpKind::all_to_all_), 1);
  EXPECT_EQ(spmd.outputs[0].shards(0), 2);
  const auto arguments = numbers_for(entry);
  EXPECT_EQ(on_many(spmd, arguments, entry.result_types, 2), on_one(module, arguments));
}

// Values that one barrier passes on have nothing to do with each other.
TEST(Partition, ABarrierCutsEachOfItsValues) {
  const graph::Module module = graph::parse_module(R"(module {
  func.func public @main(%x: tensor<4x6xi32>, %y: tensor<8xi32>) -> (tensor<4x6xi32>, tensor<8xi32>) {
    %0:2 = stablehlo.optimization_barrier %x, %y : tensor<4x6xi32>, tensor<8xi32>
    return %0#0, %0#1 : tensor<4x6xi32>, tensor<8xi32>
  } })",
                                                   "barrier");
  const SpmdModule spmd = expect_same(module, mesh_of({{"x", 2}}), {"-,x", "x"});
  EXPECT_EQ(count_of(spmd.module, OpKind::all_gather_), 0);
  EXPECT_EQ(spmd.outputs[0].shards(1), 2);
  EXPECT_EQ(spmd.outputs[1].shards(0), 2);
}

// No device makes all numbers to cut its own out of them.
TEST(Partition, NumbersAreCountedFromWhereAPartBegins) {
  const graph::Module module = graph::parse_module(R"(module {
  func.func public @main(%x: tensor<4x6xi32>) -> tensor<4x6xi32> {
    %0 = stablehlo.iota dim = 1 : tensor<4x6xi32>
    %1 = stablehlo.add %x, %0 : tensor<4x6xi32>
    return %1 : tensor<4x6xi32>
  } })",
                                                   "numbers");
  const SpmdModule spmd = expect_same(module, mesh_of({{"x", 2}}), {"-,x"});
  const graph::Function& entry = spmd.module.entry();
  graph::walk(entry, entry.body(), [&](graph::OpId id) {
    if (entry.op(id).kind != OpKind::iota_) return;
    EXPECT_EQ(entry.type(entry.op(id).results[0]).to_string(), "tensor<3xi32>");
  });
  expect_same(module, mesh_of({{"x", 4}}), {"-,x"});  // with padding
}

// What devices hold of an open sum are its terms, of arguments and of results.
TEST(Partition, SumsStayOpenBetweenDevices) {
  const graph::Module module = graph::parse_module(R"(module {
  func.func public @main(%x: tensor<3xi32>) -> (tensor<3xi32>, tensor<3xi32>) {
    %0 = stablehlo.multiply %x, %x : tensor<3xi32>
    return %0, %0 : tensor<3xi32>, tensor<3xi32>
  } })",
                                                   "open");
  const Mesh mesh = mesh_of({{"x", 3}, {"y", 2}});
  const AxisGrid grid(mesh);
  const graph::Function& entry = module.entry();
  OpenSums open;
  open.arguments[entry.arguments()[0]] = {0};
  open.results[0] = {1};
  SpmdModule spmd = partition(module, entry, grid, {}, {}, open);
  graph::verify(spmd.module);
  // part_of() and joined() then see to the terms: of three devices only the first holds the value.
  spmd.inputs[0] = {mesh, {}, {"x"}};
  spmd.outputs[0] = {mesh, {}, {"y"}};
  const auto arguments = numbers_for(entry);
  EXPECT_EQ(on_many(spmd, arguments, entry.result_types, 6), on_one(module, arguments));
}

graph::Module scatter_of(const std::string& combiner, const std::string& array) {
  return graph::parse_module(R"(module {
  func.func public @main(%x: tensor<5x2xi32>, %i: tensor<7x1xi32>, %u: tensor<7x2xi32>) -> tensor<5x2xi32> {
    %c = stablehlo.constant dense<0> : tensor<5x2xi32>
    %0 = "stablehlo.scatter"()" + array +
                                 R"(, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
        update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
        index_vector_dim = 1>, indices_are_sorted = true, unique_indices = true}> ({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %s = stablehlo.)" + combiner +
                                 R"( %a, %b : tensor<i32>
        stablehlo.return %s : tensor<i32>
    }) : (tensor<5x2xi32>, tensor<7x1xi32>, tensor<7x2xi32>) -> tensor<5x2xi32>
    return %0 : tensor<5x2xi32>
  } })",
                             "scatter");
}

// Each device scatters its own updates, and the array comes to them once; on three devices two of nine
// updates are padding, and go nowhere.
TEST(Partition, AScatterThatCombinesTakesEachDevicesUpdates) {
  for (const char* combiner : {"add", "multiply", "maximum", "minimum"}) {
    const graph::Module module = scatter_of(combiner, "%x");
    for (const int64_t devices : {3, 7}) {
      const SpmdModule spmd = expect_same(module, mesh_of({{"x", devices}}), {"", "x,-", "x,-"});
      EXPECT_EQ(count_of(spmd.module, OpKind::all_gather_), 0) << combiner;
      EXPECT_EQ(count_of(spmd.module, OpKind::all_reduce_), 1) << combiner;
      const graph::Function& entry = spmd.module.entry();
      graph::walk(entry, entry.body(), [&](graph::OpId id) {
        if (entry.op(id).kind == OpKind::scatter_) {
          EXPECT_EQ(entry.op(id).boolean_or(Attr::unique_indices, false), devices == 7);
        }
      });
    }
    expect_same(module, mesh_of({{"x", 4}, {"y", 2}}), {"-,y", "x,-", "x,y"});
    expect_same(module, mesh_of({{"x", 5}}), {"x,-", "x,-", "x,-"});
  }
  // Zeros that are added to are in each device's own.
  EXPECT_EQ(
      count_of(expect_same(scatter_of("add", "%c"), mesh_of({{"x", 7}}), {"", "x,-"}).module, OpKind::add_),
      count_of(expect_same(scatter_of("add", "%x"), mesh_of({{"x", 7}}), {"", "x,-"}).module, OpKind::add_) -
          1);
}

// What JAX's segment_sum and bincount leave unreduced: each device has the sums of its own updates.
TEST(Partition, AScatterLeavesItsSumOpen) {
  for (const char* array : {"%x", "%c"}) {
    const graph::Module module = scatter_of("add", array);
    const Mesh mesh = mesh_of({{"x", 7}});
    const AxisGrid grid(mesh);
    const graph::Function& entry = module.entry();
    OpenSums open;
    open.results[0] = {0};
    const Cuts by_updates{{0}, {}};
    SpmdModule spmd =
        partition(module, entry, grid,
                  {{entry.arguments()[1], by_updates}, {entry.arguments()[2], by_updates}}, {}, open);
    graph::verify(spmd.module);
    EXPECT_EQ(count_of(spmd.module, OpKind::all_reduce_) + count_of(spmd.module, OpKind::all_gather_), 0);
    spmd.outputs[0] = {mesh, {}, {"x"}};
    const auto arguments = numbers_for(entry);
    EXPECT_EQ(on_many(spmd, arguments, entry.result_types, 7), on_one(module, arguments)) << array;
  }
}

TEST(Partition, DynamicShapesAreRefused) {
  const graph::Module module = graph::parse_module(
      "module { func.func public @main(%x: tensor<?xi32>) -> tensor<?xi32> {\n"
      "  %0 = stablehlo.add %x, %x : tensor<?xi32>\n  return %0 : tensor<?xi32> } }",
      "dynamic");
  EXPECT_THROW(partition(module, module.entry(), AxisGrid(mesh_of({{"x", 2}})), {}), Fault);
}

// Random graphs of integers, whose sums are exact in any order.
class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed) {
    graph::Function& main = module_.add_function("main");
    for (int i = 0; i < 3; ++i) values_.push_back(main.add_argument(main.body(), random_type()));
    builder_.emplace(module_, main, main.body());
    for (int ops = 0; ops < 12; ++ops) add();
    std::vector<ValueId> returned(values_.end() - 3, values_.end());
    for (const ValueId value : returned) main.result_types.push_back(main.type(value));
    main.argument_attributes.resize(main.arguments().size());
    main.result_attributes.resize(returned.size());
    builder_->return_values(std::move(returned));
  }

  const graph::Module& module() const { return module_; }

  // Of some arguments.
  StatedCuts cuts(const AxisGrid& grid, int axes) {
    StatedCuts stated;
    const graph::Function& main = module_.entry();
    for (const ValueId argument : main.arguments()) {
      if (below(4) == 0) continue;
      Cuts cuts(static_cast<size_t>(main.type(argument).rank()));
      for (int axis = 0; axis < axes; ++axis)
        if (const uint32_t d = below(static_cast<uint32_t>(cuts.size()) + 1); d < cuts.size())
          cuts[d].push_back(axis);
      (void)grid;
      stated[argument] = std::move(cuts);
    }
    return stated;
  }

 private:
  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  int64_t size() {
    static constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 6, 8};
    return kSizes[below(7)];
  }
  Type random_type() {
    std::vector<int64_t> dims(1 + below(3));
    for (int64_t& dim : dims) dim = size();
    return Type::tensor(ElementType::kI32, std::move(dims));
  }
  ValueId any() { return values_[below(static_cast<uint32_t>(values_.size()))]; }
  const Type& type(ValueId value) { return builder_->type(value); }
  std::vector<int64_t> dims(ValueId value) { return type(value).dims_vector(); }
  size_t dim_of(ValueId value) { return below(static_cast<uint32_t>(type(value).rank())); }
  ValueId constant(Type like) { return builder_->constant(numbers(like, below(1000))); }
  // Values within a few bits, so that nothing wraps that needs not.
  ValueId small(ValueId value) {
    return builder_->add(OpKind::and_, {value, builder_->splat(type(value), 15)});
  }
  ValueId scalar(int value) { return builder_->splat(Type::scalar(ElementType::kI32), value); }

  void add() {
    const ValueId x = any();
    const ValueId made = make(x, below(18));
    if (type(made).rank() > 0 && type(made).rank() < 5 && type(made).element_count() < 2000)
      values_.push_back(small(made));
  }

  ValueId make(ValueId x, uint32_t what) {
    Builder& b = *builder_;
    const auto rank = static_cast<size_t>(type(x).rank());
    const size_t d = dim_of(x);
    std::vector<int64_t> sizes = dims(x), zeros(rank), order(rank);
    std::iota(order.begin(), order.end(), 0);
    switch (what) {
      case 0: return b.add(OpKind::multiply_, {x, constant(type(x))});
      case 1: return b.add(OpKind::add_, {x, b.splat(type(x), 3)});
      case 2: {
        std::shuffle(order.begin(), order.end(), random_);
        return b.transpose(x, order);
      }
      case 3: {  // two dimensions become one
        if (d + 1 == rank) return x;
        sizes[d] *= sizes[d + 1];
        sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(d) + 1);
        return b.reshape(x, sizes);
      }
      case 4: {  // and one two
        for (const int64_t part : {4, 3, 2})
          if (sizes[d] % part == 0) {
            sizes[d] /= part;
            sizes.insert(sizes.begin() + static_cast<ptrdiff_t>(d) + below(2), part);
            break;
          }
        return b.reshape(x, sizes);
      }
      case 5: {
        sizes.insert(sizes.begin() + static_cast<ptrdiff_t>(d), size());
        for (size_t i = d; i < rank; ++i) ++order[i];
        return b.broadcast_in_dim(x, sizes, order);
      }
      case 6: return b.reduce(OpKind::add_, x, {static_cast<int64_t>(d)});
      case 7: return b.reduce(OpKind::maximum_, x, {static_cast<int64_t>(d)});
      case 8: {
        const ValueId w = constant(Type::tensor(ElementType::kI32, {size(), sizes[d]}));
        return b.add(OpKind::dot_general_, {x, w},
                     {{Attr::lhs_batching_dimensions, Attribute(std::vector<int64_t>{})},
                      {Attr::rhs_batching_dimensions, Attribute(std::vector<int64_t>{})},
                      {Attr::lhs_contracting_dimensions, Attribute(std::vector{static_cast<int64_t>(d)})},
                      {Attr::rhs_contracting_dimensions, Attribute(std::vector<int64_t>{1})}},
                     {dot_type(x, d, type(w).dim(0))});
      }
      case 9: {  // of one array with itself: a batch, and a dimension that is summed over
        if (rank < 2) return x;
        const size_t e = (d + 1) % rank;
        return batched(x, d, e);
      }
      case 10: {
        const ValueId low = b.slice(x, zeros, sizes);
        std::vector<int64_t> limits = sizes;
        limits[d] = 1 + below(static_cast<uint32_t>(sizes[d]));
        return b.slice(low, zeros, limits);
      }
      case 11: return b.concatenate({x, constant(type(x))}, static_cast<int64_t>(d));
      case 12:
        return b.add(OpKind::reverse_, {x},
                     {{Attr::dimensions, Attribute(std::vector{static_cast<int64_t>(d)})}});
      case 13: {
        std::vector<int64_t> high = zeros;
        high[d] = 2;
        return b.add(OpKind::pad_, {x, scalar(1)},
                     {{Attr::edge_padding_low, Attribute(high)},
                      {Attr::edge_padding_high, Attribute(zeros)},
                      {Attr::interior_padding, Attribute(zeros)}});
      }
      case 14:
        return b.add(OpKind::add_,
                     {x, b.add(OpKind::iota_, {},
                               {{Attr::iota_dimension, Attribute(static_cast<int64_t>(d))}}, {type(x)})});
      case 15: return rows(x);
      case 16: {
        std::vector<ValueId> operands{x};
        for (size_t i = 0; i < rank; ++i) operands.push_back(scalar(i == d ? 1 : 0));
        std::vector<int64_t> slice = sizes;
        slice[d] = (sizes[d] + 1) / 2;
        const ValueId part = b.add(OpKind::dynamic_slice_, operands, {{Attr::slice_sizes, Attribute(slice)}});
        operands.insert(operands.begin() + 1, part);
        return b.add(OpKind::dynamic_update_slice_, operands);
      }
      default: return loop(x);
    }
  }

  Type dot_type(ValueId x, size_t contracted, int64_t more) {
    std::vector<int64_t> sizes = dims(x);
    sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(contracted));
    sizes.push_back(more);
    return Type::tensor(ElementType::kI32, std::move(sizes));
  }

  ValueId batched(ValueId x, size_t batch, size_t contracted) {
    std::vector<int64_t> sizes{dims(x)[batch]}, free;
    for (size_t i = 0; i < dims(x).size(); ++i)
      if (i != batch && i != contracted) free.push_back(dims(x)[i]);
    sizes.insert(sizes.end(), free.begin(), free.end());
    sizes.insert(sizes.end(), free.begin(), free.end());
    const Attribute b(std::vector{static_cast<int64_t>(batch)}),
        c(std::vector{static_cast<int64_t>(contracted)});
    return builder_->add(OpKind::dot_general_, {x, x},
                         {{Attr::lhs_batching_dimensions, b},
                          {Attr::rhs_batching_dimensions, b},
                          {Attr::lhs_contracting_dimensions, c},
                          {Attr::rhs_contracting_dimensions, c}},
                         {Type::tensor(ElementType::kI32, std::move(sizes))});
  }

  // x[y & 1], for a y of one dimension: an embedding's form.
  ValueId rows(ValueId x) {
    const ValueId picked = constant(Type::tensor(ElementType::kI32, {size(), size()}));
    const ValueId index = builder_->add(OpKind::and_, {picked, builder_->splat(type(picked), 1)});
    std::vector<int64_t> slice = dims(x), offset, all = dims(index);
    slice[0] = 1;
    for (size_t d = 1; d < slice.size(); ++d) {
      offset.push_back(static_cast<int64_t>(d) + 1);
      all.push_back(slice[d]);
    }
    return builder_->add(OpKind::gather_, {x, index},
                         {{Attr::offset_dims, Attribute(offset)},
                          {Attr::collapsed_slice_dims, Attribute(std::vector<int64_t>{0})},
                          {Attr::start_index_map, Attribute(std::vector<int64_t>{0})},
                          {Attr::index_vector_dim, Attribute(int64_t{2})},
                          {Attr::slice_sizes, Attribute(slice)}},
                         {Type::tensor(ElementType::kI32, all)});
  }

  // Twice x = x + f(x), f a sum over a dimension that is spread again.
  ValueId loop(ValueId x) {
    const Type carried = type(x), counter = Type::scalar(ElementType::kI32);
    const size_t d = dim_of(x);
    const graph::RegionBody condition{
        {counter, carried}, [](Builder& b, std::span<const ValueId> a) {
          return std::vector{b.compare(graph::ComparisonDirection::kLt, a[0], b.splat(b.type(a[0]), 2))};
        }};
    const graph::RegionBody body{{counter, carried}, [d](Builder& b, std::span<const ValueId> a) {
                                   const Type of = b.type(a[1]);
                                   std::vector<int64_t> rest;
                                   for (int64_t i = 0; i < of.rank(); ++i)
                                     if (i != static_cast<int64_t>(d)) rest.push_back(i);
                                   const ValueId sum = b.broadcast_in_dim(
                                       b.reduce(OpKind::add_, a[1], {static_cast<int64_t>(d)}),
                                       of.dims_vector(), rest);
                                   return std::vector{b.add(OpKind::add_, {a[0], b.splat(b.type(a[0]), 1)}),
                                                      b.add(OpKind::add_, {a[1], sum})};
                                 }};
    const graph::OpId made =
        builder_->add_with_regions(OpKind::while_, {scalar(0), x}, {}, {counter, carried}, {condition, body});
    return builder_->function().op(made).results[1];
  }

  std::mt19937 random_;
  graph::Module module_;
  std::optional<Builder> builder_;
  std::vector<ValueId> values_;
};

TEST(Partition, RandomGraphsGiveWhatOneDeviceGives) {
  const std::vector<Mesh> meshes = {mesh_of({{"a", 2}}),
                                    mesh_of({{"a", 3}, {"b", 2}}),
                                    mesh_of({{"a", 2}, {"b", 2}}),
                                    {{{"a", 2}, {"b", 2}}, {2, 0, 3, 1}}};
  const std::vector<int> axes = {1, 2, 2, 2};
  int moved = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    RandomGraph random(seed);
    graph::verify(random.module());
    const size_t which = seed % meshes.size();
    const AxisGrid grid(meshes[which]);
    const StatedCuts stated = random.cuts(grid, axes[which]);
    const graph::Function& entry = random.module().entry();
    const SpmdModule spmd = partition(random.module(), entry, grid, stated);
    graph::verify(spmd.module);
    const auto arguments = numbers_for(entry);
    ASSERT_EQ(on_many(spmd, arguments, entry.result_types, grid.devices()),
              on_one(random.module(), arguments))
        << "seed " << seed << "\n"
        << graph::print_module(random.module()) << graph::print_module(spmd.module);
    for (const OpKind kind :
         {OpKind::all_gather_, OpKind::all_reduce_, OpKind::reduce_scatter_, OpKind::all_to_all_})
      moved += count_of(spmd.module, kind);
  }
  EXPECT_GT(moved, 300);  // otherwise the graphs test nothing
}

}  // namespace
}  // namespace opentrn::spmd
