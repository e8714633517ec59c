#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

std::string loop(const char* trips) {
  return main_of("(%x: tensor<4xf32>, %k: tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>)", std::string(R"(
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<)") + trips + R"(> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<4xf32>
      cond {
        %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %f = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
        %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<4xf32>
        %m = stablehlo.multiply %v, %k : tensor<4xf32>
        %s = stablehlo.add %m, %b : tensor<4xf32>
        %next = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %next, %s : tensor<i32>, tensor<4xf32>
      }
    return %r#0, %r#1 : tensor<i32>, tensor<4xf32>)");
}

int64_t loops_after(const std::string& text) {
  const graph::Module module = passed(text, [](graph::Function& function) { unroll_loops(function); });
  int64_t found = 0;
  graph::walk(module.entry(), module.entry().body(),
              [&](graph::OpId id) { found += module.entry().op(id).kind == graph::OpKind::while_; });
  return found;
}

TEST(UnrollLoops, WritesAFewIterationsOut) {
  for (const char* trips : {"0", "1", "5"}) {
    SCOPED_TRACE(trips);
    EXPECT_EQ(loops_after(loop(trips)), 0);
    expect_same_values(
        loop(trips), [](graph::Function& function) { unroll_loops(function); }, 0, 2);
  }
}

TEST(UnrollLoops, LeavesManyIterations) { EXPECT_EQ(loops_after(loop("1000")), 1); }

}  // namespace
}  // namespace opentrn::compiler
