#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

constexpr PassCase kProductOperandsCases[] = {
    {"bf16_by_f32", "(%x: tensor<2x3xbf16>, %w: tensor<3x4xf32>) -> tensor<2x4xf32>",
     R"(%a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
             : (tensor<2x3xbf16>, tensor<3x4xf32>) -> tensor<2x4xf32>
        return %a : tensor<2x4xf32>)",
     R"(%b = stablehlo.convert %x : (tensor<2x3xbf16>) -> tensor<2x3xf32>
        %a = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0]
             : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
        return %a : tensor<2x4xf32>)"},
    // Neither holds the numbers of the other.
    {"bf16_by_f16", "(%x: tensor<2x3xbf16>, %w: tensor<3x4xf16>) -> tensor<2x4xf32>",
     R"(%a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
             : (tensor<2x3xbf16>, tensor<3x4xf16>) -> tensor<2x4xf32>
        return %a : tensor<2x4xf32>)",
     R"(%b = stablehlo.convert %x : (tensor<2x3xbf16>) -> tensor<2x3xf32>
        %c = stablehlo.convert %w : (tensor<3x4xf16>) -> tensor<3x4xf32>
        %a = stablehlo.dot_general %b, %c, contracting_dims = [1] x [0]
             : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
        return %a : tensor<2x4xf32>)"},
};

TEST(WidenProductOperands, GivesThemOneType) { expect_cases(kProductOperandsCases, widen_product_operands); }

// dot_general(x, convert(constant)) reads the constant itself, which verify() does not allow: text of it
// alone.
TEST(ReadNarrowConstants, ReadsThemInTheTypeThatTheyAreKeptIn) {
  graph::Module module = parsed(main_of("(%x: tensor<2x2xbf16>) -> tensor<2x2xbf16>", R"(
    %w = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
    %wide = stablehlo.convert %w : (tensor<2x2xi8>) -> tensor<2x2xbf16>
    %a = stablehlo.dot_general %x, %wide, contracting_dims = [1] x [0]
         : (tensor<2x2xbf16>, tensor<2x2xbf16>) -> tensor<2x2xbf16>
    return %a : tensor<2x2xbf16>)"));
  EXPECT_EQ(read_narrow_constants(module.entry()), 1);
  remove_dead_ops(module.entry());
  const std::string then = graph::print_module(module);
  EXPECT_EQ(then.find("convert"), std::string::npos) << then;
  EXPECT_NE(then.find("tensor<2x2xi8>) -> tensor<2x2xbf16>"), std::string::npos) << then;
}

}  // namespace
}  // namespace opentrn::compiler
