#include "compiler/expand/expand.h"

#include "compiler/analysis/pass_for_test.h"
#include "compiler/expand/host_ops.h"
#include "graph/op_definitions.h"

namespace opentrn::compiler {
namespace {

// One program of each family: no op with an expansion is left, and the values are those of the op. An
// expansion computes in f32 and rounds once, so that the last bits of f32 differ; integers do not.
struct Family {
  const char *name, *signature, *body;
  double tolerance = 0;
  double range = 4;
};

constexpr Family kFamilies[] = {
    {"trigonometric", "(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>)",
     R"(%a = stablehlo.tan %x : tensor<64xf32>
        %b = stablehlo.atan2 %x, %a : tensor<64xf32>
        return %a, %b : tensor<64xf32>, tensor<64xf32>)",
     2e-5, 1.4},
    {"special", "(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>)",
     R"(%a = chlo.lgamma %x : tensor<64xf32> -> tensor<64xf32>
        %b = chlo.erf_inv %x : tensor<64xf32> -> tensor<64xf32>
        return %a, %b : tensor<64xf32>, tensor<64xf32>)",
     1e-4, 0.9},
    {"complex",
     "(%x: tensor<32xcomplex<f32>>, %y: tensor<32xcomplex<f32>>) -> (tensor<32xf32>, tensor<32xf32>)",
     R"(%a = stablehlo.multiply %x, %y : tensor<32xcomplex<f32>>
        %b = stablehlo.divide %a, %y : tensor<32xcomplex<f32>>
        %c = stablehlo.real %b : (tensor<32xcomplex<f32>>) -> tensor<32xf32>
        %d = stablehlo.abs %a : (tensor<32xcomplex<f32>>) -> tensor<32xf32>
        return %c, %d : tensor<32xf32>, tensor<32xf32>)",
     1e-4},
    {"fft", "(%x: tensor<12xcomplex<f32>>) -> tensor<12xf32>",
     R"(%a = stablehlo.fft %x, type = FFT, length = [12] : (tensor<12xcomplex<f32>>) -> tensor<12xcomplex<f32>>
        %b = stablehlo.real %a : (tensor<12xcomplex<f32>>) -> tensor<12xf32>
        return %b : tensor<12xf32>)",
     1e-5},
    {"bits", "(%x: tensor<32xi32>, %y: tensor<32xi32>) -> (tensor<32xi32>, tensor<32xi32>, tensor<32xi32>)",
     R"(%a = stablehlo.popcnt %x : tensor<32xi32>
        %b = stablehlo.count_leading_zeros %y : tensor<32xi32>
        %c = stablehlo.remainder %x, %y : tensor<32xi32>
        return %a, %b, %c : tensor<32xi32>, tensor<32xi32>, tensor<32xi32>)",
     0, 100000},
    {"integer_products", "(%x: tensor<4x5xi32>, %y: tensor<5x3xi32>) -> tensor<4x3xi32>",
     R"(%a = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
             : (tensor<4x5xi32>, tensor<5x3xi32>) -> tensor<4x3xi32>
        return %a : tensor<4x3xi32>)",
     0, 1e9},
    {"wide_integers", "(%x: tensor<8xui64>, %y: tensor<8xui64>) -> tensor<8xui32>",
     R"(%a = stablehlo.multiply %x, %y : tensor<8xui64>
        %b = stablehlo.constant dense<32> : tensor<8xui64>
        %c = stablehlo.shift_right_logical %a, %b : tensor<8xui64>
        %d = stablehlo.convert %c : (tensor<8xui64>) -> tensor<8xui32>
        return %d : tensor<8xui32>)",
     0, 4e9},
    {"linear_algebra", "(%x: tensor<80x80xf32>) -> tensor<80x80xf32>",
     R"(%t = stablehlo.transpose %x, dims = [1, 0] : (tensor<80x80xf32>) -> tensor<80x80xf32>
        %p = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0]
             : (tensor<80x80xf32>, tensor<80x80xf32>) -> tensor<80x80xf32>
        %i = stablehlo.iota dim = 0 : tensor<80x80xf32>
        %j = stablehlo.iota dim = 1 : tensor<80x80xf32>
        %d = stablehlo.compare EQ, %i, %j : (tensor<80x80xf32>, tensor<80x80xf32>) -> tensor<80x80xi1>
        %e = stablehlo.convert %d : (tensor<80x80xi1>) -> tensor<80x80xf32>
        %s = stablehlo.add %p, %e : tensor<80x80xf32>
        %a = "stablehlo.cholesky"(%s) {lower = true} : (tensor<80x80xf32>) -> tensor<80x80xf32>
        %zero = stablehlo.constant dense<0.0> : tensor<80x80xf32>
        %low = stablehlo.compare GE, %i, %j : (tensor<80x80xf32>, tensor<80x80xf32>) -> tensor<80x80xi1>
        %r = stablehlo.select %low, %a, %zero : tensor<80x80xi1>, tensor<80x80xf32>
        return %r : tensor<80x80xf32>)",
     1e-3},
    {"windows", "(%x: tensor<3x16xi32>) -> tensor<3x16xi32>",
     R"(%zero = stablehlo.constant dense<0> : tensor<i32>
        %a = "stablehlo.reduce_window"(%x, %zero) <{padding = dense<[[0, 0], [15, 0]]> : tensor<2x2xi64>,
          window_dimensions = array<i64: 1, 16>}> ({
          ^bb0(%p: tensor<i32>, %q: tensor<i32>):
            %r = stablehlo.xor %p, %q : tensor<i32>
            stablehlo.return %r : tensor<i32>
          }) : (tensor<3x16xi32>, tensor<i32>) -> tensor<3x16xi32>
        return %a : tensor<3x16xi32>)",
     0, 1e9},
    {"convolutions_backwards", "(%x: tensor<1x2x5x5xf32>, %w: tensor<3x2x3x3xf32>) -> tensor<1x3x3x3xf32>",
     R"(%a = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
             window = {stride = [1, 1], pad = [[0, 0], [0, 0]], rhs_dilate = [1, 1], reverse = [true, true]}
             {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
             : (tensor<1x2x5x5xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x3x3xf32>
        return %a : tensor<1x3x3x3xf32>)",
     1e-5},
    {"random_bits", "(%w: tensor<2x2xui32>) -> tensor<6xui32>",
     R"(%s = stablehlo.bitcast_convert %w : (tensor<2x2xui32>) -> tensor<2xui64>
        %a, %b = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY
             : (tensor<2xui64>) -> (tensor<2xui64>, tensor<6xui32>)
        return %b : tensor<6xui32>)",
     0, 1e9},
    {"complex_loops", "(%x: tensor<complex<f32>>) -> tensor<f32>",
     R"(%zero = stablehlo.constant dense<0> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %three = stablehlo.constant dense<3> : tensor<i32>
        %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<complex<f32>>
          cond {
            %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do {
            %next = stablehlo.add %i, %one : tensor<i32>
            %w = stablehlo.add %v, %x : tensor<complex<f32>>
            stablehlo.return %next, %w : tensor<i32>, tensor<complex<f32>>
          }
        %a = stablehlo.real %r#1 : (tensor<complex<f32>>) -> tensor<f32>
        return %a : tensor<f32>)",
     1e-5},
};

void run(graph::Function& function) {
  split_complex_carries(function);
  expand(function);
}

TEST(Expand, EveryFamilyKeepsItsValues) {
  for (const Family& family : kFamilies) {
    SCOPED_TRACE(family.name);
    const std::string text = main_of(family.signature, family.body);
    const graph::Module then = passed(text, run);
    EXPECT_NE(graph::print_module(then), printed(text)) << "nothing was expanded";
    graph::walk(then.entry(), then.entry().body(), [&](graph::OpId id) {
      EXPECT_FALSE(has_expansion(then.entry(), then.entry().op(id)))
          << graph::name(then.entry().op(id).kind) << " is left";
    });
    expect_same_values(text, run, family.tolerance, family.range);
  }
}

TEST(Expand, LeavesWhatKernelsTake) {
  graph::Module module = parsed(main_of("(%x: tensor<8xf32>) -> tensor<8xf32>", R"(
    %a = stablehlo.exponential %x : tensor<8xf32>
    return %a : tensor<8xf32>)"));
  EXPECT_FALSE(expand(module.entry()));
}

// What has a kernel stays on the device unless it is asked for by name.
TEST(MoveToHost, CallsTheHostForWhatNoKernelTakes) {
  graph::Module module = parsed(main_of("(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)", R"(
    %a = stablehlo.exponential %x : tensor<8xf32>
    %b = stablehlo.cosine %a : tensor<8xf32>
    return %a, %b : tensor<8xf32>, tensor<8xf32>)"));
  EXPECT_EQ(move_to_host(module, module.entry()), 0) << "kernels take both";
  graph::OpId cosine{};
  graph::walk(module.entry(), module.entry().body(), [&](graph::OpId id) {
    if (module.entry().op(id).kind == graph::OpKind::cosine_) cosine = id;
  });
  EXPECT_EQ(move_to_host(module, module.entry(), {cosine}), 1);
  const std::string then = graph::print_module(module);
  EXPECT_NE(then.find("opentrn.host"), std::string::npos) << then;
}

}  // namespace
}  // namespace opentrn::compiler
