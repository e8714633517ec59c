#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

void run_fold_constants(graph::Function& function) {
  fold_constants(function, /*fold_ops=*/true);
  remove_dead_ops(function);
}

constexpr PassCase kFoldConstantsCases[] = {
    {"arithmetic", "(%x: tensor<2xf32>) -> tensor<2xf32>",
     R"(%a = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
        %b = stablehlo.constant dense<[3.0, 5.0]> : tensor<2xf32>
        %c = stablehlo.add %a, %b : tensor<2xf32>
        %d = stablehlo.multiply %x, %c : tensor<2xf32>
        return %d : tensor<2xf32>)",
     R"(%c = stablehlo.constant dense<[4.0, 7.0]> : tensor<2xf32>
        %d = stablehlo.multiply %x, %c : tensor<2xf32>
        return %d : tensor<2xf32>)"},
    {"iota", "() -> tensor<3xi32>",
     R"(%a = stablehlo.iota dim = 0 : tensor<3xi32>
        return %a : tensor<3xi32>)",
     R"(%a = stablehlo.constant dense<[0, 1, 2]> : tensor<3xi32>
        return %a : tensor<3xi32>)"},
    {"what_depends_on_arguments_stays", "(%x: tensor<2xf32>) -> tensor<2xf32>",
     R"(%a = stablehlo.negate %x : tensor<2xf32>
        return %a : tensor<2xf32>)",
     R"(%a = stablehlo.negate %x : tensor<2xf32>
        return %a : tensor<2xf32>)"},
};

TEST(FoldConstants, ComputesWhatIsKnown) { expect_cases(kFoldConstantsCases, run_fold_constants); }

// A table of positions by an index of 400 x 400: a descriptor for each of them, or a constant.
TEST(FoldConstants, GathersShortSlicesWhateverTheirNumber) {
  const std::string text = main_of("() -> tensor<160000x2xf32>", R"(
    %t = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
    %n = stablehlo.constant dense<2> : tensor<160000x1xi32>
    %r = "stablehlo.gather"(%t, %n) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
      collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
      slice_sizes = array<i64: 1, 2>}> : (tensor<3x2xf32>, tensor<160000x1xi32>) -> tensor<160000x2xf32>
    return %r : tensor<160000x2xf32>)");
  EXPECT_EQ(after(text, run_fold_constants).find("gather"), std::string::npos);
}

TEST(FoldConstants, MultipliesWhatDoesNotGrow) {
  const auto product = [](const std::string& left, const std::string& right) {
    return main_of("() -> tensor<2x2xf32>", R"(
    %a = stablehlo.constant dense<)" + left + R"(> : tensor<2x3xf32>
    %b = stablehlo.constant dense<)" + right + R"(> : tensor<3x2xf32>
    %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
         : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
    return %c : tensor<2x2xf32>)");
  };
  for (const std::string& text :
       {product("[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]", "[[1.0, 0.5], [2.0, 3.0], [4.0, 1.0]]"),
        product("2.0", "3.0")}) {
    EXPECT_EQ(after(text, run_fold_constants).find("dot_general"), std::string::npos);
    expect_same_values(text, run_fold_constants);
  }
  const std::string outer = main_of("() -> tensor<500x500xf32>", R"(
    %a = stablehlo.iota dim = 0 : tensor<500xf32>
    %c = stablehlo.dot_general %a, %a : (tensor<500xf32>, tensor<500xf32>) -> tensor<500x500xf32>
    return %c : tensor<500x500xf32>)");
  EXPECT_NE(after(outer, run_fold_constants).find("dot_general"), std::string::npos) << "a larger program";
}

// Weights divided by what their rows sum up to, as standardised and normed weights are: more than a table may
// have, and no more than what is there already.
TEST(FoldConstants, DividesWeightsByTheirRows) {
  const std::string text = main_of("() -> tensor<512x512xf32>", R"(
    %w = stablehlo.iota dim = 1 : tensor<512x512xf32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %s = stablehlo.reduce(%w init: %one) applies stablehlo.add across dimensions = [1]
         : (tensor<512x512xf32>, tensor<f32>) -> tensor<512xf32>
    %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<512xf32>) -> tensor<512x512xf32>
    %r = stablehlo.divide %w, %b : tensor<512x512xf32>
    return %r : tensor<512x512xf32>)");
  const auto run = [](graph::Function& function) {
    fold_constants(function, /*fold_ops=*/false);
    run_fold_constants(function);
  };
  EXPECT_EQ(after(text, run).find("divide"), std::string::npos);
  EXPECT_EQ(after(text, run).find("reduce"), std::string::npos);
  expect_same_values(text, run);
}

// 65,537 sums would be a constant of the program that nobody wrote; an iota of that size is one op.
TEST(FoldConstants, LeavesLargeResults) {
  const std::string text = main_of("() -> tensor<131073xf32>", R"(
    %a = stablehlo.iota dim = 0 : tensor<131073xf32>
    %b = stablehlo.add %a, %a : tensor<131073xf32>
    return %b : tensor<131073xf32>)");
  EXPECT_EQ(after(text, run_fold_constants), printed(text));
}

TEST(WriteConstants, WritesIotasOfEverySizeAndNothingElse) {
  graph::Module module = parsed(main_of("() -> (tensor<65537xi32>, tensor<2xi32>)", R"(
    %a = stablehlo.iota dim = 0 : tensor<65537xi32>
    %b = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
    %c = stablehlo.add %b, %b : tensor<2xi32>
    return %a, %c : tensor<65537xi32>, tensor<2xi32>)"));
  EXPECT_EQ(fold_constants(module.entry(), /*fold_ops=*/false), 1);
}

}  // namespace
}  // namespace opentrn::compiler
