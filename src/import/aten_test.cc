// Rules for ATen's ops: programs that are read back and evaluated.
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "graph/eval/evaluate.h"
#include "import/aten/rules.h"
#include "import/load.h"

namespace opentrn::import::aten {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr ElementType kF32 = ElementType::kF32;
constexpr ElementType kI32 = ElementType::kI32;
constexpr ElementType kI64 = ElementType::kI64;

Arg number(int64_t value) { return {Number(value)}; }

Arg list(const Shape& values) {
  std::vector<Arg> parts;
  for (const int64_t value : values) parts.push_back(number(value));
  return {std::move(parts)};
}

// The op's results; `named` are arguments by their schema's names, behind those without.
Results written(Body& body, std::string_view op, std::vector<Spec> outs, std::vector<Arg> arguments,
                const std::vector<std::pair<std::string, Arg>>& named = {}) {
  Call call{body, std::move(outs), std::vector<std::string>(arguments.size()), std::move(arguments)};
  for (const auto& [name, value] : named) {
    call.names.push_back(name);
    call.arguments.push_back(value);
  }
  return rules().find(op)->second(call);
}

template <typename Element>
std::vector<Element> evaluated(const Body& body, const Value& result) {
  std::string text = fmt::format("module @m {{\nfunc.func public @main() -> ({}) {{\n", result.type());
  for (const std::string& line : body.lines()) text += line + "\n";
  text += fmt::format("return {} : {}\n}}\n}}\n", result.name, result.type());
  const graph::Module module = load_text(text, "test");
  const graph::Literal literal =
      graph::eval::evaluate(module, module.entry(), std::vector<graph::eval::RuntimeValue>{})[0].literal();
  std::vector<Element> elements(literal.bytes().size() / sizeof(Element));
  std::memcpy(elements.data(), literal.bytes().data(), literal.bytes().size());
  return elements;
}

Value floats(Body& body, const Shape& shape, const std::vector<float>& elements) {
  return body.constant(shape, elements);
}

TEST(AtenLiterals, AreTheBitsThatTorchGives) {
  EXPECT_EQ(literal(1.5, kF32), "0x3FC00000");
  EXPECT_EQ(literal(int64_t{1}, ElementType::kBF16), "0x3F80");
  EXPECT_EQ(literal(1e9, ElementType::kF16), "0x7C00");
  EXPECT_EQ(literal(std::numeric_limits<double>::quiet_NaN(), ElementType::kBF16), "0x7FC0");
  EXPECT_EQ(literal(std::complex<double>(1, -1), ElementType::kComplexF32), "(0x3F800000, 0xBF800000)");
  EXPECT_EQ(literal(2.7, ElementType::kI1), "true");
  EXPECT_EQ(literal(-2.7, kI32), "-2");
}

TEST(AtenLiterals, WholeNumbersKeepTheirLowBitsOrAreRefused) {
  EXPECT_EQ(literal(int64_t{300}, ElementType::kUI8), "44");
  EXPECT_EQ(literal(int64_t{-129}, ElementType::kI8), "127");
  try {
    literal(int64_t{1} << 31, kI64);
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "torch.range");
    EXPECT_THAT(fault.message(), HasSubstr("2147483648"));
  }
}

TEST(AtenBody, OneConstantForEachValueAndType) {
  Body body;
  const Value first = body.splat(1, kF32, {2});
  EXPECT_EQ(body.splat(1.0, kF32, {2}).name, first.name);
  EXPECT_NE(body.splat(1, kF32).name, first.name);
  EXPECT_EQ(body.lines().size(), 2u);
}

TEST(AtenBody, AnOpenBlockHasItsOwnLinesAndConstants) {
  Body body;
  const Value outer = body.splat(1, kF32);
  const auto given = body.open_block({{{}, kF32}});
  const Value inner = body.splat(2, kF32);
  const std::string text = body.close_block({body.add(given[0], inner)});
  EXPECT_THAT(text, HasSubstr("^bb0(" + given[0].name + ": tensor<f32>)"));
  EXPECT_EQ(body.lines().size(), 1u);
  EXPECT_NE(body.splat(2, kF32).name, inner.name);  // what a region made is not seen outside
  EXPECT_EQ(body.splat(1, kF32).name, outer.name);
}

TEST(AtenRules, MaximaAloneAreOneReduction) {
  const Spec best{{1, 1, 2, 2}, kF32, {}};
  const Spec places{{1, 1, 2, 2}, kI64, {}};
  for (const bool reads_places : {true, false}) {
    Body body;
    const Value value = floats(body, {1, 1, 3, 3}, {1, 5, 2, 4, 3, 9, 8, 7, 6});
    if (!reads_places) body.read = std::set<int64_t>{0};
    const auto made = written(body, "max_pool2d_with_indices.default", {best, places},
                              {{value}, list({2, 2}), list({1, 1}), list({0, 0}), list({1, 1})});
    EXPECT_THAT(evaluated<float>(body, *made[0]), ElementsAre(5, 9, 8, 9));
    EXPECT_EQ(made[1].has_value(), reads_places);
    if (reads_places) {
      EXPECT_THAT(evaluated<int64_t>(body, *made[1]), ElementsAre(1, 5, 6, 5));
    }
  }
}

TEST(AtenRules, AveragesCountWhatTheirWindowsHold) {
  Body body;
  const Value value = floats(body, {1, 1, 2, 2}, {1, 2, 3, 4});
  const auto made = written(body, "avg_pool2d.default", {{{1, 1, 2, 2}, kF32, {}}},
                            {{value}, list({2, 2}), list({2, 2}), list({1, 1})},
                            {{"count_include_pad", {Number(false)}}, {"divisor_override", {}}});
  EXPECT_THAT(evaluated<float>(body, *made[0]), ElementsAre(1, 2, 3, 4));
}

TEST(AtenRules, APartOfMemoryIsABoxOrASelection) {
  for (const int64_t step : {1, 2}) {
    Body body;
    const Value value = floats(body, {4}, {0, 1, 2, 3});
    const Value part = floats(body, {2}, {8, 9});
    const auto made = written(body, "as_strided_scatter.default", {{{4}, kF32, {1}}},
                              {{value}, {part}, list({2}), list({step}), number(1)});
    const std::vector<float> wanted =
        step == 1 ? std::vector<float>{0, 8, 9, 3} : std::vector<float>{0, 8, 2, 9};
    EXPECT_EQ(evaluated<float>(body, *made[0]), wanted);
    EXPECT_EQ(body.lines().back().find("dynamic_update_slice") != std::string::npos, step == 1);
  }
}

TEST(AtenRules, NaNIsTheGreatestWhereValuesAreSorted) {
  Body body;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Value value = floats(body, {3}, {nan, 2, 1});
  const auto [made, where] = sorted_with_places(body, value, 0, false);
  EXPECT_THAT(evaluated<int32_t>(body, where), ElementsAre(2, 1, 0));
  EXPECT_THAT(evaluated<float>(body, made), ElementsAre(1, 2, testing::NanSensitiveFloatEq(nan)));
}

TEST(AtenRules, AMaskAmongIndicesIsRefused) {
  Body body;
  const Value value = floats(body, {2}, {1, 2});
  const Value mask = body.constant(Shape{2}, std::vector<bool>{true, false});
  try {
    joint_places(body, value, {Arg{mask}});
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "torch.no_emitter");
  }
}

}  // namespace
}  // namespace opentrn::import::aten
