#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

void split_and_clean(graph::Function& function) {
  while (split_products(function) > 0) remove_dead_ops(function);
}

constexpr PassCase kProductShapesCases[] = {
    // As PyTorch writes a Linear: rows are merged before it and split behind it.
    {"rows_of_a_product", "(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x3x5xf32>",
     R"(%m = stablehlo.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
        %p = stablehlo.dot_general %m, %w, contracting_dims = [1] x [0]
             : (tensor<6x4xf32>, tensor<4x5xf32>) -> tensor<6x5xf32>
        %a = stablehlo.reshape %p : (tensor<6x5xf32>) -> tensor<2x3x5xf32>
        return %a : tensor<2x3x5xf32>)",
     R"(%p = stablehlo.dot_general %x, %w, contracting_dims = [2] x [0]
             : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
        return %p : tensor<2x3x5xf32>)"},
    {"through_a_bias_and_a_number",
     "(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>, %b: tensor<5xf32>) -> tensor<2x3x5xf32>",
     R"(%two = stablehlo.constant dense<2.0> : tensor<6x5xf32>
        %m = stablehlo.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
        %p = stablehlo.dot_general %m, %w, contracting_dims = [1] x [0]
             : (tensor<6x4xf32>, tensor<4x5xf32>) -> tensor<6x5xf32>
        %r = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<5xf32>) -> tensor<6x5xf32>
        %s = stablehlo.add %p, %r : tensor<6x5xf32>
        %t = stablehlo.multiply %s, %two : tensor<6x5xf32>
        %a = stablehlo.reshape %t : (tensor<6x5xf32>) -> tensor<2x3x5xf32>
        return %a : tensor<2x3x5xf32>)",
     R"(%two = stablehlo.constant dense<2.0> : tensor<2x3x5xf32>
        %p = stablehlo.dot_general %x, %w, contracting_dims = [2] x [0]
             : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
        %r = stablehlo.broadcast_in_dim %b, dims = [2] : (tensor<5xf32>) -> tensor<2x3x5xf32>
        %s = stablehlo.add %p, %r : tensor<2x3x5xf32>
        %t = stablehlo.multiply %s, %two : tensor<2x3x5xf32>
        return %t : tensor<2x3x5xf32>)"},
    // As PyTorch writes products of several batch dimensions, of which the right operand is transposed.
    {"batches", "(%x: tensor<2x3x4x5xf32>, %y: tensor<2x3x6x5xf32>) -> tensor<2x3x4x6xf32>",
     R"(%m = stablehlo.reshape %x : (tensor<2x3x4x5xf32>) -> tensor<6x4x5xf32>
        %n = stablehlo.reshape %y : (tensor<2x3x6x5xf32>) -> tensor<6x6x5xf32>
        %p = stablehlo.dot_general %m, %n, batching_dims = [0] x [0], contracting_dims = [2] x [2]
             : (tensor<6x4x5xf32>, tensor<6x6x5xf32>) -> tensor<6x4x6xf32>
        %a = stablehlo.reshape %p : (tensor<6x4x6xf32>) -> tensor<2x3x4x6xf32>
        return %a : tensor<2x3x4x6xf32>)",
     R"(%p = stablehlo.dot_general %x, %y, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3]
             : (tensor<2x3x4x5xf32>, tensor<2x3x6x5xf32>) -> tensor<2x3x4x6xf32>
        return %p : tensor<2x3x4x6xf32>)"},
    // What is returned too is seen through a reshape.
    {"another_reader", "(%x: tensor<6x4xf32>, %w: tensor<4x5xf32>) -> (tensor<6x5xf32>, tensor<2x3x5xf32>)",
     R"(%p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
             : (tensor<6x4xf32>, tensor<4x5xf32>) -> tensor<6x5xf32>
        %a = stablehlo.reshape %p : (tensor<6x5xf32>) -> tensor<2x3x5xf32>
        return %p, %a : tensor<6x5xf32>, tensor<2x3x5xf32>)",
     R"(%m = stablehlo.reshape %x : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
        %p = stablehlo.dot_general %m, %w, contracting_dims = [2] x [0]
             : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
        %a = stablehlo.reshape %p : (tensor<2x3x5xf32>) -> tensor<6x5xf32>
        return %a, %p : tensor<6x5xf32>, tensor<2x3x5xf32>)"},
};

TEST(SplitProducts, ComputesThemAsTheyAreRead) { expect_cases(kProductShapesCases, split_and_clean); }

TEST(SplitProducts, LeavesWhatIsReadInItsOwnShape) {
  for (const std::string& text : {
           // The columns are split.
           main_of("(%x: tensor<6x4xf32>, %w: tensor<4x6xf32>) -> tensor<6x2x3xf32>", R"(
        %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
             : (tensor<6x4xf32>, tensor<4x6xf32>) -> tensor<6x6xf32>
        %a = stablehlo.reshape %p : (tensor<6x6xf32>) -> tensor<6x2x3xf32>
        return %a : tensor<6x2x3xf32>)"),
           // Rows are merged.
           main_of("(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<6x5xf32>", R"(
        %p = stablehlo.dot_general %x, %w, contracting_dims = [2] x [0]
             : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
        %a = stablehlo.reshape %p : (tensor<2x3x5xf32>) -> tensor<6x5xf32>
        return %a : tensor<6x5xf32>)"),
           // Somebody computes with the sums as they are.
           main_of("(%x: tensor<6x4xf32>, %w: tensor<4x5xf32>) -> (tensor<6x5xf32>, tensor<2x3x5xf32>)", R"(
        %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
             : (tensor<6x4xf32>, tensor<4x5xf32>) -> tensor<6x5xf32>
        %e = stablehlo.exponential %p : tensor<6x5xf32>
        %a = stablehlo.reshape %p : (tensor<6x5xf32>) -> tensor<2x3x5xf32>
        return %e, %a : tensor<6x5xf32>, tensor<2x3x5xf32>)"),
           // No product.
           main_of("(%x: tensor<6x4xf32>) -> tensor<2x3x4xf32>", R"(
        %e = stablehlo.exponential %x : tensor<6x4xf32>
        %a = stablehlo.reshape %e : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
        return %a : tensor<2x3x4xf32>)"),
       })
    EXPECT_EQ(after(text, split_and_clean), printed(text));
}

// A value that an op reads twice is made once.
TEST(SplitProducts, MakesASharedOperandOnce) {
  const std::string text = main_of("(%x: tensor<6x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x3x5xf32>", R"(
        %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
             : (tensor<6x4xf32>, tensor<4x5xf32>) -> tensor<6x5xf32>
        %s = stablehlo.multiply %p, %p : tensor<6x5xf32>
        %a = stablehlo.reshape %s : (tensor<6x5xf32>) -> tensor<2x3x5xf32>
        return %a : tensor<2x3x5xf32>)");
  const std::string then = after(text, split_and_clean);
  EXPECT_EQ(then.find("dot_general"), then.rfind("dot_general")) << then;
  expect_same_values(text, split_and_clean);
}

}  // namespace
}  // namespace opentrn::compiler
