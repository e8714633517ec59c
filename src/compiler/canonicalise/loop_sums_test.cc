#include <fmt/format.h>

#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

// Backwards over six steps: gradients of weights and of a bias, of what each step computes of its carry.
std::string backwards(const std::string& trips = "6", const std::string& index = "%down",
                      const std::string& carried = "%w") {
  return main_of(
      "(%t: tensor<6x4x5xf32>, %u: tensor<6x4x3xf32>, %w0: tensor<5x3xf32>) -> (tensor<5x3xf32>, "
      "tensor<3xf32>, "
      "tensor<4x3xf32>)",
      fmt::format(R"(
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %f0 = stablehlo.constant dense<0.0> : tensor<f32>
    %b0 = stablehlo.constant dense<0.5> : tensor<3xf32>
    %h0 = stablehlo.constant dense<0.25> : tensor<4x3xf32>
    %r:4 = stablehlo.while(%i = %zero, %w = %w0, %b = %b0, %h = %h0)
         : tensor<i32>, tensor<5x3xf32>, tensor<3xf32>, tensor<4x3xf32>
      cond {{
        %n = stablehlo.constant dense<{0}> : tensor<i32>
        %go = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      }} do {{
        %one = stablehlo.constant dense<1> : tensor<i32>
        %six = stablehlo.constant dense<6> : tensor<i32>
        %up = stablehlo.add %i, %zero : tensor<i32>
        %left = stablehlo.subtract %six, %i : tensor<i32>
        %down = stablehlo.subtract %left, %one : tensor<i32>
        %x1 = stablehlo.dynamic_slice %t, {1}, %zero, %zero, sizes = [1, 4, 5]
            : (tensor<6x4x5xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x5xf32>
        %x = stablehlo.reshape %x1 : (tensor<1x4x5xf32>) -> tensor<4x5xf32>
        %y1 = stablehlo.dynamic_slice %u, %down, %zero, %zero, sizes = [1, 4, 3]
            : (tensor<6x4x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x3xf32>
        %y = stablehlo.reshape %y1 : (tensor<1x4x3xf32>) -> tensor<4x3xf32>
        %z = stablehlo.add %h, %y : tensor<4x3xf32>
        %p = stablehlo.dot_general %z, %x, contracting_dims = [0] x [0]
           : (tensor<4x3xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
        %q = stablehlo.transpose %p, dims = [1, 0] : (tensor<3x5xf32>) -> tensor<5x3xf32>
        %w1 = stablehlo.add {2}, %q : tensor<5x3xf32>
        %s = stablehlo.reduce(%z init: %f0) applies stablehlo.add across dimensions = [0]
           : (tensor<4x3xf32>, tensor<f32>) -> tensor<3xf32>
        %sb = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<3xf32>) -> tensor<1x3xf32>
        %sr = stablehlo.reshape %sb : (tensor<1x3xf32>) -> tensor<3xf32>
        %so = stablehlo.reshape %sr : (tensor<3xf32>) -> tensor<1x3xf32>
        %sz = stablehlo.reduce(%so init: %f0) applies stablehlo.add across dimensions = [0]
            : (tensor<1x3xf32>, tensor<f32>) -> tensor<3xf32>
        %b1 = stablehlo.add %sz, %b : tensor<3xf32>
        %h1 = stablehlo.tanh %z : tensor<4x3xf32>
        %next = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %next, %w1, %b1, %h1 : tensor<i32>, tensor<5x3xf32>, tensor<3xf32>, tensor<4x3xf32>
      }}
    return %r#1, %r#2, %r#3 : tensor<5x3xf32>, tensor<3xf32>, tensor<4x3xf32>)",
                  trips, index, carried));
}

void summed(graph::Function& function) {
  sum_behind_loops(function);
  simplify_loops(function);
  remove_dead_ops(function);
}

int64_t moved(const std::string& text) {
  graph::Module module = parsed(text);
  return sum_behind_loops(module.entry());
}

TEST(SumBehindLoops, ProductsOfStepsAreOneProduct) {
  EXPECT_EQ(moved(backwards()), 2);
  const std::string made = after(backwards(), summed);
  EXPECT_NE(made.find("contracting_dims = [0, 1] x [0, 1]"), std::string::npos) << made;
  EXPECT_GT(made.find("dot_general"), made.find("stablehlo.while")) << made;
  EXPECT_EQ(made.find("sizes = [1, 4, 5]"), std::string::npos) << "nothing reads the slice: " << made;
  expect_same_values(backwards(), summed, 1e-5);
}

// Rows in another order than those of the loop: what is kept goes along.
TEST(SumBehindLoops, RowsUpwards) {
  EXPECT_EQ(moved(backwards("6", "%up")), 2);
  expect_same_values(backwards("6", "%up"), summed, 1e-5);
}

// Of five of six rows, and of a row that is not the iteration's: all is kept, and nothing is read from
// outside.
TEST(SumBehindLoops, OtherRowsAreKept) {
  for (const std::string& text : {backwards("5"), backwards("6", "%zero")}) {
    EXPECT_EQ(moved(text), 2);
    expect_same_values(text, summed, 1e-5);
  }
}

TEST(SumBehindLoops, WhatIsReadInTheLoopStays) {
  // The sum of another kind: a fixed tensor, not what was summed so far.
  EXPECT_EQ(moved(backwards("6", "%down", "%w0")), 0);
}

TEST(SumBehindLoops, ShortLoopsStay) { EXPECT_EQ(moved(backwards("3")), 0); }

// Once they are moved nothing is left to move.
TEST(SumBehindLoops, Once) {
  graph::Module module = passed(backwards(), summed);
  EXPECT_EQ(sum_behind_loops(module.entry()), 0);
}

}  // namespace
}  // namespace opentrn::compiler
