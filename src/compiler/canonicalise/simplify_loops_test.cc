#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

void run_simplify_loops(graph::Function& function) {
  simplify_loops(function);
  remove_dead_ops(function);
}

// exp(%y) is the same in every iteration, and %y is carried along as it is.
constexpr std::string_view kLoop = R"(
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %v = %x, %w = %y) : tensor<i32>, tensor<f32>, tensor<f32>
    cond {
      %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %e = stablehlo.exponential %w : tensor<f32>
      %sum = stablehlo.add %v, %e : tensor<f32>
      stablehlo.return %next, %sum, %w : tensor<i32>, tensor<f32>, tensor<f32>
    }
  return %r#1 : tensor<f32>)";

TEST(SimplifyLoops, MovesWhatDoesNotChangeInFrontOfTheLoop) {
  const std::string text = main_of("(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32>", kLoop);
  const std::string then = after(text, run_simplify_loops);
  EXPECT_LT(then.find("exponential"), then.find("while")) << then;
  expect_same_values(text, run_simplify_loops);
  graph::Module module = parsed(text);
  EXPECT_GT(simplify_loops(module.entry()), 0);
  EXPECT_EQ(simplify_loops(module.entry()), 0) << "a second run finds nothing more";
}

}  // namespace
}  // namespace opentrn::compiler
