#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

void run_known_slices(graph::Function& function) {
  slice_at_known_places(function);
  remove_dead_ops(function);
}

constexpr PassCase kKnownSlicesCases[] = {
    {"dynamic_slice", "(%x: tensor<8xf32>) -> tensor<3xf32>",
     R"(%at = stablehlo.constant dense<2> : tensor<i32>
        %a = stablehlo.dynamic_slice %x, %at, sizes = [3] : (tensor<8xf32>, tensor<i32>) -> tensor<3xf32>
        return %a : tensor<3xf32>)",
     R"(%a = stablehlo.slice %x [2:5] : (tensor<8xf32>) -> tensor<3xf32>
        return %a : tensor<3xf32>)"},
    // Beyond the end, a dynamic_slice begins where it still fits.
    {"clamped", "(%x: tensor<8xf32>) -> tensor<3xf32>",
     R"(%at = stablehlo.constant dense<7> : tensor<i32>
        %a = stablehlo.dynamic_slice %x, %at, sizes = [3] : (tensor<8xf32>, tensor<i32>) -> tensor<3xf32>
        return %a : tensor<3xf32>)",
     R"(%a = stablehlo.slice %x [5:8] : (tensor<8xf32>) -> tensor<3xf32>
        return %a : tensor<3xf32>)"},
};

TEST(SliceAtKnownPlaces, WritesSlices) { expect_cases(kKnownSlicesCases, run_known_slices); }

// x[:, (0, 2, 4)] as frameworks write it.
TEST(SliceAtKnownPlaces, TakesGathersOfEqualSteps) {
  const std::string text = main_of("(%x: tensor<2x6xf32>) -> tensor<2x3xf32>", R"(
    %at = stablehlo.constant dense<[[0], [2], [4]]> : tensor<3x1xi32>
    %a = "stablehlo.gather"(%x, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [0],
      collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>,
      slice_sizes = array<i64: 2, 1>}> : (tensor<2x6xf32>, tensor<3x1xi32>) -> tensor<2x3xf32>
    return %a : tensor<2x3xf32>)");
  EXPECT_EQ(after(text, run_known_slices).find("gather"), std::string::npos);
  expect_same_values(text, run_known_slices);
}

TEST(SliceAtKnownPlaces, LeavesGathersOfUnequalSteps) {
  const std::string text = main_of("(%x: tensor<6xf32>) -> tensor<3xf32>", R"(
    %at = stablehlo.constant dense<[[0], [1], [4]]> : tensor<3x1xi32>
    %a = "stablehlo.gather"(%x, %at) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
      start_index_map = [0], index_vector_dim = 1>,
      slice_sizes = array<i64: 1>}> : (tensor<6xf32>, tensor<3x1xi32>) -> tensor<3xf32>
    return %a : tensor<3xf32>)");
  EXPECT_EQ(after(text, run_known_slices), printed(text));
}

}  // namespace
}  // namespace opentrn::compiler
