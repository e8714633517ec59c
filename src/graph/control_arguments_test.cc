#include "graph/control_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/text/text.h"

namespace opentrn::graph {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<size_t> of(std::string_view text) {
  return control_arguments(parse_module(text, "test").entry());
}

TEST(ControlArguments, ThatChooseABranch) {
  EXPECT_THAT(of(R"(func.func @main(%x: tensor<2xf32>, %rate: tensor<i32>) -> tensor<2xf32> {
  %c = stablehlo.constant dense<16000> : tensor<i32>
  %p = stablehlo.compare EQ, %rate, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %y = "stablehlo.if"(%p) ({
    %a = stablehlo.add %x, %x : tensor<2xf32>
    stablehlo.return %a : tensor<2xf32>
  }, {
    stablehlo.return %x : tensor<2xf32>
  }) : (tensor<i1>) -> tensor<2xf32>
  return %y : tensor<2xf32>
})"),
              ElementsAre(1));
}

TEST(ControlArguments, ThatSayHowOftenALoopRuns) {
  EXPECT_THAT(of(R"(func.func @main(%x: tensor<2xf32>, %n: tensor<i32>) -> tensor<2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = "stablehlo.while"(%zero, %x) ({
  ^bb0(%i: tensor<i32>, %v: tensor<2xf32>):
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%i: tensor<i32>, %v: tensor<2xf32>):
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %w = stablehlo.add %v, %x : tensor<2xf32>
    stablehlo.return %next, %w : tensor<i32>, tensor<2xf32>
  }) : (tensor<i32>, tensor<2xf32>) -> (tensor<i32>, tensor<2xf32>)
  return %r#1 : tensor<2xf32>
})"),
              ElementsAre(1));
}

TEST(ControlArguments, ThatAreOneNumberComparedWithAConstant) {
  EXPECT_THAT(of(R"(func.func @main(%x: tensor<2xf32>, %rate: tensor<1xi32>) -> tensor<2xi1> {
  %c = stablehlo.constant dense<8000> : tensor<1xi32>
  %p = stablehlo.compare EQ, %rate, %c : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi1>
  %s = stablehlo.reshape %p : (tensor<1xi1>) -> tensor<i1>
  %z = stablehlo.constant dense<0.0> : tensor<2xf32>
  %q = stablehlo.compare GT, %x, %z : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<i1>) -> tensor<2xi1>
  %y = stablehlo.and %q, %b : tensor<2xi1>
  return %y : tensor<2xi1>
})"),
              ElementsAre(1));
}

TEST(ControlArguments, NoneWhereValuesAreOnlyComputedWith) {
  EXPECT_THAT(of(R"(func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = stablehlo.maximum %x, %x : tensor<2xf32>
  return %y : tensor<2xf32>
})"),
              IsEmpty());
}

}  // namespace
}  // namespace opentrn::graph
