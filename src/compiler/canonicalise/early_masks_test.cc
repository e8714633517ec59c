#include <fmt/format.h>

#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

// A mask of so many ops over [128, 128], of a counter and the number %key, and what is read beside it.
std::string program(int ops, const std::string& key = "%k") {
  std::string text = fmt::format(R"(
    %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
         : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
    %b = stablehlo.reshape {} : (tensor<1xui32>) -> tensor<ui32>
    %m0 = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<ui32>) -> tensor<128x128xui32>
    %i = stablehlo.iota dim = 1 : tensor<128x128xui32>)",
                                 key);
  for (int i = 1; i <= ops; ++i)
    text += fmt::format("\n    %m{} = stablehlo.{} %m{}, %i : tensor<128x128xui32>", i, i % 2 ? "add" : "xor",
                        i - 1);
  return main_of(
      "(%x: tensor<128x128xf32>, %w: tensor<128x128xf32>, %k: tensor<1xui32>) -> tensor<128x128xf32>",
      text + fmt::format(R"(
    %small = stablehlo.constant dense<60> : tensor<128x128xui32>
    %mask = stablehlo.compare LT, %m{}, %small, UNSIGNED
            : (tensor<128x128xui32>, tensor<128x128xui32>) -> tensor<128x128xi1>
    %q = stablehlo.dot_general %p, %w, contracting_dims = [1] x [0]
         : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<128x128xf32>
    %r = stablehlo.select %mask, %q, %zero : tensor<128x128xi1>, tensor<128x128xf32>
    return %r : tensor<128x128xf32>)",
                         ops));
}

void early(graph::Function& function) { make_masks_early(function); }

bool is_early(const std::string& text) {
  const std::string made = after(text, early);
  return made.find("compare") < made.find("dot_general");
}

TEST(MakeMasksEarly, LongChainsGoInFrontOfTheProductBefore) {
  EXPECT_TRUE(is_early(program(40)));
  expect_same_values(program(40), early);
}

TEST(MakeMasksEarly, ShortOnesStay) { EXPECT_FALSE(is_early(program(8))); }

// What depends on the product cannot go in front of it.
TEST(MakeMasksEarly, WhatReadsTheProductStays) {
  std::string text = program(40, "%c");
  text.insert(text.find("    %b ="),
              R"(    %t = stablehlo.slice %p [0:1, 0:1] : (tensor<128x128xf32>) -> tensor<1x1xf32>
    %h = stablehlo.reshape %t : (tensor<1x1xf32>) -> tensor<1xf32>
    %c = stablehlo.convert %h : (tensor<1xf32>) -> tensor<1xui32>
)");
  EXPECT_FALSE(is_early(text));
}

// A second pass finds nothing.
TEST(MakeMasksEarly, Once) {
  graph::Module module = passed(program(40), early);
  EXPECT_EQ(make_masks_early(module.entry()), 0);
}

}  // namespace
}  // namespace opentrn::compiler
