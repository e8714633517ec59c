#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

constexpr std::string_view kSignature = "(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>) -> tensor<2x4xf32>";
constexpr std::string_view kProduct = R"(
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
       : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %b = stablehlo.exponential %a : tensor<2x4xf32>
  return %b : tensor<2x4xf32>)";

void matmult(graph::Function& function) {
  auto_cast(function, AutoCastMode::kMatmult, graph::ElementType::kBF16);
}

TEST(AutoCast, MatmultCastsOperandsOfProductsOnly) {
  const std::string text = main_of(kSignature, kProduct);
  const std::string wanted = main_of(kSignature, R"(
    %c = stablehlo.convert %x : (tensor<2x3xf32>) -> tensor<2x3xbf16>
    %d = stablehlo.convert %w : (tensor<3x4xf32>) -> tensor<3x4xbf16>
    %a = stablehlo.dot_general %c, %d, contracting_dims = [1] x [0]
         : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xf32>
    %b = stablehlo.exponential %a : tensor<2x4xf32>
    return %b : tensor<2x4xf32>)");
  EXPECT_EQ(after(text, matmult), printed(wanted));
}

TEST(AutoCast, NoneChangesNothing) {
  const std::string text = main_of(kSignature, kProduct);
  graph::Module module = parsed(text);
  EXPECT_EQ(auto_cast(module.entry(), AutoCastMode::kNone, graph::ElementType::kBF16), 0);
  EXPECT_EQ(graph::print_module(module), printed(text));
}

// Sums over many elements stay fp32, and so do arguments and results of the model.
TEST(AutoCast, AllKeepsReductionsAndTheInterface) {
  const std::string then = after(
      main_of("(%x: tensor<2x3xf32>) -> tensor<2xf32>", R"(
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %e = stablehlo.exponential %x : tensor<2x3xf32>
    %a = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1]
         : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    return %a : tensor<2xf32>)"),
      [](graph::Function& function) { auto_cast(function, AutoCastMode::kAll, graph::ElementType::kBF16); });
  EXPECT_NE(then.find("exponential"), std::string::npos);
  EXPECT_NE(then.find("stablehlo.exponential %0 : tensor<2x3xbf16>"), std::string::npos) << then;
  EXPECT_NE(then.find("(tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>"), std::string::npos) << then;
}

}  // namespace
}  // namespace opentrn::compiler
