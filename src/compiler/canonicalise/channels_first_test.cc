#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

// A convolution as JAX writes it, with its bias and activation.
constexpr std::string_view kBody = R"(
  %zero = stablehlo.constant dense<0.0> : tensor<1x4x4x3xf32>
  %a = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
       window = {stride = [1, 1], pad = [[1, 1], [1, 1]], rhs_dilate = [1, 1]}
       {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
       : (tensor<1x4x4x2xf32>, tensor<3x3x2x3xf32>) -> tensor<1x4x4x3xf32>
  %b = stablehlo.maximum %a, %zero : tensor<1x4x4x3xf32>
  return %b : tensor<1x4x4x3xf32>)";

TEST(PutChannelsFirst, TurnsImagesAtTheEndsOnly) {
  const std::string text =
      main_of("(%x: tensor<1x4x4x2xf32>, %w: tensor<3x3x2x3xf32>) -> tensor<1x4x4x3xf32>", kBody);
  const auto run = [](graph::Function& function) {
    EXPECT_EQ(put_channels_first(function), 1);
    simplify(function);
    remove_dead_ops(function);
  };
  const std::string then = after(text, run);
  EXPECT_NE(then.find("[b, f, 0, 1]x[0, 1, i, o]->[b, f, 0, 1]"), std::string::npos) << then;
  EXPECT_NE(then.find("stablehlo.maximum %1, %2 : tensor<1x3x4x4xf32>"), std::string::npos) << then;
  expect_same_values(text, run, 1e-6);
}

TEST(PutChannelsFirst, LeavesConvolutionsThatHaveThemFirst) {
  const std::string text =
      main_of("(%x: tensor<1x2x4x4xf32>, %w: tensor<3x2x3x3xf32>) -> tensor<1x3x2x2xf32>", R"(
    %a = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
         window = {stride = [1, 1], pad = [[0, 0], [0, 0]], rhs_dilate = [1, 1]}
         {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
         : (tensor<1x2x4x4xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x2x2xf32>
    return %a : tensor<1x3x2x2xf32>)");
  graph::Module module = parsed(text);
  EXPECT_EQ(put_channels_first(module.entry()), 0);
  EXPECT_EQ(graph::print_module(module), printed(text));
}

// Talking heads: products over the heads of attention, as PyTorch's Linear over permuted scores and as
// einsum.
constexpr std::string_view kPermuted = R"(
  %t = stablehlo.transpose %x, dims = [0, 2, 3, 1] : (tensor<2x4x64x32xf32>) -> tensor<2x64x32x4xf32>
  %p = stablehlo.dot_general %t, %w, contracting_dims = [3] x [1]
       : (tensor<2x64x32x4xf32>, tensor<3x4xf32>) -> tensor<2x64x32x3xf32>
  %b = stablehlo.broadcast_in_dim %bias, dims = [3] : (tensor<3xf32>) -> tensor<2x64x32x3xf32>
  %s = stablehlo.add %p, %b : tensor<2x64x32x3xf32>
  %r = stablehlo.transpose %s, dims = [0, 3, 1, 2] : (tensor<2x64x32x3xf32>) -> tensor<2x3x64x32xf32>
  return %r : tensor<2x3x64x32xf32>)";
constexpr std::string_view kEinsum = R"(
  %p = stablehlo.dot_general %w, %x, contracting_dims = [1] x [1]
       : (tensor<3x4xf32>, tensor<2x4x64x32xf32>) -> tensor<3x2x64x32xf32>
  %t = stablehlo.transpose %p, dims = [1, 0, 2, 3] : (tensor<3x2x64x32xf32>) -> tensor<2x3x64x32xf32>
  %b = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<3xf32>) -> tensor<2x3x64x32xf32>
  %s = stablehlo.add %t, %b : tensor<2x3x64x32xf32>
  return %s : tensor<2x3x64x32xf32>)";

TEST(PutChannelsFirst, MixesHeadsWhereTheyLie) {
  for (const std::string_view body : {kPermuted, kEinsum}) {
    const std::string text = main_of(
        "(%x: tensor<2x4x64x32xf32>, %w: tensor<3x4xf32>, %bias: tensor<3xf32>) -> tensor<2x3x64x32xf32>",
        body);
    const auto run = [](graph::Function& function) {
      simplify(function);
      EXPECT_EQ(put_channels_first(function), 1);
      simplify(function);
      remove_dead_ops(function);
    };
    const std::string then = after(text, run);
    EXPECT_EQ(then.find("stablehlo.transpose"), std::string::npos) << then;
    EXPECT_EQ(then.find("stablehlo.dot_general"), std::string::npos) << then;
    expect_same_values(text, run, 1e-5);
  }
}

TEST(PutChannelsFirst, LeavesProductsOfManySlabs) {
  const std::string text =
      main_of("(%x: tensor<1x16x64x32xf32>, %w: tensor<16x4xf32>) -> tensor<1x64x32x4xf32>", R"(
    %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
         : (tensor<1x16x64x32xf32>, tensor<16x4xf32>) -> tensor<1x64x32x4xf32>
    return %p : tensor<1x64x32x4xf32>)");
  graph::Module module = parsed(text);
  EXPECT_EQ(put_channels_first(module.entry()), 0);
}

// A kernel that is a constant gets the order in which it is read; fold_constants() then writes it.
TEST(ArrangeConstants, TurnsConstantKernels) {
  const std::string text = main_of("(%x: tensor<1x2x4x4xf32>) -> tensor<1x3x2x2xf32>", R"(
    %w = stablehlo.iota dim = 0 : tensor<3x2x3x3xf32>
    %a = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
         window = {stride = [1, 1], pad = [[0, 0], [0, 0]], rhs_dilate = [1, 1]}
         {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
         : (tensor<1x2x4x4xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x2x2xf32>
    return %a : tensor<1x3x2x2xf32>)");
  const auto run = [](graph::Function& function) {
    fold_constants(function, /*fold_ops=*/true);
    EXPECT_EQ(arrange_constants(function), 1);
    EXPECT_GT(fold_constants(function, /*fold_ops=*/true), 0);
    EXPECT_EQ(arrange_constants(function), 0);
    remove_dead_ops(function);
  };
  EXPECT_NE(after(text, run).find("[i, 0, 1, o]"), std::string::npos) << after(text, run);
  expect_same_values(text, run);
}

// Channels of a depthwise convolution go over partitions, each with its taps, whatever order they come in.
TEST(ArrangeConstants, KeepsTheTapsOfAChannelTogether) {
  const auto depthwise = [](const std::string& kind, const std::string& order) {
    return main_of("(%x: tensor<1x3x4x4xf32>) -> tensor<1x3x3x3xf32>",
                   "%w = stablehlo.iota dim = 3 : tensor<" + kind + R"(>
    %a = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x)" +
                       order + R"(->[b, f, 0, 1],
         window = {stride = [1, 1], pad = [[0, 0], [0, 0]], rhs_dilate = [1, 1]}
         {batch_group_count = 1 : i64, feature_group_count = 3 : i64}
         : (tensor<1x3x4x4xf32>, tensor<)" +
                       kind + R"(>) -> tensor<1x3x3x3xf32>
    return %a : tensor<1x3x3x3xf32>)");
  };
  const auto run = [](graph::Function& function) {
    fold_constants(function, /*fold_ops=*/true);
    arrange_constants(function);
    fold_constants(function, /*fold_ops=*/true);
    remove_dead_ops(function);
  };
  for (const std::string& text :
       {depthwise("3x1x2x2xf32", "[o, i, 0, 1]"), depthwise("2x2x1x3xf32", "[0, 1, i, o]")}) {
    EXPECT_NE(after(text, run).find("[o, 0, 1, i]"), std::string::npos) << after(text, run);
    expect_same_values(text, run);
  }
}

// Parts of one constant kernel, as large kernels are computed, are slices of one constant in the other order.
TEST(ArrangeConstants, TurnsKernelsThatAreSlicesOfAConstant) {
  const auto part = [](const std::string& name, const std::string& rows) {
    return "    %s" + name + " = stablehlo.slice %w [0:2, 0:1, " + rows +
           ", 0:1] : (tensor<2x1x4x1xf32>) -> tensor<2x1x2x1xf32>\n    %" + name +
           " = stablehlo.convolution(%x, %s" + name +
           R"() dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
         window = {stride = [1, 1], pad = [[0, 0], [0, 0]], rhs_dilate = [1, 1]}
         {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
         : (tensor<1x1x4x4xf32>, tensor<2x1x2x1xf32>) -> tensor<1x2x3x4xf32>
)";
  };
  const std::string text = main_of("(%x: tensor<1x1x4x4xf32>) -> tensor<1x2x3x4xf32>", R"(
    %w = stablehlo.constant dense<[[[[1.], [2.], [3.], [4.]]], [[[5.], [6.], [7.], [9.]]]]> : tensor<2x1x4x1xf32>
)" + part("a", "0:2") + part("b", "2:4") + R"(
    %c = stablehlo.add %a, %b : tensor<1x2x3x4xf32>
    return %c : tensor<1x2x3x4xf32>)");
  const auto run = [](graph::Function& function) {
    EXPECT_EQ(arrange_constants(function), 2);
    remove_dead_ops(function);
  };
  const std::string made = after(text, run);
  EXPECT_EQ(made.find("[o, i, 0, 1]"), std::string::npos) << made;
  EXPECT_EQ(made.find("transpose"), made.rfind("transpose")) << made;  // one, which is folded later
  expect_same_values(text, run);
}

// Weights as PyTorch's Linear keeps them, of one row and of many; a part of them too.
TEST(ArrangeConstants, TurnsWeightsOfProductsWithFewRows) {
  const auto product = [](const std::string& rows) {
    return main_of("(%x: tensor<" + rows + "x2xf32>) -> tensor<" + rows + "x2xf32>",
                   R"(%w = stablehlo.constant dense<[[1., 2.], [3., 4.], [5., 6.]]> : tensor<3x2xf32>
    %s = stablehlo.slice %w [1:3, 0:2] : (tensor<3x2xf32>) -> tensor<2x2xf32>
    %a = stablehlo.dot_general %x, %s, contracting_dims = [1] x [1] : (tensor<)" +
                       rows + "x2xf32>, tensor<2x2xf32>) -> tensor<" + rows +
                       R"(x2xf32>
    return %a : tensor<)" +
                       rows + "x2xf32>");
  };
  const auto run = [](graph::Function& function) {
    arrange_constants(function);
    remove_dead_ops(function);
  };
  const std::string few = after(product("1"), run);
  EXPECT_NE(few.find("contracting_dims = [1] x [0]"), std::string::npos) << few;
  EXPECT_EQ(few.find("slice"), std::string::npos) << few;
  expect_same_values(product("1"), run);
  EXPECT_EQ(after(product("64"), run), printed(product("64")));
}

}  // namespace
}  // namespace opentrn::compiler
