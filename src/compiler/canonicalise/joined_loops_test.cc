#include <array>

#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

void loops_joined(graph::Function& function) {
  join_loops(function);
  remove_dead_ops(function);
}

struct Loop {
  std::string value, start, body;  // `body` makes %s from %i and %a
  std::string bound = "5", step = "1";
};

// Gives %VALUE#0, its counter, and %VALUE#1. Carries one tensor<2x3xf32>.
std::string written(const Loop& loop) {
  std::string text = R"(
    %zeroNAME = stablehlo.constant dense<0> : tensor<i32>
    %NAME:2 = stablehlo.while(%i = %zeroNAME, %a = START) : tensor<i32>, tensor<2x3xf32>
      cond {
        %n = stablehlo.constant dense<BOUND> : tensor<i32>
        %go = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      } do {
        %one = stablehlo.constant dense<STEP> : tensor<i32>
        BODY
        %next = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %next, %s : tensor<i32>, tensor<2x3xf32>
      })";
  const std::array<std::pair<std::string, std::string>, 5> words{{{"NAME", loop.value},
                                                                  {"START", loop.start},
                                                                  {"BOUND", loop.bound},
                                                                  {"STEP", loop.step},
                                                                  {"BODY", loop.body}}};
  for (const auto& [word, by] : words)
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size()))
      text.replace(at, word.size(), by);
  return text + "\n";
}

const std::string kAdds = R"(%f = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
        %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
        %s = stablehlo.add %a, %b : tensor<2x3xf32>)";
const std::string kHalves = R"(%h = stablehlo.constant dense<0.5> : tensor<2x3xf32>
        %m = stablehlo.multiply %a, %h : tensor<2x3xf32>
        %s = stablehlo.add %m, %y : tensor<2x3xf32>)";

Loop loop(std::string value, std::string start, std::string body) {
  return {.value = std::move(value), .start = std::move(start), .body = std::move(body)};
}

std::string program(const std::string& body, const std::string& results) {
  return main_of(
      "(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<i32>)",
      body + "return " + results + " : tensor<2x3xf32>, tensor<2x3xf32>, tensor<i32>");
}

size_t loops_after(const std::string& text) {
  const std::string made = after(text, loops_joined);
  size_t count = 0;
  for (size_t at = made.find("stablehlo.while"); at != std::string::npos;
       at = made.find("stablehlo.while", at + 1))
    ++count;
  return count;
}

// What reads the first loop's result stands in front of the second, which reads nothing of it.
TEST(JoinLoops, ThatReadNothingOfEachOther) {
  const std::string text =
      program(written(loop("p", "%x", kAdds)) + "%t = stablehlo.negate %p#1 : tensor<2x3xf32>\n" +
                  "%u = stablehlo.abs %y : tensor<2x3xf32>\n" + written(loop("q", "%u", kHalves)),
              "%t, %q#1, %q#0");
  EXPECT_EQ(loops_after(text), 1u) << after(text, loops_joined);
  expect_same_values(text, loops_joined);
}

TEST(JoinLoops, OfThree) {
  const std::string text =
      program(written(loop("p", "%x", kAdds)) + written(loop("q", "%y", kHalves)) +
                  written(loop("r", "%y", kAdds)) + "%t = stablehlo.add %p#1, %q#1 : tensor<2x3xf32>\n",
              "%t, %r#1, %p#0");
  EXPECT_EQ(loops_after(text), 1u) << after(text, loops_joined);
  expect_same_values(text, loops_joined);
}

TEST(JoinLoops, LeavesOthers) {
  const Loop first = loop("p", "%x", kAdds);
  Loop longer = loop("q", "%y", kHalves), wider = longer, reader = longer;
  longer.bound = "6";
  wider.step = "2";
  reader.start = "%p#1";
  const Loop inside = loop("q", "%y", R"(%s = stablehlo.add %a, %p#1 : tensor<2x3xf32>)");
  for (const Loop& second : {longer, wider, reader, inside}) {
    const std::string text = program(written(first) + written(second), "%p#1, %q#1, %q#0");
    EXPECT_EQ(loops_after(text), 2u) << after(text, loops_joined);
    expect_same_values(text, loops_joined);
  }
}

}  // namespace
}  // namespace opentrn::compiler
