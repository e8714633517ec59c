#include "graph/copy.h"

#include <gtest/gtest.h>

#include "graph/text/text.h"

namespace opentrn::graph {
namespace {

constexpr std::string_view kLoop = R"(
func.func public @main(%x: tensor<f32>, %n: tensor<i32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32> loc("here.py":3:0)
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<f32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %w = stablehlo.multiply %v, %x : tensor<f32> loc("here.py":7:0)
      stablehlo.return %next, %w : tensor<i32>, tensor<f32>
    }
  return %r#1 : tensor<f32>
})";

TEST(Copies, KeepRegionsAttributesAndPlaces) {
  const Module module = parse_module(kLoop, "loop.mlir");
  const Function& from = module.entry();
  Module other = module.without_functions();
  EXPECT_TRUE(other.functions.empty());
  Function& to = other.add_function("main");
  to.result_types = from.result_types;
  to.result_attributes = from.result_attributes;
  Copier copier(from, to);
  for (const ValueId value : from.arguments()) copier.argument(value, to.body());
  for (const OpId id : from.block(from.body()).ops) copier.copy(from.op(id), to.body());
  const PrintOptions with_places{.locations = true};
  EXPECT_EQ(print_module(other, with_places), print_module(module, with_places));
}

TEST(Copies, ReadOfAValueWithoutCopyIsAnInternalFault) {
  const Module module = parse_module(kLoop, "loop.mlir");
  const Function& from = module.entry();
  Function to("main");
  Copier copier(from, to);
  EXPECT_FALSE(copier.has(from.arguments()[0]));
  EXPECT_THROW(copier.copy(from.op(from.block(from.body()).ops[2]), to.body()), Fault);
}

}  // namespace
}  // namespace opentrn::graph
