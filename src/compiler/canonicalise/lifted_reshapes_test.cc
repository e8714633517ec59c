#include <fmt/format.h>

#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

// Rows of `columns` elements, less a number of each row, as images of so many channels a row.
std::string norm(int64_t rows, int64_t columns, int64_t channels, const std::string& body = "") {
  const std::string image = fmt::format("1x{}x{}", rows * channels, columns / channels);
  const std::string whole = fmt::format("1x{}x{}", rows, columns);
  return main_of(
      fmt::format("(%x: tensor<{0}xf32>, %m: tensor<1x{1}xf32>, %w: tensor<{0}xf32>) -> tensor<{0}xf32>",
                  image, rows),
      fmt::format(R"(
    %r = stablehlo.reshape %x : (tensor<{0}xf32>) -> tensor<{1}xf32>
    %b = stablehlo.broadcast_in_dim %m, dims = [0, 1] : (tensor<1x{2}xf32>) -> tensor<{1}xf32>
    %d = stablehlo.subtract %r, %b : tensor<{1}xf32>
    {3}
    %s = stablehlo.reshape %d : (tensor<{1}xf32>) -> tensor<{0}xf32>
    %y = stablehlo.multiply %s, %w : tensor<{0}xf32>
    return %y : tensor<{0}xf32>)",
                  image, whole, rows, body));
}

void lift(graph::Function& function) { lift_reshapes(function); }

int64_t lifted(const std::string& text) {
  graph::Module module = parsed(text);
  return lift_reshapes(module.entry());
}

TEST(LiftReshapes, NumbersOfLongRowsAreSpreadOverImages) {
  const std::string made = after(norm(4, 16384, 8), lift);
  EXPECT_NE(made.find("subtract %arg0"), std::string::npos) << made;
  EXPECT_EQ(made.find("tensor<1x4x16384xf32>, tensor<1x4x16384xf32>"), std::string::npos) << made;
  expect_same_values(norm(4, 16384, 8), lift);
}

// A kernel holds short rows, and what it sums of them and computes with the sums is one kernel.
TEST(LiftReshapes, ShortRowsStay) { EXPECT_EQ(lifted(norm(64, 4096, 8)), 0); }

TEST(LiftReshapes, SmallValuesStay) { EXPECT_EQ(lifted(norm(1, 16384, 8)), 0); }

// Dimensions that do not meet: three rows of a number as four channels.
TEST(LiftReshapes, RowsThatEndWithinAChannelStay) {
  const std::string text = main_of("(%x: tensor<4x24576xf32>, %m: tensor<3xf32>) -> tensor<4x24576xf32>", R"(
    %r = stablehlo.reshape %x : (tensor<4x24576xf32>) -> tensor<3x32768xf32>
    %b = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<3xf32>) -> tensor<3x32768xf32>
    %d = stablehlo.subtract %r, %b : tensor<3x32768xf32>
    %s = stablehlo.reshape %d : (tensor<3x32768xf32>) -> tensor<4x24576xf32>
    %y = stablehlo.negate %s : tensor<4x24576xf32>
    return %y : tensor<4x24576xf32>)");
  EXPECT_EQ(lifted(text), 0);
}

// The weights of a row's end, and numbers of its beginning, of a type that is converted on the way.
TEST(LiftReshapes, BothEndsOfRows) {
  const std::string text = main_of(
      "(%x: tensor<2x16384x12xbf16>, %a: tensor<2xf32>, %w: tensor<4xf32>) -> tensor<2x65536x3xf32>", R"(
    %c = stablehlo.convert %x : (tensor<2x16384x12xbf16>) -> tensor<2x16384x12xf32>
    %r = stablehlo.reshape %c : (tensor<2x16384x12xf32>) -> tensor<2x49152x4xf32>
    %b = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<2xf32>) -> tensor<2x49152x4xf32>
    %e = stablehlo.broadcast_in_dim %w, dims = [2] : (tensor<4xf32>) -> tensor<2x49152x4xf32>
    %d = stablehlo.subtract %r, %b : tensor<2x49152x4xf32>
    %f = stablehlo.multiply %d, %d : tensor<2x49152x4xf32>
    %g = stablehlo.multiply %f, %e : tensor<2x49152x4xf32>
    %s = stablehlo.reshape %g : (tensor<2x49152x4xf32>) -> tensor<2x65536x3xf32>
    %y = stablehlo.negate %s : tensor<2x65536x3xf32>
    return %y : tensor<2x65536x3xf32>)");
  EXPECT_EQ(lifted(text), 0);  // four weights do not go over three columns
  std::string even = text;
  for (size_t at = 0; (at = even.find("65536x3", at)) != std::string::npos;) even.replace(at, 7, "24576x8");
  EXPECT_EQ(lifted(even), 1);
  expect_same_values(even, lift);
}

// Once it is lifted nothing is left to lift.
TEST(LiftReshapes, Once) {
  graph::Module module = passed(norm(4, 16384, 8), lift);
  EXPECT_EQ(lift_reshapes(module.entry()), 0);
}

}  // namespace
}  // namespace opentrn::compiler
