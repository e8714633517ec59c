#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

void join_and_clean(graph::Function& function) {
  join_products(function);
  remove_dead_ops(function);
}

constexpr PassCase kJoinedProductsCases[] = {
    // Two steps of a loop over time that was written out.
    {"steps", "(%x: tensor<3x2x4xf32>, %w: tensor<5x4xf32>) -> (tensor<2x5xf32>, tensor<2x5xf32>)",
     R"(%s = stablehlo.slice %x [0:1, 0:2, 0:4] : (tensor<3x2x4xf32>) -> tensor<1x2x4xf32>
        %r = stablehlo.reshape %s : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
        %p = stablehlo.dot_general %r, %w, contracting_dims = [1] x [1]
             : (tensor<2x4xf32>, tensor<5x4xf32>) -> tensor<2x5xf32>
        %t = stablehlo.slice %x [2:3, 0:2, 0:4] : (tensor<3x2x4xf32>) -> tensor<1x2x4xf32>
        %u = stablehlo.reshape %t : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
        %q = stablehlo.dot_general %u, %w, contracting_dims = [1] x [1]
             : (tensor<2x4xf32>, tensor<5x4xf32>) -> tensor<2x5xf32>
        return %p, %q : tensor<2x5xf32>, tensor<2x5xf32>)",
     R"(%v = stablehlo.reshape %x : (tensor<3x2x4xf32>) -> tensor<3x2x4xf32>
        %m = stablehlo.dot_general %v, %w, contracting_dims = [2] x [1]
             : (tensor<3x2x4xf32>, tensor<5x4xf32>) -> tensor<3x2x5xf32>
        %s = stablehlo.slice %m [0:1, 0:2, 0:5] : (tensor<3x2x5xf32>) -> tensor<1x2x5xf32>
        %t = stablehlo.slice %m [2:3, 0:2, 0:5] : (tensor<3x2x5xf32>) -> tensor<1x2x5xf32>
        %p = stablehlo.reshape %s : (tensor<1x2x5xf32>) -> tensor<2x5xf32>
        %q = stablehlo.reshape %t : (tensor<1x2x5xf32>) -> tensor<2x5xf32>
        return %p, %q : tensor<2x5xf32>, tensor<2x5xf32>)"},
};

TEST(JoinProducts, OfPartsOfOneTensor) { expect_cases(kJoinedProductsCases, join_and_clean); }

// Batches outside of time, several dimensions of the contraction, strides.
TEST(JoinProducts, KeepsValues) {
  const std::string text =
      main_of("(%x: tensor<2x4x2x3xf32>, %w: tensor<6x5xf32>) -> (tensor<2x1x5xf32>, tensor<4x5xf32>)", R"(
    %s = stablehlo.slice %x [0:2, 3:4, 0:2, 0:3] : (tensor<2x4x2x3xf32>) -> tensor<2x1x2x3xf32>
    %r = stablehlo.reshape %s : (tensor<2x1x2x3xf32>) -> tensor<2x1x6xf32>
    %p = stablehlo.dot_general %r, %w, contracting_dims = [2] x [0]
         : (tensor<2x1x6xf32>, tensor<6x5xf32>) -> tensor<2x1x5xf32>
    %t = stablehlo.slice %x [0:2, 0:4:2, 0:2, 0:3] : (tensor<2x4x2x3xf32>) -> tensor<2x2x2x3xf32>
    %u = stablehlo.reshape %t : (tensor<2x2x2x3xf32>) -> tensor<4x6xf32>
    %q = stablehlo.dot_general %u, %w, contracting_dims = [1] x [0]
         : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
    return %p, %q : tensor<2x1x5xf32>, tensor<4x5xf32>)");
  const std::string joined = after(text, join_and_clean);
  EXPECT_EQ(joined.find("dot_general"), joined.rfind("dot_general")) << joined;
  expect_same_values(text, join_and_clean);
}

TEST(JoinProducts, LeavesOthers) {
  const auto two = [](const std::string& first, const std::string& second) {
    return main_of("(%x: tensor<9x4xf32>, %w: tensor<4x5xf32>) -> (tensor<1x5xf32>, tensor<1x5xf32>)",
                   first + second + "return %p, %q : tensor<1x5xf32>, tensor<1x5xf32>");
  };
  const std::string row = R"(%s = stablehlo.slice %x [0:1, 0:4] : (tensor<9x4xf32>) -> tensor<1x4xf32>
    %p = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0]
         : (tensor<1x4xf32>, tensor<4x5xf32>) -> tensor<1x5xf32>
)";
  for (const std::string& text :
       {// Two rows of nine.
        two(row, R"(%t = stablehlo.slice %x [8:9, 0:4] : (tensor<9x4xf32>) -> tensor<1x4xf32>
    %q = stablehlo.dot_general %t, %w, contracting_dims = [1] x [0]
         : (tensor<1x4xf32>, tensor<4x5xf32>) -> tensor<1x5xf32>
)"),
        // A product of another value.
        two(row, R"(%t = stablehlo.tanh %s : tensor<1x4xf32>
    %q = stablehlo.dot_general %t, %w, contracting_dims = [1] x [0]
         : (tensor<1x4xf32>, tensor<4x5xf32>) -> tensor<1x5xf32>
)")})
    EXPECT_EQ(after(text, join_and_clean), printed(text));
}

}  // namespace
}  // namespace opentrn::compiler
