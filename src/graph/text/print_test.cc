// Tests that what is printed reads back as the same module, in both forms, and is spelled as MLIR spells it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/text/text.h"

namespace opentrn::graph {
namespace {

using testing::HasSubstr;

// One program per group of ops, as MLIR spells them (checked with jaxlib) but for the numbers of values.
constexpr const char* kPrograms[] = {
    R"(module @m attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%arg0: tensor<4xf32> {jax.buffer_donor = true, tf.aliasing_output = 0 : i32}, %arg1: tensor<4xf32>) -> (tensor<4xf32> {jax.result_info = "result"}) {
    %0 = sdy.sharding_constraint %arg0 <@mesh, [{"x"}]> : tensor<4xf32>
    %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%arg2: tensor<2xf32>) {
      %2 = stablehlo.add %arg2, %arg2 : tensor<2xf32>
      sdy.return %2 : tensor<2xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    %3 = call @f(%1) : (tensor<4xf32>) -> tensor<4xf32>
    return %3 : tensor<4xf32>
  }
  func.func private @f(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    return %arg0 : tensor<4xf32>
  }
}
)",
    R"(module {
  func.func public @constants() {
    %0 = stablehlo.constant dense<0xFF800000> : tensor<2x3xf32>
    %1 = stablehlo.constant dense<[1.000000e+00, 0.33333334, -0.000000e+00]> : tensor<3xf32>
    %2 = stablehlo.constant dense<[true, false]> : tensor<2xi1>
    %3 = stablehlo.constant dense<[(1.000000e+00,-2.500000e+00), (0.000000e+00,1.000000e-01)]> : tensor<2xcomplex<f64>>
    %4 = stablehlo.constant dense<18446744073709551615> : tensor<ui64>
    %5 = stablehlo.constant dense<[[0x7FC0, 1.500000e+00]]> : tensor<1x2xbf16>
    %6 = stablehlo.constant dense<> : tensor<0x2xi8>
    %7 = "stablehlo.constant"() <{value = dense<[1, 2]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32, 2.000000e+00:15>>
    return
  }
}
)",
    R"(module {
  func.func public @shapes(%arg0: tensor<2x3xf32>, %arg1: tensor<i32>, %arg2: tensor<2x3xi1>) {
    %0 = stablehlo.abs %arg0 : tensor<2x3xf32>
    %1 = stablehlo.convert %arg0 : (tensor<2x3xf32>) -> tensor<2x3xbf16>
    %2 = stablehlo.select %arg2, %arg0, %0 : tensor<2x3xi1>, tensor<2x3xf32>
    %3 = stablehlo.complex %arg0, %0 : tensor<2x3xcomplex<f32>>
    %4 = stablehlo.slice %arg0 [0:2, 0:3:2] : (tensor<2x3xf32>) -> tensor<2x2xf32>
    %5 = stablehlo.dynamic_slice %arg0, %arg1, %arg1, sizes = [1, 1] : (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x1xf32>
    %6 = stablehlo.concatenate %arg0, %0, dim = 0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
    %7 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %8 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %9 = stablehlo.compare LT, %arg0, %0, TOTALORDER : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
    %10 = stablehlo.iota dim = 1 : tensor<2x3xi32>
    %11 = stablehlo.reduce_precision %arg0, format = e5m10 : tensor<2x3xf32>
    %12 = stablehlo.tuple %arg0, %arg1 : tuple<tensor<2x3xf32>, tensor<i32>>
    %13 = stablehlo.get_tuple_element %12[1] : (tuple<tensor<2x3xf32>, tensor<i32>>) -> tensor<i32>
    %14:2 = stablehlo.optimization_barrier %arg0, %arg1 : tensor<2x3xf32>, tensor<i32>
    %15 = stablehlo.reverse %14#0, dims = [0] : tensor<2x3xf32>
    %16 = stablehlo.cholesky %arg0, lower = true : tensor<2x3xf32>
    %17 = stablehlo.custom_call @"odd name"(%arg0) {api_version = 2 : i32, backend_config = "a\22b\0A", has_side_effect = true} : (tensor<2x3xf32>) -> tensor<?x3xf32, #stablehlo.bounds<8, ?>>
    return
  }
}
)",
    R"(module {
  func.func public @contractions(%arg0: tensor<2x3x4xf32>, %arg1: tensor<2x4x5xf32>, %arg2: tensor<1x8x8x3xf32>, %arg3: tensor<3x3x3x4xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGH, DEFAULT], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
    %1 = stablehlo.convolution(%arg2, %arg3) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 1], [0, 1]], reverse = [true, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x8x8x3xf32>, tensor<3x3x3x4xf32>) -> tensor<1x4x4x4xf32>
    return
  }
}
)",
    R"(module {
  func.func public @control(%arg0: tensor<2x3xf32>, %arg1: tensor<f32>, %arg2: tensor<i1>, %arg3: tensor<i32>) {
    %0 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.add across dimensions = [1] {tag} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %1:2 = stablehlo.reduce(%arg0 init: %arg1), (%arg0 init: %arg1) across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
     reducer(%arg4: tensor<f32>, %arg6: tensor<f32>) (%arg5: tensor<f32>, %arg7: tensor<f32>)  {
      stablehlo.return %arg6, %arg5 : tensor<f32>, tensor<f32>
    }
    %2:2 = stablehlo.while(%arg8 = %arg3, %arg9 = %arg1) : tensor<i32>, tensor<f32>
    cond {
      %3 = stablehlo.compare LT, %arg8, %arg3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    } do {
      %4 = func.call @control(%arg0, %arg9, %arg2, %arg8) : (tensor<2x3xf32>, tensor<f32>, tensor<i1>, tensor<i32>) -> tensor<f32>
      stablehlo.return %arg8, %4 : tensor<i32>, tensor<f32>
    }
    %5 = "stablehlo.if"(%arg2) ({
      stablehlo.return %arg1 : tensor<f32>
    }, {
      stablehlo.return %2#1 : tensor<f32>
    }) {mhlo.sharding = "{replicated}"} : (tensor<i1>) -> tensor<f32>
    %6 = "stablehlo.all_reduce"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, -1]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%arg10: tensor<f32>, %arg11: tensor<f32>):
      %7 = stablehlo.add %arg10, %arg11 : tensor<f32>
      stablehlo.return %7 : tensor<f32>
    }) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return
  }
}
)",
    R"(module {
  func.func public @gathers(%arg0: tensor<3x4x2xi32>, %arg1: tensor<2x3x2xi64>, %arg2: tensor<2x3x2x2xi32>) {
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 2, 2>}> : (tensor<3x4x2xi32>, tensor<2x3x2xi64>) -> tensor<2x3x2x2xi32>
    %1 = "stablehlo.scatter"(%arg0, %arg1, %arg2) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], inserted_window_dims = [0], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 2>, unique_indices = true}> ({
    ^bb0(%arg3: tensor<i32>, %arg4: tensor<i32>):
      stablehlo.return %arg4 : tensor<i32>
    }) : (tensor<3x4x2xi32>, tensor<2x3x2xi64>, tensor<2x3x2x2xi32>) -> tensor<3x4x2xi32>
    %2 = chlo.erf %arg0 : tensor<3x4x2xi32> -> tensor<3x4x2xi32>
    %3:2 = chlo.top_k(%arg0, k = 1) : tensor<3x4x2xi32> -> (tensor<3x4x1xi32>, tensor<3x4x1xi32>)
    %4 = chlo.broadcast_add %arg0, %arg2 : (tensor<3x4x2xi32>, tensor<2x3x2x2xi32>) -> tensor<?x?xi32>
    %5 = stablehlo.composite "chlo.erf" %arg0 {composite_attributes = {a = 1 : i64}, decomposition = @gathers, version = 1 : i32} : (tensor<3x4x2xi32>) -> tensor<3x4x2xi32>
    %6 = stablehlo.fft %arg0, type = RFFT, length = [8] : (tensor<3x4x2xi32>) -> tensor<3x4x2xi32>
    return
  }
}
)",
};

TEST(Print, ReadsBackInBothForms) {
  for (const char* program : kPrograms) {
    const Module module = parse_module(program, "program.mlir");
    EXPECT_EQ(print_module(module), program);
    for (const bool generic : {false, true}) {
      PrintOptions options;
      options.generic = generic;
      const std::string printed = print_module(module, options);
      const Module again = parse_module(printed, "printed.mlir");
      EXPECT_EQ(print_module(again, options), printed);
      // And either form says the same.
      EXPECT_EQ(print_module(again), print_module(module));
    }
  }
}

// 1.0e-1 as f32 and the like: seven digits, or as many as it takes; and the bytes when there are many.
TEST(Print, FloatsComeBackBitForBit) {
  std::string text = "func.func @main() {\n";
  uint32_t bits = 12345;
  for (int i = 0; i < 300; ++i) {
    bits = bits * 1664525 + 1013904223;
    if ((bits & 0x7F800000) == 0x7F800000) continue;
    text += "  %" + std::to_string(i) + " = stablehlo.constant dense<0x" +
            std::to_string(bits % 90000000 + 10000000) + "> : tensor<f32>\n";
  }
  text += "  return\n}\n";
  const Module module = parse_module(text, "floats.mlir");
  const Module again = parse_module(print_module(module), "printed.mlir");
  const Function& left = module.entry();
  const Function& right = again.entry();
  ASSERT_EQ(left.op_count(), right.op_count());
  for (size_t i = 0; i + 1 < left.op_count(); ++i)
    EXPECT_EQ(left.op(OpId(i)).literal(Attr::value), right.op(OpId(i)).literal(Attr::value));
}

TEST(Print, ManyElementsAreRawBytesOrElided) {
  std::string list;
  for (int i = 0; i < 101; ++i) list += (i > 0 ? ", " : "") + std::to_string(i);
  const Module module = parse_module(
      "func.func @main() {\n %0 = stablehlo.constant dense<[" + list + "]> : tensor<101xui8>\n return\n}",
      "many.mlir");
  const std::string printed = print_module(module);
  EXPECT_THAT(printed, HasSubstr("dense<\"0x000102"));
  EXPECT_EQ(print_module(parse_module(printed, "printed.mlir")), printed);
  PrintOptions options;
  options.elide_larger = 100;
  EXPECT_THAT(print_module(module, options), HasSubstr("dense_resource<__elided__> : tensor<101xui8>"));
}

TEST(Print, Locations) {
  PrintOptions options;
  options.locations = true;
  const std::string text =
      "module {\n  func.func public @main() {\n"
      "    %0 = stablehlo.constant dense<1> : tensor<i32> loc(\"jit(f)/add\"(\"a.py\":3:7))\n"
      "    return loc(unknown)\n  }\n}\n";
  EXPECT_EQ(print_module(parse_module(text, "locations.mlir"), options), text);
}

}  // namespace
}  // namespace opentrn::graph
