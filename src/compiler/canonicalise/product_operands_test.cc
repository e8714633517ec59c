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
TEST(ReadNarrowOperands, ReadsThemInTheTypeThatTheyAreKeptIn) {
  graph::Module module = parsed(main_of("(%x: tensor<2x2xbf16>) -> tensor<2x2xbf16>", R"(
    %w = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
    %wide = stablehlo.convert %w : (tensor<2x2xi8>) -> tensor<2x2xbf16>
    %a = stablehlo.dot_general %x, %wide, contracting_dims = [1] x [0]
         : (tensor<2x2xbf16>, tensor<2x2xbf16>) -> tensor<2x2xbf16>
    return %a : tensor<2x2xbf16>)"));
  EXPECT_EQ(read_narrow_operands(module.entry()), 1);
  remove_dead_ops(module.entry());
  const std::string then = graph::print_module(module);
  EXPECT_EQ(then.find("convert"), std::string::npos) << then;
  EXPECT_NE(then.find("tensor<2x2xi8>) -> tensor<2x2xbf16>"), std::string::npos) << then;
}

// Columns of an argument lie as they are given; what is computed does not, and 16 bits are left.
TEST(ReadNarrowOperands, ReadsEightBitsOfArguments) {
  const auto count = [](const char* type, const char* made) {
    graph::Module module =
        parsed(main_of(fmt::format("(%x: tensor<2x2xf32>, %w: tensor<2x4x{}>) -> tensor<2x2xf32>", type),
                       fmt::format(R"(
    %part = {}
    %wide = stablehlo.convert %part : (tensor<2x2x{}>) -> tensor<2x2xf32>
    %a = stablehlo.dot_general %x, %wide, contracting_dims = [1] x [0]
         : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    return %a : tensor<2x2xf32>)",
                                   made, type)));
    return read_narrow_operands(module.entry());
  };
  const auto slice = [&](const char* type) {
    return count(
        type,
        fmt::format("stablehlo.slice %w [0:2, 1:3] : (tensor<2x4x{0}>) -> tensor<2x2x{0}>", type).c_str());
  };
  EXPECT_EQ(slice("i8"), 1);
  EXPECT_EQ(slice("f8E4M3"), 1);
  EXPECT_EQ(slice("bf16"), 0);
  EXPECT_EQ(slice("i32"), 0);
  EXPECT_EQ(count("i8", R"(stablehlo.slice %w [0:2, 1:3] : (tensor<2x4xi8>) -> tensor<2x2xi8>
    %part2 = stablehlo.add %part, %part : tensor<2x2xi8>)"),
            1);
}

// Keys and values of a decode step, wherever they lie; not of fp32, and not of few keys.
TEST(ReadNarrowOperands, ReadsKeysOfDecodeAttentionInFp8) {
  const auto read = [](const char* element, int keys, const char* kept) {
    graph::Module module = parsed(fmt::format(
        R"(module {{
  func.func public @main(%q: tensor<2x4x64x{0}>, %k: tensor<{1}x2x64x{2}>, %v: tensor<2x{1}x64x{2}>)
      -> tensor<2x4x64xf32> {{
    %0 = stablehlo.convert %k : (tensor<{1}x2x64x{2}>) -> tensor<{1}x2x64x{0}>
    %1 = stablehlo.transpose %0, dims = [1, 0, 2] : (tensor<{1}x2x64x{0}>) -> tensor<2x{1}x64x{0}>
    %2 = stablehlo.convert %v : (tensor<2x{1}x64x{2}>) -> tensor<2x{1}x64x{0}>
    %3 = stablehlo.composite "opentrn.attention" %q, %1, %2 {{composite_attributes = {{masks = [],
        scale = 1.0 : f64}}, decomposition = @f}} : (tensor<2x4x64x{0}>, tensor<2x{1}x64x{0}>, tensor<2x{1}x64x{0}>)
        -> tensor<2x4x64xf32>
    return %3 : tensor<2x4x64xf32>
  }}
  func.func private @f(%q: tensor<2x4x64x{0}>, %k: tensor<2x{1}x64x{0}>, %v: tensor<2x{1}x64x{0}>)
      -> tensor<2x4x64xf32> {{
    %0 = stablehlo.constant dense<0.0> : tensor<2x4x64xf32>
    return %0 : tensor<2x4x64xf32>
  }}
}})",
        element, keys, kept));
    const int64_t count = read_narrow_operands(module.entry());
    remove_dead_ops(module.entry());
    EXPECT_EQ(graph::print_module(module).find("convert") == std::string::npos, count == 2);
    return count;
  };
  EXPECT_EQ(read("bf16", 1024, "f8E4M3"), 2);
  EXPECT_EQ(read("f16", 512, "f8E5M2"), 2);
  EXPECT_EQ(read("f32", 1024, "f8E4M3"), 0);
  EXPECT_EQ(read("bf16", 256, "f8E4M3"), 0);
  EXPECT_EQ(read("bf16", 1024, "i8"), 0);
}

}  // namespace
}  // namespace opentrn::compiler
