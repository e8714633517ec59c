#include <fmt/format.h>

#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

// A loop over `trips` rows of x and y [12, 5] that carries c [5] and gives all rows of it, from the row that
// `index` says; `next` makes %n of %c, %a and %b, the rows of x and y.
std::string loop_of(const std::string& next, const std::string& index = "%i", int trips = 12) {
  return main_of(
      "(%x: tensor<12x5xf32>, %y: tensor<12x5xf32>, %c0: tensor<5xf32>) -> (tensor<5xf32>, "
      "tensor<12x5xf32>)",
      fmt::format(R"(
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %end = stablehlo.constant dense<11> : tensor<i32>
    %f1 = stablehlo.constant dense<1.0> : tensor<5xf32>
    %empty = stablehlo.constant dense<0.0> : tensor<12x5xf32>
    %r:3 = stablehlo.while(%i = %zero, %c = %c0, %s = %empty)
         : tensor<i32>, tensor<5xf32>, tensor<12x5xf32>
      cond {{
        %m = stablehlo.constant dense<{2}> : tensor<i32>
        %go = stablehlo.compare LT, %i, %m, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      }} do {{
        %down = stablehlo.subtract %end, %i : tensor<i32>
        %a1 = stablehlo.dynamic_slice %x, {1}, %zero, sizes = [1, 5]
            : (tensor<12x5xf32>, tensor<i32>, tensor<i32>) -> tensor<1x5xf32>
        %a = stablehlo.reshape %a1 : (tensor<1x5xf32>) -> tensor<5xf32>
        %b1 = stablehlo.dynamic_slice %y, {1}, %zero, sizes = [1, 5]
            : (tensor<12x5xf32>, tensor<i32>, tensor<i32>) -> tensor<1x5xf32>
        %b = stablehlo.reshape %b1 : (tensor<1x5xf32>) -> tensor<5xf32>
        {0}
        %t = stablehlo.add %n, %c : tensor<5xf32>
        %row = stablehlo.reshape %t : (tensor<5xf32>) -> tensor<1x5xf32>
        %s1 = stablehlo.dynamic_update_slice %s, %row, {1}, %zero
            : (tensor<12x5xf32>, tensor<1x5xf32>, tensor<i32>, tensor<i32>) -> tensor<12x5xf32>
        %next = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %next, %n, %s1 : tensor<i32>, tensor<5xf32>, tensor<12x5xf32>
      }}
    return %r#1, %r#2 : tensor<5xf32>, tensor<12x5xf32>)",
                  next, index, trips));
}

void unfolded(graph::Function& function) {
  unfold_recurrences(function);
  remove_dead_ops(function);
}

bool is_unfolded(const std::string& text) {
  return after(text, unfolded).find("stablehlo.while") == std::string::npos;
}

constexpr const char* kLinear[] = {
    "%p = stablehlo.multiply %c, %a : tensor<5xf32>\n%n = stablehlo.add %p, %b : tensor<5xf32>",
    "%q = stablehlo.subtract %f1, %a : tensor<5xf32>\n%p = stablehlo.multiply %q, %c : tensor<5xf32>\n"
    "%u = stablehlo.tanh %b : tensor<5xf32>\n%v = stablehlo.multiply %a, %u : tensor<5xf32>\n"
    "%n = stablehlo.add %v, %p : tensor<5xf32>",
    "%p = stablehlo.subtract %a, %c : tensor<5xf32>\n%n = stablehlo.multiply %p, %b : tensor<5xf32>",
    "%n = stablehlo.add %c, %a : tensor<5xf32>",
    "%p = stablehlo.negate %c : tensor<5xf32>\n%q = stablehlo.reshape %p : (tensor<5xf32>) -> "
    "tensor<5x1xf32>\n"
    "%n = stablehlo.reshape %q : (tensor<5x1xf32>) -> tensor<5xf32>",
};
constexpr const char* kPaths[] = {
    "%p = stablehlo.add %c, %a : tensor<5xf32>\n%n = stablehlo.minimum %p, %b : tensor<5xf32>",
    "%p = stablehlo.maximum %c, %a : tensor<5xf32>\n%n = stablehlo.subtract %p, %b : tensor<5xf32>",
};

TEST(UnfoldRecurrences, LinearOnesInBothDirections) {
  for (const char* next : kLinear)
    for (const char* index : {"%i", "%down"}) {
      const std::string text = loop_of(next, index);
      EXPECT_TRUE(is_unfolded(text)) << text;
      expect_same_values(text, unfolded, 1e-5, 1);
    }
}

TEST(UnfoldRecurrences, ExtremesOfSums) {
  for (const char* next : kPaths)
    for (const char* index : {"%i", "%down"}) {
      EXPECT_TRUE(is_unfolded(loop_of(next, index))) << next;
      expect_same_values(loop_of(next, index), unfolded, 1e-5);
    }
}

TEST(UnfoldRecurrences, OthersStay) {
  for (const char* next : {
           "%n = stablehlo.tanh %c : tensor<5xf32>",
           "%n = stablehlo.multiply %c, %c : tensor<5xf32>",
           "%p = stablehlo.add %c, %a : tensor<5xf32>\n%n = stablehlo.multiply %p, %c : tensor<5xf32>",
           "%p = stablehlo.maximum %c, %a : tensor<5xf32>\n%n = stablehlo.minimum %p, %b : tensor<5xf32>",
       })
    EXPECT_EQ(after(loop_of(next), unfold_recurrences), printed(loop_of(next)));
}

// Rows that no iteration writes stay what they were, and short loops are unrolled elsewhere.
TEST(UnfoldRecurrences, PartsStay) {
  EXPECT_FALSE(is_unfolded(loop_of(kLinear[0], "%i", 9)));
  EXPECT_FALSE(is_unfolded(loop_of(kLinear[0], "%i", 7)));
  EXPECT_FALSE(is_unfolded(loop_of(kLinear[0], "%one")));
}

}  // namespace
}  // namespace opentrn::compiler
