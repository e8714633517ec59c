#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

void products_hoisted(graph::Function& function) {
  hoist_products(function);
  remove_dead_ops(function);
}

// `body` makes %p, [2, 5], from the counter %i, the state %a and from %x, [9, 2, 3], %w, [3, 5], %v, [5, 3].
std::string scan(const std::string& body, const std::string& trips = "9") {
  return main_of(
      "(%x: tensor<9x2x3xf32>, %w: tensor<3x5xf32>, %v: tensor<5x3xf32>, %s: tensor<2x5xf32>) -> "
      "tensor<2x5xf32>",
      R"(%zero = stablehlo.constant dense<0> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %a = %s) : tensor<i32>, tensor<2x5xf32>
      cond {
        %n = stablehlo.constant dense<)" +
          trips + R"(> : tensor<i32>
        %go = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        )" +
          body + R"(
        %half = stablehlo.constant dense<0.5> : tensor<2x5xf32>
        %m = stablehlo.multiply %a, %half : tensor<2x5xf32>
        %t = stablehlo.add %m, %p : tensor<2x5xf32>
        %next = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %next, %t : tensor<i32>, tensor<2x5xf32>
      }
    return %r#1 : tensor<2x5xf32>)");
}

const std::string kSlice = R"(%d = stablehlo.dynamic_slice %x, %i, %zero, %zero, sizes = [1, 2, 3]
             : (tensor<9x2x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x3xf32>
        %e = stablehlo.reshape %d : (tensor<1x2x3xf32>) -> tensor<2x3xf32>
)";

// Whether the first product stands in front of the loop.
bool is_in_front(const std::string& text) {
  const std::string made = after(text, products_hoisted);
  return made.find("dot_general") < made.find("stablehlo.while");
}

TEST(HoistProducts, OfSlicesByWeightsThatStay) {
  const std::string texts[] = {
      scan(kSlice + R"(%p = stablehlo.dot_general %e, %w, contracting_dims = [1] x [0]
             : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>)"),
      scan(kSlice + R"(%p = stablehlo.dot_general %e, %v, contracting_dims = [1] x [1]
             : (tensor<2x3xf32>, tensor<5x3xf32>) -> tensor<2x5xf32>)"),
      scan(R"(%eight = stablehlo.constant dense<8> : tensor<i32>
        %back = stablehlo.subtract %eight, %i : tensor<i32>
        %d = stablehlo.dynamic_slice %x, %back, %i, %i, sizes = [1, 2, 3]
             : (tensor<9x2x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x3xf32>
        %e = stablehlo.reshape %d : (tensor<1x2x3xf32>) -> tensor<2x3xf32>
        %p = stablehlo.dot_general %e, %w, contracting_dims = [1] x [0]
             : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>)"),
  };
  for (const std::string& text : texts) {
    EXPECT_TRUE(is_in_front(text)) << after(text, products_hoisted);
    expect_same_values(text, products_hoisted);
  }
}

TEST(HoistProducts, ThroughConversions) {
  const std::string text = scan(kSlice + R"(%c = stablehlo.convert %e : (tensor<2x3xf32>) -> tensor<2x3xbf16>
        %wc = stablehlo.convert %w : (tensor<3x5xf32>) -> tensor<3x5xbf16>
        %q = stablehlo.dot_general %c, %wc, contracting_dims = [1] x [0]
             : (tensor<2x3xbf16>, tensor<3x5xbf16>) -> tensor<2x5xbf16>
        %p = stablehlo.convert %q : (tensor<2x5xbf16>) -> tensor<2x5xf32>)");
  const auto both = [](graph::Function& function) {
    simplify_loops(function);  // the weights' conversion
    products_hoisted(function);
  };
  const std::string made = after(text, both);
  EXPECT_LT(made.find("dot_general"), made.find("stablehlo.while")) << made;
  expect_same_values(text, both);
}

// The state is not outside; few of the rows are read.
TEST(HoistProducts, LeavesOthers) {
  const std::string product = R"(%p = stablehlo.dot_general %e, %w, contracting_dims = [1] x [0]
             : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>)";
  const std::string texts[] = {
      scan(R"(%q = stablehlo.dot_general %a, %v, contracting_dims = [1] x [0]
             : (tensor<2x5xf32>, tensor<5x3xf32>) -> tensor<2x3xf32>
        %p = stablehlo.dot_general %q, %w, contracting_dims = [1] x [0]
             : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>)"),
      scan(kSlice + product, "4"),
  };
  for (const std::string& text : texts) EXPECT_FALSE(is_in_front(text)) << after(text, products_hoisted);
}

}  // namespace
}  // namespace opentrn::compiler
