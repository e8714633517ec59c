#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

void run_share_equal_ops(graph::Function& function) {
  share_equal_ops(function);
  remove_dead_ops(function);
}

constexpr PassCase kShareEqualOpsCases[] = {
    {"equal_ops", "(%x: tensor<2xf32>) -> tensor<2xf32>",
     R"(%a = stablehlo.exponential %x : tensor<2xf32>
        %b = stablehlo.exponential %x : tensor<2xf32>
        %c = stablehlo.add %a, %b : tensor<2xf32>
        return %c : tensor<2xf32>)",
     R"(%a = stablehlo.exponential %x : tensor<2xf32>
        %c = stablehlo.add %a, %a : tensor<2xf32>
        return %c : tensor<2xf32>)"},
    {"equal_through_equal_operands", "(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)",
     R"(%a = stablehlo.constant dense<2.0> : tensor<2xf32>
        %b = stablehlo.constant dense<2.0> : tensor<2xf32>
        %c = stablehlo.add %x, %a : tensor<2xf32>
        %d = stablehlo.add %x, %b : tensor<2xf32>
        return %c, %d : tensor<2xf32>, tensor<2xf32>)",
     R"(%a = stablehlo.constant dense<2.0> : tensor<2xf32>
        %c = stablehlo.add %x, %a : tensor<2xf32>
        return %c, %c : tensor<2xf32>, tensor<2xf32>)"},
    {"other_attributes", "(%x: tensor<2x2xf32>) -> (tensor<2xf32>, tensor<2xf32>)",
     R"(%a = stablehlo.slice %x [0:1, 0:2] : (tensor<2x2xf32>) -> tensor<1x2xf32>
        %b = stablehlo.slice %x [1:2, 0:2] : (tensor<2x2xf32>) -> tensor<1x2xf32>
        %c = stablehlo.reshape %a : (tensor<1x2xf32>) -> tensor<2xf32>
        %d = stablehlo.reshape %b : (tensor<1x2xf32>) -> tensor<2xf32>
        return %c, %d : tensor<2xf32>, tensor<2xf32>)",
     R"(%a = stablehlo.slice %x [0:1, 0:2] : (tensor<2x2xf32>) -> tensor<1x2xf32>
        %b = stablehlo.slice %x [1:2, 0:2] : (tensor<2x2xf32>) -> tensor<1x2xf32>
        %c = stablehlo.reshape %a : (tensor<1x2xf32>) -> tensor<2xf32>
        %d = stablehlo.reshape %b : (tensor<1x2xf32>) -> tensor<2xf32>
        return %c, %d : tensor<2xf32>, tensor<2xf32>)"},
};

constexpr PassCase kReductionCases[] = {
    {"equal_reductions", "(%x: tensor<2x3xf32>) -> tensor<2xf32>",
     R"(%z = stablehlo.constant dense<0.0> : tensor<f32>
        %a = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]
          : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
        %b = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]
          : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
        %c = stablehlo.multiply %a, %b : tensor<2xf32>
        return %c : tensor<2xf32>)",
     R"(%z = stablehlo.constant dense<0.0> : tensor<f32>
        %a = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]
          : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
        %c = stablehlo.multiply %a, %a : tensor<2xf32>
        return %c : tensor<2xf32>)"},
    {"other_combiners", "(%x: tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2xf32>)",
     R"(%z = stablehlo.constant dense<0.0> : tensor<f32>
        %a = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]
          : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
        %b = stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [1]
          : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
        return %a, %b : tensor<2xf32>, tensor<2xf32>)",
     R"(%z = stablehlo.constant dense<0.0> : tensor<f32>
        %a = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]
          : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
        %b = stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [1]
          : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
        return %a, %b : tensor<2xf32>, tensor<2xf32>)"},
};

TEST(ShareEqualOps, ComparesTheRegionsOfReductions) { expect_cases(kReductionCases, run_share_equal_ops); }

TEST(ShareEqualOps, KeepsOneOfThem) { expect_cases(kShareEqualOpsCases, run_share_equal_ops); }

// Two draws are two numbers.
TEST(ShareEqualOps, LeavesRandomNumbers) {
  const std::string text = main_of("(%a: tensor<f32>, %b: tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>)", R"(
    %shape = stablehlo.constant dense<2> : tensor<1xi64>
    %c = stablehlo.rng %a, %b, %shape, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<2xf32>
    %d = stablehlo.rng %a, %b, %shape, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<2xf32>
    return %c, %d : tensor<2xf32>, tensor<2xf32>)");
  EXPECT_EQ(after(text, run_share_equal_ops), printed(text));
}

}  // namespace
}  // namespace opentrn::compiler
