// Programs whose sums are rearranged give what they gave, with fewer and smaller collectives. Both run on the
// reference evaluator, of which every device is a process.
#include "spmd/sums.h"

#include <cstring>
#include <random>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/eval/evaluate.h"
#include "graph/text/text.h"
#include "graph/verify.h"

namespace opentrn::spmd {
namespace {

using graph::Literal;
using graph::OpKind;

constexpr int64_t kDevices = 2;

// `body` of arguments %x, %y: tensor<4x6xf32> and %m: tensor<2x6xf32>, which returns %out.
graph::Module module_of(const std::string& body, const std::string& result) {
  graph::Module made = graph::parse_module(fmt::format(R"(module {{
  func.func public @main(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>, %m: tensor<2x6xf32>) -> {1} {{
    %table = stablehlo.constant dense<[0, 2]> : tensor<2xi64>
    %zero = stablehlo.constant dense<0> : tensor<i64>
    %id = stablehlo.partition_id : tensor<ui32>
    %at = stablehlo.convert %id : (tensor<ui32>) -> tensor<i64>
    %one = stablehlo.dynamic_slice %table, %at, sizes = [1] : (tensor<2xi64>, tensor<i64>) -> tensor<1xi64>
    %row = stablehlo.reshape %one : (tensor<1xi64>) -> tensor<i64>
{0}
    return %out : {1}
  }}
}})",
                                                       body, result),
                                           "example");
  graph::verify(made);
  return made;
}

// name = the sum of `of` over both devices.
std::string sum(const std::string& name, const std::string& of, const std::string& type) {
  return fmt::format(R"(
    {0} = "stablehlo.all_reduce"({1}) <{{channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }}) : ({2}) -> {2}
)",
                     name, of, type);
}

const std::string kCutRows =
    "%out = stablehlo.dynamic_slice %whole, %row, %zero, sizes = [2, 6] : (tensor<4x6xf32>, tensor<i64>, "
    "tensor<i64>) -> tensor<2x6xf32>\n";

int count(const graph::Module& module, OpKind kind) {
  int found = 0;
  const graph::Function& function = module.entry();
  graph::walk(function, function.body(), [&](graph::OpId id) { found += function.op(id).kind == kind; });
  return found;
}

// Small whole numbers, whose sums are exact in any order.
std::vector<std::vector<Literal>> results(const graph::Module& module) {
  std::mt19937 random(3);
  std::vector<std::vector<graph::eval::RuntimeValue>> arguments(kDevices);
  for (auto& of_device : arguments)
    for (const graph::Type& type : module.entry().argument_types()) {
      std::vector<std::byte> bytes(static_cast<size_t>(type.byte_count()));
      for (size_t at = 0; at < bytes.size(); at += 4) {
        const auto value = static_cast<float>(random() % 17) - 8;
        std::memcpy(bytes.data() + at, &value, 4);
      }
      of_device.push_back({Literal(type, std::move(bytes))});
    }
  const std::vector<const graph::Function*> functions(kDevices, &module.entry());
  std::vector<std::vector<Literal>> all;
  for (const auto& values : graph::eval::evaluate_parallel(module, functions, 1, kDevices, arguments)) {
    auto& of_device = all.emplace_back();
    for (const auto& value : values) of_device.push_back(value.literal());
  }
  return all;
}

graph::Module rearranged(const graph::Module& before) {
  graph::Module after = before;
  rearrange_sums(after, after.entry(), kDevices);
  graph::verify(after);
  EXPECT_EQ(results(after), results(before)) << graph::print_module(after);
  return after;
}

TEST(Sums, AGradientThatIsTransposedAndCutIsScattered) {
  const graph::Module made = rearranged(module_of(
      R"(    %product = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<6x6xf32>)" +
          sum("%whole", "%product", "tensor<6x6xf32>") +
          R"(    %turned = stablehlo.transpose %whole, dims = [1, 0] : (tensor<6x6xf32>) -> tensor<6x6xf32>
    %three = stablehlo.constant dense<[0, 3]> : tensor<2xi64>
    %first = stablehlo.dynamic_slice %three, %at, sizes = [1] : (tensor<2xi64>, tensor<i64>) -> tensor<1xi64>
    %start = stablehlo.reshape %first : (tensor<1xi64>) -> tensor<i64>
    %out = stablehlo.dynamic_slice %turned, %start, %zero, sizes = [3, 6] : (tensor<6x6xf32>, tensor<i64>, tensor<i64>) -> tensor<3x6xf32>)",
      "tensor<3x6xf32>"));
  EXPECT_EQ(count(made, OpKind::reduce_scatter_), 1);
  EXPECT_EQ(count(made, OpKind::all_reduce_), 0);
  EXPECT_EQ(count(made, OpKind::transpose_), 0);
  EXPECT_EQ(count(made, OpKind::dynamic_slice_), 1);  // of the table of rows, which the example has
}

TEST(Sums, TransposedOperandsOfBatchesAndOtherPermutationsStay) {
  const std::string product =
      R"(    %p = stablehlo.reshape %x : (tensor<4x6xf32>) -> tensor<2x3x4xf32>
    %q = stablehlo.reshape %y : (tensor<4x6xf32>) -> tensor<2x3x4xf32>
    %product = stablehlo.dot_general %p, %q, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x4x4xf32>)" +
      sum("%whole", "%product", "tensor<2x4x4xf32>");
  const auto turned = [&](const char* dims, const char* type) {
    return rearranged(module_of(
        product + fmt::format("    %out = stablehlo.transpose %whole, dims = {} : (tensor<2x4x4xf32>) -> {}",
                              dims, type),
        type));
  };
  EXPECT_EQ(count(turned("[0, 2, 1]", "tensor<2x4x4xf32>"), OpKind::transpose_), 0);
  EXPECT_EQ(count(turned("[1, 0, 2]", "tensor<4x2x4xf32>"), OpKind::transpose_), 1);
}

TEST(Sums, GradientsOfMicroBatchesAreSummedTogether) {
  const graph::Module made = rearranged(
      module_of(sum("%first", "%x", "tensor<4x6xf32>") + sum("%second", "%y", "tensor<4x6xf32>") +
                    "    %whole = stablehlo.add %first, %second : tensor<4x6xf32>\n    " + kCutRows,
                "tensor<2x6xf32>"));
  EXPECT_EQ(count(made, OpKind::reduce_scatter_), 1);
  EXPECT_EQ(count(made, OpKind::all_reduce_), 0);
}

TEST(Sums, ASumThatIsReadTwiceIsNotJoined) {
  const graph::Module made =
      rearranged(module_of(sum("%first", "%x", "tensor<4x6xf32>") + sum("%second", "%y", "tensor<4x6xf32>") +
                               "    %added = stablehlo.add %first, %second : tensor<4x6xf32>\n"
                               "    %out = stablehlo.multiply %added, %first : tensor<4x6xf32>",
                           "tensor<4x6xf32>"));
  EXPECT_EQ(count(made, OpKind::all_reduce_), 2);
}

TEST(Sums, WhatIsDoneBetweenASumAndItsCutIsDoneOnThePart) {
  const graph::Module made =
      rearranged(module_of(sum("%first", "%x", "tensor<4x6xf32>") +
                               R"(    %scalar = stablehlo.constant dense<0.5> : tensor<f32>
    %half = stablehlo.broadcast_in_dim %scalar, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %two = stablehlo.constant dense<2.0> : tensor<4x6xf32>
    %narrow = stablehlo.convert %first : (tensor<4x6xf32>) -> tensor<4x6xbf16>
    %wide = stablehlo.convert %narrow : (tensor<4x6xbf16>) -> tensor<4x6xf32>
    %scaled = stablehlo.multiply %half, %wide : tensor<4x6xf32>
    %more = stablehlo.multiply %scaled, %two : tensor<4x6xf32>
    %whole = stablehlo.add %more, %y : tensor<4x6xf32>
    )" + kCutRows,
                           "tensor<2x6xf32>"));
  EXPECT_EQ(count(made, OpKind::reduce_scatter_), 1);
  EXPECT_EQ(count(made, OpKind::all_reduce_), 0);
  EXPECT_EQ(count(made, OpKind::dynamic_slice_), 2);  // of the table of rows, and of %y
}

TEST(Sums, WhatIsReadWholeTooIsNotCutEarly) {
  const graph::Module made = rearranged(module_of(
      sum("%first", "%x", "tensor<4x6xf32>") +
          "    %whole = stablehlo.negate %first : tensor<4x6xf32>\n"
          "    %part = stablehlo.dynamic_slice %whole, %row, %zero, sizes = [2, 6] : (tensor<4x6xf32>, "
          "tensor<i64>, tensor<i64>) -> tensor<2x6xf32>\n"
          "    %out = stablehlo.concatenate %whole, %part, dim = 0 : (tensor<4x6xf32>, tensor<2x6xf32>) -> "
          "tensor<6x6xf32>",
      "tensor<6x6xf32>"));
  EXPECT_EQ(count(made, OpKind::all_reduce_), 1);
}

// What a loop leaves in terms, as JAX's sums over micro-batches: three sums behind it, of two shapes.
TEST(JoinBehindLoops, SumsOfResultsOfOneLoopBecomeOne) {
  const std::string loop = R"(
    %n = stablehlo.constant dense<3> : tensor<i64>
    %step = stablehlo.constant dense<1> : tensor<i64>
    %l:4 = stablehlo.while(%i = %zero, %p = %x, %q = %y, %r = %m) : tensor<i64>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<2x6xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %next = stablehlo.add %i, %step : tensor<i64>
      %p2 = stablehlo.add %p, %q : tensor<4x6xf32>
      %r2 = stablehlo.add %r, %m : tensor<2x6xf32>
      stablehlo.return %next, %p2, %q, %r2 : tensor<i64>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<2x6xf32>
    }
)";
  const std::string end = R"(
    %both = stablehlo.subtract %s1, %s2 : tensor<4x6xf32>
    %wide = stablehlo.concatenate %both, %s3, dim = 0 : (tensor<4x6xf32>, tensor<2x6xf32>) -> tensor<6x6xf32>
    %out = stablehlo.concatenate %wide, %s4, dim = 0 : (tensor<6x6xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>
)";
  const graph::Module before =
      module_of(loop + sum("%s1", "%l#1", "tensor<4x6xf32>") + sum("%s2", "%l#2", "tensor<4x6xf32>") +
                    sum("%s3", "%l#3", "tensor<2x6xf32>") + sum("%s4", "%m", "tensor<2x6xf32>") + end,
                "tensor<8x6xf32>");
  const graph::Module after = rearranged(before);
  EXPECT_EQ(count(before, OpKind::all_reduce_), 4);
  EXPECT_EQ(count(after, OpKind::all_reduce_), 2);  // that of an argument stays alone
}

}  // namespace
}  // namespace opentrn::spmd
