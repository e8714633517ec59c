#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/fault.h"
#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

using testing::HasSubstr;

graph::Function inlined(const graph::Module& module) { return inline_calls(module, module.entry()); }

TEST(InlineCalls, WritesOutWhatIsCalled) {
  graph::Module module = parsed(R"(
    func.func private @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
      %a = stablehlo.add %x, %x : tensor<2xf32>
      return %a : tensor<2xf32>
    }
    func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %a = call @twice(%x) : (tensor<2xf32>) -> tensor<2xf32>
      %b = call @twice(%a) : (tensor<2xf32>) -> tensor<2xf32>
      return %b : tensor<2xf32>
    })");
  graph::Module flat = module.without_functions();
  flat.functions = {inlined(module)};
  EXPECT_EQ(graph::print_module(flat), printed(main_of("(%x: tensor<2xf32>) -> tensor<2xf32>", R"(
    %a = stablehlo.add %x, %x : tensor<2xf32>
    %b = stablehlo.add %a, %a : tensor<2xf32>
    return %b : tensor<2xf32>)")));
}

std::string fault_of(std::string_view text) {
  try {
    inlined(graph::parse_module(text, "test.mlir"));
  } catch (const Fault& fault) {
    return fault.what();
  }
  return {};
}

TEST(InlineCalls, RefusesRecursion) {
  EXPECT_THAT(fault_of(R"(
    func.func public @main(%x: tensor<f32>) -> tensor<f32> {
      %a = call @main(%x) : (tensor<f32>) -> tensor<f32>
      return %a : tensor<f32>
    })"),
              HasSubstr("[graph.recursion]"));
}

TEST(InlineCalls, RefusesUnknownCallees) {
  EXPECT_THAT(fault_of(R"(
    func.func public @main(%x: tensor<f32>) -> tensor<f32> {
      %a = call @nobody(%x) : (tensor<f32>) -> tensor<f32>
      return %a : tensor<f32>
    })"),
              HasSubstr("[graph.callee]"));
}

// Twenty functions that each call the next one twice are a million ops.
TEST(InlineCalls, RefusesCallsThatGrowWithoutBound) {
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += fmt::format(R"(
      func.func {} @{}(%x: tensor<f32>) -> tensor<f32> {{
        %a = call @f{}(%x) : (tensor<f32>) -> tensor<f32>
        %b = call @f{}(%a) : (tensor<f32>) -> tensor<f32>
        return %b : tensor<f32>
      }})",
                        i == 0 ? "public" : "private", i == 0 ? "main" : fmt::format("f{}", i), i + 1, i + 1);
  text += R"(
    func.func private @f40(%x: tensor<f32>) -> tensor<f32> {
      return %x : tensor<f32>
    })";
  EXPECT_THAT(fault_of(text), HasSubstr("[graph.inline]"));
}

}  // namespace
}  // namespace opentrn::compiler
