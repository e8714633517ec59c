#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

void fractions_compared(graph::Function& function) {
  compare_fractions(function);
  remove_dead_ops(function);
}

// Of words that count on, so that all 23 bits of some fractions lie near the number.
std::string drawn(const std::string& compare, const std::string& shift = "9") {
  return main_of("(%x: tensor<64xui32>) -> tensor<64xi1>", R"(
    %scale = stablehlo.constant dense<1073741824> : tensor<64xui32>
    %w = stablehlo.multiply %x, %scale : tensor<64xui32>
    %i = stablehlo.iota dim = 0 : tensor<64xui32>
    %steps = stablehlo.constant dense<512> : tensor<64xui32>
    %j = stablehlo.multiply %i, %steps : tensor<64xui32>
    %bits = stablehlo.add %w, %j : tensor<64xui32>
    %n = stablehlo.constant dense<)" + shift + R"(> : tensor<64xui32>
    %s = stablehlo.shift_right_logical %bits, %n : tensor<64xui32>
    %one = stablehlo.constant dense<1065353216> : tensor<64xui32>
    %o = stablehlo.or %s, %one : tensor<64xui32>
    %f = stablehlo.bitcast_convert %o : (tensor<64xui32>) -> tensor<64xf32>
    %c = stablehlo.constant dense<1.0> : tensor<64xf32>
    %d = stablehlo.subtract %f, %c : tensor<64xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<64xf32>
    %e = stablehlo.add %d, %zero : tensor<64xf32>
    %u = stablehlo.maximum %zero, %e : tensor<64xf32>
    )" + compare + R"(
    return %m : tensor<64xi1>)");
}

std::string against(const std::string& number, const std::string& direction, const std::string& operands) {
  return "%p = stablehlo.constant dense<" + number + "> : tensor<64xf32>\n    %m = stablehlo.compare " +
         direction + ", " + operands + " : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xi1>";
}

TEST(CompareFractions, AreComparedAsWholeNumbers) {
  for (const std::string direction : {"LT", "LE", "GT", "GE"})
    for (const std::string operands : {"%u, %p", "%p, %u"})
      // A fraction of the words, one between two of them, the ends and what lies outside.
      for (const std::string number : {"0.25000143", "0.2500015", "0.75", "0.0", "1.0", "-0.5", "3.0"}) {
        SCOPED_TRACE(direction + " " + operands + " " + number);
        const std::string text = drawn(against(number, direction, operands));
        EXPECT_EQ(after(text, fractions_compared).find("bitcast_convert"), std::string::npos);
        expect_same_values(text, fractions_compared);
      }
}

TEST(CompareFractions, OtherNumbersStay) {
  for (const std::string& text :
       {drawn(against("0.5", "EQ", "%u, %p")), drawn(against("0.5", "LT", "%u, %p"), "8")}) {
    EXPECT_NE(after(text, fractions_compared).find("bitcast_convert"), std::string::npos);
    expect_same_values(text, fractions_compared);
  }
}

}  // namespace
}  // namespace opentrn::compiler
