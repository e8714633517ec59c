#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

constexpr PassCase kRemoveDeadOpsCases[] = {
    {"chains", "(%x: tensor<2xf32>) -> tensor<2xf32>",
     R"(%a = stablehlo.exponential %x : tensor<2xf32>
        %b = stablehlo.negate %a : tensor<2xf32>
        return %x : tensor<2xf32>)",
     "return %x : tensor<2xf32>"},
    {"half_read_loops", "(%x: tensor<f32>) -> tensor<i32>",
     R"(%zero = stablehlo.constant dense<0> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<f32>
          cond {
            %n = stablehlo.constant dense<3> : tensor<i32>
            %dead = stablehlo.negate %v : tensor<f32>
            %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do {
            %next = stablehlo.add %i, %one : tensor<i32>
            stablehlo.return %next, %v : tensor<i32>, tensor<f32>
          }
        return %r#0 : tensor<i32>)",
     R"(%zero = stablehlo.constant dense<0> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<f32>
          cond {
            %n = stablehlo.constant dense<3> : tensor<i32>
            %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do {
            %next = stablehlo.add %i, %one : tensor<i32>
            stablehlo.return %next, %v : tensor<i32>, tensor<f32>
          }
        return %r#0 : tensor<i32>)"},
};

TEST(RemoveDeadOps, DropsWhatNobodyReads) { expect_cases(kRemoveDeadOpsCases, remove_dead_ops); }

TEST(RemoveDeadOps, KeepsWhatDoesSomethingElse) {
  const std::string text = main_of("(%x: tensor<2xf32>, %t: !stablehlo.token) -> tensor<2xf32>", R"(
    %a = "stablehlo.outfeed"(%x, %t) : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
    return %x : tensor<2xf32>)");
  EXPECT_EQ(after(text, remove_dead_ops), printed(text));
}

}  // namespace
}  // namespace opentrn::compiler
