#include "model/diff.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "graph/eval/tensor.h"
#include "graph/text/text.h"

namespace opentrn::model {
namespace {

using graph::ElementType;
using graph::Literal;

Literal literal(ElementType element, std::vector<double> values) {
  const auto count = static_cast<int64_t>(values.size());
  return graph::eval::to_literal(
      graph::eval::Tensor(graph::Type::tensor(element, std::vector<int64_t>{count}), std::move(values)));
}

Literal integers(std::vector<int64_t> values) {
  const auto count = static_cast<int64_t>(values.size());
  return graph::eval::to_literal(graph::eval::Tensor(
      graph::Type::tensor(ElementType::kI32, std::vector<int64_t>{count}), std::move(values)));
}

// What the one op of a program is judged to be when the device made `made` of `given`.
OpDiff judged(const std::string& op, const Literal& given, const Literal& made) {
  const std::string type = given.type().to_string();
  const compiler::ObservedValues observed = compiler::observe(
      graph::parse_module("func.func @main(%x: " + type + ") -> " + type + " {\n  %r = " + op + " : " + type +
                              "\n  return %r : " + type + "\n}\n",
                          "test"));
  const std::vector<graph::eval::RuntimeValue> arguments = {{given}};
  const auto whole =
      graph::eval::evaluate(observed.whole, observed.whole.entry(), arguments, {.float64 = true});
  return judge(observed, std::vector{given}, std::vector{made},
               std::vector{whole.at(observed.result_count).literal()})
      .at(0);
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();

TEST(Diff, OneRoundingIsExplained) {
  const double square = std::nextafterf(1.1f * 1.1f, 0);
  const OpDiff exact =
      judged("stablehlo.multiply %x, %x", literal(ElementType::kF32, {2}), literal(ElementType::kF32, {4}));
  EXPECT_EQ(exact.verdict, "exact");
  EXPECT_EQ(exact.of_limit, 0.0);
  const Literal x = literal(ElementType::kF32, {1.1f});
  EXPECT_EQ(judged("stablehlo.multiply %x, %x", x, literal(ElementType::kF32, {1.1f * 1.1f})).verdict,
            "rounding");
  const OpDiff two =
      judged("stablehlo.multiply %x, %x", x, literal(ElementType::kF32, {std::nextafterf(square, 0)}));
  EXPECT_EQ(two.verdict, "bug");
  EXPECT_GT(two.own_ulp, 1);
  EXPECT_GT(two.of_limit.value(), 2);
}

TEST(Diff, AFunctionMayBeSomeUnitsOff) {
  const Literal x = literal(ElementType::kF32, {0.5});
  const auto off_by = [&](int units) {
    auto value = static_cast<float>(std::tanh(0.5));
    for (int i = 0; i < units; ++i) value = std::nextafterf(value, 1);
    return judged("stablehlo.tanh %x", x, literal(ElementType::kF32, {value}));
  };
  EXPECT_EQ(off_by(4).verdict, "rounding");
  EXPECT_EQ(off_by(40).verdict, "bug");
}

TEST(Diff, IntegersAreExactOrWrong) {
  EXPECT_EQ(judged("stablehlo.add %x, %x", integers({1, 2}), integers({2, 4})).verdict, "exact");
  const OpDiff wrong = judged("stablehlo.add %x, %x", integers({1, 2, 3}), integers({2, 5, 7}));
  EXPECT_EQ(wrong.verdict, "bug");
  EXPECT_EQ(wrong.own_ulp, 2);  // elements
  EXPECT_EQ(wrong.of_limit, kInf);
  EXPECT_EQ(wrong.accumulated.max_abs, 1);
}

// Out of range on the same side, no number on both, and zero for what is below the smallest normal number.
TEST(Diff, SpecialValuesAreValues) {
  const Literal x = literal(ElementType::kBF16, {3e38, kNan, 4e-39, -0.0});
  EXPECT_EQ(judged("stablehlo.add %x, %x", x, literal(ElementType::kBF16, {kInf, kNan, 0, 0})).verdict,
            "exact");
  const OpDiff lost = judged("stablehlo.add %x, %x", x, literal(ElementType::kBF16, {kInf, 0, 0, 0}));
  EXPECT_EQ(lost.verdict, "bug");
  EXPECT_EQ(lost.accumulated.max_abs, kInf);
  EXPECT_EQ(judged("stablehlo.add %x, %x", x, literal(ElementType::kBF16, {-kInf, kNan, 0, 0})).verdict,
            "bug");
}

TEST(Diff, FusingMayRoundOtherwiseAndNoMore) {
  const Literal exact = literal(ElementType::kF64, {1.0, 1.5, 2.0}),
                kept = literal(ElementType::kF32, {1.0, 1.5, 2.0});
  const auto verdict = [&](double first) {
    return compare_result(literal(ElementType::kF32, {first, 1.5, 2.0}), kept, exact, ElementType::kF32);
  };
  EXPECT_TRUE(verdict(1.0).same_bits);
  EXPECT_EQ(verdict(1.0).verdict, "rounding");
  EXPECT_EQ(verdict(std::nextafterf(1, 2)).verdict, "rounding");
  EXPECT_FALSE(verdict(std::nextafterf(1, 2)).same_bits);
  EXPECT_EQ(verdict(1.001).verdict, "bug");
}

TEST(Diff, DistanceOfResults) {
  const Distance right = distance(literal(ElementType::kF32, {3, 4}), literal(ElementType::kF64, {3, 4}));
  EXPECT_EQ(right.relative_rms, 0);
  EXPECT_DOUBLE_EQ(right.cosine, 1);
  const Distance turned = distance(literal(ElementType::kF32, {4, -3}), literal(ElementType::kF64, {3, 4}));
  EXPECT_DOUBLE_EQ(turned.relative_rms, std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(turned.cosine, 0);
  EXPECT_EQ(distance(literal(ElementType::kF32, {1}), literal(ElementType::kF64, {0})).relative_rms, kInf);
}

}  // namespace
}  // namespace opentrn::model
