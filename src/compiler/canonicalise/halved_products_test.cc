#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

void halve_and_clean(graph::Function& function) {
  halve_products(function);
  remove_dead_ops(function);
}

// GEGLU's first layer as a framework writes it, weights as inputs by outputs or turned.
std::string gated(const std::string& weights, const std::string& contraction, int rows = 64) {
  const std::string n = std::to_string(rows);
  return main_of("(%x: tensor<" + n + "x4xf32>, %w: tensor<" + weights +
                     "xf32>, %b: tensor<6xf32>) -> tensor<" + n + "x3xf32>",
                 "%p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [" + contraction +
                     "] : (tensor<" + n + "x4xf32>, tensor<" + weights + "xf32>) -> tensor<" + n +
                     "x6xf32>\n" +
                     "%r = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<6xf32>) -> tensor<" + n +
                     "x6xf32>\n%s = stablehlo.add %r, %p : tensor<" + n + "x6xf32>\n" +
                     "%g = stablehlo.slice %s [0:" + n + ", 3:6] : (tensor<" + n + "x6xf32>) -> tensor<" + n +
                     "x3xf32>\n%u = stablehlo.slice %s [0:" + n + ", 0:3] : (tensor<" + n +
                     "x6xf32>) -> tensor<" + n + "x3xf32>\n%t = stablehlo.tanh %g : tensor<" + n +
                     "x3xf32>\n%m = stablehlo.multiply %u, %t : tensor<" + n +
                     "x3xf32>\nreturn %m : tensor<" + n + "x3xf32>");
}

TEST(HalveProducts, MakesTwoProductsOfAGatedOne) {
  for (const auto& [weights, contraction] : {std::pair("4x6", "0"), {"6x4", "1"}}) {
    const std::string text = gated(weights, contraction);
    const std::string after_it = after(text, halve_and_clean);
    EXPECT_NE(after_it.find("dot_general"), after_it.rfind("dot_general")) << after_it;
    EXPECT_EQ(after_it.find("tensor<64x6xf32>"), std::string::npos) << after_it;
    expect_same_values(text, halve_and_clean);
  }
}

TEST(HalveProducts, LeavesFewRowsAndWhatIsNotComputedOfBothHalves) {
  const std::string moved =
      main_of("(%x: tensor<64x4xf32>, %w: tensor<4x6xf32>) -> (tensor<3x64xf32>, tensor<64x3xf32>)", R"(
    %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
         : (tensor<64x4xf32>, tensor<4x6xf32>) -> tensor<64x6xf32>
    %k = stablehlo.slice %p [0:64, 0:3] : (tensor<64x6xf32>) -> tensor<64x3xf32>
    %v = stablehlo.slice %p [0:64, 3:6] : (tensor<64x6xf32>) -> tensor<64x3xf32>
    %t = stablehlo.transpose %k, dims = [1, 0] : (tensor<64x3xf32>) -> tensor<3x64xf32>
    %u = stablehlo.tanh %v : tensor<64x3xf32>
    return %t, %u : tensor<3x64xf32>, tensor<64x3xf32>)");
  for (const std::string& text : {gated("4x6", "0", 8), moved}) {
    const std::string after_it = after(text, halve_and_clean);
    EXPECT_EQ(after_it.find("dot_general"), after_it.rfind("dot_general")) << after_it;
  }
}

// As JAX writes the gradient of a sum over the last dimension under vmap: nothing is contracted, and
// nothing stands where contracted dimensions would.
TEST(HalveProducts, LeavesProductsThatContractNothing) {
  const std::string text = main_of("(%x: tensor<3xf32>, %w: tensor<32x4xf32>) -> tensor<3x32x4xf32>", R"(
    %p = stablehlo.dot_general %x, %w : (tensor<3xf32>, tensor<32x4xf32>) -> tensor<3x32x4xf32>
    return %p : tensor<3x32x4xf32>)");
  const std::string after_it = after(text, halve_and_clean);
  EXPECT_EQ(after_it.find("slice"), std::string::npos) << after_it;
  expect_same_values(text, halve_and_clean);
}

}  // namespace
}  // namespace opentrn::compiler
