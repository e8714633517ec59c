#include "compiler/canonicalise/known_positions.h"

#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

void run_known_positions(graph::Function& function) {
  number_positions(function);
  remove_dead_ops(function);
}

// The counters of random bits, as JAX writes them.
constexpr const char* kCounters = R"(
    %i = stablehlo.iota dim = 0 : tensor<600x300xui64>
    %j = stablehlo.iota dim = 1 : tensor<600x300xui64>
    %s = stablehlo.constant dense<STRIDE> : tensor<600x300xui64>
    %m = stablehlo.multiply %s, %i : tensor<600x300xui64>
    %n = stablehlo.add %m, %j : tensor<600x300xui64>
    %w = stablehlo.constant dense<32> : tensor<600x300xui64>
    %h = stablehlo.shift_right_logical %n, %w : tensor<600x300xui64>
    %a = stablehlo.convert %n : (tensor<600x300xui64>) -> tensor<600x300xui32>
    %b = stablehlo.convert %h : (tensor<600x300xui64>) -> tensor<600x300xui32>
    return %a, %b : tensor<600x300xui32>, tensor<600x300xui32>)";

std::string counters(const std::string& stride) {
  std::string text = kCounters;
  text.replace(text.find("STRIDE"), 6, stride);
  return main_of("() -> (tensor<600x300xui32>, tensor<600x300xui32>)", text.c_str());
}

TEST(KnownPositions, CountersAreOneIota) {
  const std::string made = after(counters("300"), run_known_positions);
  EXPECT_EQ(made.find("multiply"), std::string::npos) << made;
  EXPECT_EQ(made.find("shift_right"), std::string::npos) << made;
  EXPECT_NE(made.find("iota dim = 0 : tensor<180000xui32>"), std::string::npos) << made;
  expect_same_values(counters("300"), run_known_positions);
}

TEST(KnownPositions, OtherStridesStay) {
  const std::string made = after(counters("301"), run_known_positions);
  EXPECT_NE(made.find("multiply"), std::string::npos) << made;
  expect_same_values(counters("301"), run_known_positions);
}

// Beyond 32 bits the upper word is not zero.
TEST(KnownPositions, LargeNumbersStay) {
  const std::string made = after(counters("8589934592"), run_known_positions);
  EXPECT_NE(made.find("shift_right"), std::string::npos) << made;
  expect_same_values(counters("8589934592"), run_known_positions);
}

}  // namespace
}  // namespace opentrn::compiler
