#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

constexpr PassCase kCases[] = {
    {"reductions_of_nothing", "(%x: tensor<2x0xf32>) -> tensor<2xf32>",
     R"(%seven = stablehlo.constant dense<7.0> : tensor<f32>
        %a = stablehlo.reduce(%x init: %seven) applies stablehlo.add across dimensions = [1]
             : (tensor<2x0xf32>, tensor<f32>) -> tensor<2xf32>
        return %a : tensor<2xf32>)",
     R"(%seven = stablehlo.constant dense<7.0> : tensor<f32>
        %a = stablehlo.broadcast_in_dim %seven, dims = [] : (tensor<f32>) -> tensor<2xf32>
        return %a : tensor<2xf32>)"},
    {"products_of_nothing", "(%x: tensor<2x0xf32>, %y: tensor<0x3xf32>) -> tensor<2x3xf32>",
     R"(%a = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
             : (tensor<2x0xf32>, tensor<0x3xf32>) -> tensor<2x3xf32>
        return %a : tensor<2x3xf32>)",
     R"(%zero = stablehlo.constant dense<0.0> : tensor<f32>
        %a = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
        return %a : tensor<2x3xf32>)"},
};

void run(graph::Function& function) {
  replace_empty_values(function);
  remove_dead_ops(function);
}

TEST(EmptyValues, AreConstants) { expect_cases(kCases, run); }

TEST(EmptyValues, NothingComputesThem) {
  const std::string text = main_of("(%x: tensor<0x2xf32>) -> tensor<0x2xf32>", R"(
    %a = stablehlo.exponential %x : tensor<0x2xf32>
    return %a : tensor<0x2xf32>)");
  EXPECT_EQ(after(text, run).find("exponential"), std::string::npos);
  expect_same_values(text, run);
}

// Of a window over nothing but padding, for one, whose op goes to the host.
TEST(EmptyValues, WhatABlockIsGivenIsNotRead) {
  const std::string text = main_of("(%x: tensor<2x0xf32>) -> tensor<2x3xf32>", R"(
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %a = stablehlo.pad %x, %zero, low = [0, 1], high = [0, 2], interior = [0, 0]
         : (tensor<2x0xf32>, tensor<f32>) -> tensor<2x3xf32>
    return %a : tensor<2x3xf32>)");
  EXPECT_EQ(after(text, run).find("pad %arg0"), std::string::npos) << after(text, run);
  EXPECT_EQ(after(text, run).find("pad %x"), std::string::npos);
  expect_same_values(text, run);
}

}  // namespace
}  // namespace opentrn::compiler
