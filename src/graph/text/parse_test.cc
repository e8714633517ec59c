// Tests that StableHLO text becomes the module it describes, and that what is wrong is said with its place.
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/element_value.h"
#include "graph/text/hex.h"
#include "graph/text/text.h"

namespace opentrn::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using text::decode_hex;

// The one function of a program whose body is `body`.
Function parse_body(std::string_view body, std::string_view arguments = "") {
  const std::string text =
      "func.func @main(" + std::string(arguments) + ") {\n" + std::string(body) + "\n  return\n}\n";
  Module module = parse_module(text, "body.mlir");
  return std::move(module.functions.at(0));
}

// GoogleTest 1.11 (Ubuntu 22.04) matches no spans.
std::vector<int64_t> listed(std::span<const int64_t> numbers) { return {numbers.begin(), numbers.end()}; }

const Op& first_op(const Function& function) {
  return function.op(function.block(function.body()).ops.at(0));
}

Literal constant(std::string_view value) {
  const Function function = parse_body("%c = stablehlo.constant " + std::string(value));
  return first_op(function).literal(Attr::value);
}

std::string fault_of(std::string_view text) {
  try {
    (void)parse_module(text, "bad.mlir");
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "no fault";
}

TEST(ParseLiterals, NestedListsSplatsAndEmpty) {
  const Literal nested = constant("dense<[[1, -2], [3, 4]]> : tensor<2x2xi8>");
  EXPECT_EQ(load_integer(ElementType::kI8, nested.element(1)), -2);
  EXPECT_EQ(load_integer(ElementType::kI8, nested.element(2)), 3);
  EXPECT_TRUE(constant("dense<7> : tensor<1000000000xi32>").is_splat());
  EXPECT_TRUE(constant("dense<> : tensor<0x3xf32>").bytes().empty());
  EXPECT_TRUE(constant("dense<1.0> : tensor<0x3xf32>").bytes().empty());
}

TEST(ParseLiterals, FloatsInDecimalAndAsBits) {
  const Literal values = constant("dense<[0x7FC0, 0xFF80, 1.5, -0.0]> : tensor<4xbf16>");
  EXPECT_TRUE(std::isnan(load_real(ElementType::kBF16, values.element(0))));
  EXPECT_EQ(load_real(ElementType::kBF16, values.element(1)), -INFINITY);
  EXPECT_EQ(load_real(ElementType::kBF16, values.element(2)), 1.5);
  EXPECT_EQ(load_bits(ElementType::kBF16, values.element(3)), 0x8000u);
  // f32 rounds once from decimal.
  EXPECT_EQ(load_bits(ElementType::kF32, constant("dense<1.00000005960464477540> : tensor<f32>").element(0)),
            0x3F800001u);
}

TEST(ParseLiterals, Complex) {
  const Literal value = constant("dense<[(1.0, -2.5), (0.0, 4.0)]> : tensor<2xcomplex<f32>>");
  EXPECT_EQ(load_real(ElementType::kF32, value.element(0) + 4), -2.5);
  EXPECT_EQ(load_real(ElementType::kF32, value.element(1) + 4), 4.0);
}

TEST(ParseLiterals, RawBytes) {
  const Literal value = constant("dense<\"0x0000803F000000C0\"> : tensor<2xf32>");
  EXPECT_EQ(load_real(ElementType::kF32, value.element(0)), 1.0);
  EXPECT_EQ(load_real(ElementType::kF32, value.element(1)), -2.0);
  // i1: eight to a byte, the first in the lowest bit; or a byte each.
  const Literal packed = constant("dense<\"0x0502\"> : tensor<10xi1>");
  EXPECT_EQ(packed.element(0)[0], std::byte{1});
  EXPECT_EQ(packed.element(1)[0], std::byte{0});
  EXPECT_EQ(packed.element(9)[0], std::byte{1});
  EXPECT_EQ(constant("dense<\"0x010001\"> : tensor<3xi1>"),
            constant("dense<[true, false, true]> : tensor<3xi1>"));
  EXPECT_TRUE(constant("dense<\"0xFF\"> : tensor<100xi1>").is_splat());
}

TEST(ParseLiterals, Resources) {
  const Module module = parse_module(
      "func.func @main() -> tensor<2xf32> {\n"
      "  %0 = stablehlo.constant dense_resource<weights> : tensor<2xf32>\n"
      "  return %0 : tensor<2xf32>\n}\n"
      "{-#\n  dialect_resources: {\n    builtin: {\n      weights: \"0x040000000000803F0000003F\"\n    }\n  "
      "}\n#-}\n",
      "resource.mlir");
  const Literal& value = first_op(module.entry()).literal(Attr::value);
  EXPECT_EQ(load_real(ElementType::kF32, value.element(1)), 0.5);
}

TEST(ParseLiterals, HexDecodesEveryDigitAndRefusesOthers) {
  for (int c = 0; c < 256; ++c) {
    const std::string digits = std::string("0000000") + static_cast<char>(c);
    std::byte bytes[4];
    EXPECT_EQ(decode_hex(digits, bytes), std::isxdigit(c) != 0 && c < 128) << c;
    if (std::isxdigit(c) && c < 128) {
      EXPECT_EQ(static_cast<int>(bytes[3]), std::stoi(std::string(1, static_cast<char>(c)), nullptr, 16));
    }
  }
  std::byte odd[3];
  EXPECT_TRUE(decode_hex("12aBFf", odd));
  EXPECT_THAT(odd, ElementsAre(std::byte{0x12}, std::byte{0xAB}, std::byte{0xFF}));
}

TEST(ParseTypes, QuantizedBoundedAndTuples) {
  const Function function = parse_body("",
                                       "%a: tensor<4x!quant.uniform<i8<-127:127>:f32, 5.0e-1:3>>, "
                                       "%b: tensor<2x?x!quant.uniform<u8:f16:1, {1.0, 2.0:5}>>, "
                                       "%c: tensor<?x4xf32, #stablehlo.bounds<8, ?>>, "
                                       "%d: tensor<?xf32, #stablehlo.type_extensions<bounds = [16]>>, "
                                       "%e: tuple<tensor<i1>, !stablehlo.token>");
  const std::vector<Type> types = function.argument_types();
  EXPECT_EQ(types[0].quantization()->storage_min, -127);
  EXPECT_THAT(types[0].quantization()->zero_points, ElementsAre(3));
  EXPECT_EQ(types[1].element(), ElementType::kUI8);
  EXPECT_EQ(types[1].quantization()->axis, 1);
  EXPECT_THAT(types[1].quantization()->scales, ElementsAre(1.0, 2.0));
  EXPECT_THAT(listed(types[2].bounds()), ElementsAre(8, kDynamic));
  EXPECT_THAT(listed(types[3].bounds()), ElementsAre(16));
  EXPECT_TRUE(types[4].is_tuple());
}

TEST(ParseOps, GenericAndPrettyGiveTheSameAttributes) {
  const std::string arguments = "%a: tensor<1x8x8x3xf32>, %w: tensor<3x3x3x4xf32>";
  const Function pretty = parse_body(
      "%0 = stablehlo.convolution(%a, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = "
      "{stride = [2, 2], pad = [[0, 1], [1, 1]], reverse = [true, false]} {batch_group_count = 1 : i64, "
      "feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGH>, "
      "#stablehlo<precision DEFAULT>]} : (tensor<1x8x8x3xf32>, tensor<3x3x3x4xf32>) -> tensor<1x4x4x4xf32>",
      arguments);
  const Function generic = parse_body(
      "%0 = \"stablehlo.convolution\"(%a, %w) <{window_strides = array<i64: 2, 2>, padding = dense<[[0, 1], "
      "[1, 1]]> : tensor<2x2xi64>, window_reversal = array<i1: true, false>, dimension_numbers = "
      "#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, batch_group_count = 1 : i64, "
      "feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision "
      "DEFAULT>]}> : (tensor<1x8x8x3xf32>, tensor<3x3x3x4xf32>) -> tensor<1x4x4x4xf32>",
      arguments);
  EXPECT_EQ(first_op(pretty).attributes, first_op(generic).attributes);
  EXPECT_EQ(first_op(pretty).integer(Attr::output_feature_dimension), 3);
  EXPECT_EQ(first_op(pretty).matrix(Attr::padding).at(0, 1), 1);
  EXPECT_THAT(listed(first_op(pretty).integers(Attr::precision_config)), ElementsAre(1, 0));
}

TEST(ParseOps, DotGeneral) {
  const Function function = parse_body(
      "%0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision "
      "= "
      "[HIGHEST, DEFAULT], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, "
      "accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations "
      "= 1, allow_imprecise_accumulation = false> : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> "
      "tensor<2x3x5xf32>",
      "%a: tensor<2x3x4xf32>, %b: tensor<2x4x5xf32>");
  const Op& dot = first_op(function);
  EXPECT_THAT(listed(dot.integers(Attr::lhs_contracting_dimensions)), ElementsAre(2));
  EXPECT_EQ(*dot.find(Attr::lhs_precision_type)->get<Type>(), Type::scalar(ElementType::kTF32));
  EXPECT_FALSE(dot.boolean(Attr::allow_imprecise_accumulation));
}

TEST(ParseOps, ReduceAppliesIsWrittenOut) {
  const Function function = parse_body(
      "%0 = stablehlo.reduce(%a init: %b) applies stablehlo.maximum across dimensions = [1] : "
      "(tensor<2x3xf32>, "
      "tensor<f32>) -> tensor<2xf32>",
      "%a: tensor<2x3xf32>, %b: tensor<f32>");
  const Op& reduce = first_op(function);
  ASSERT_EQ(reduce.regions.size(), 1u);
  const Block& body = function.block(reduce.regions[0]);
  ASSERT_EQ(body.ops.size(), 2u);
  EXPECT_EQ(function.op(body.ops[0]).kind, OpKind::maximum_);
  EXPECT_EQ(function.op(body.ops[0]).operands, body.arguments);
}

TEST(ParseOps, ReducerArgumentsArePairsAndTheBlockHasElementsFirst) {
  const Function function = parse_body(
      "%0:2 = stablehlo.reduce(%a init: %i), (%b init: %j) across dimensions = [0] : (tensor<4xf32>, "
      "tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)\n"
      " reducer(%x: tensor<f32>, %y: tensor<f32>) (%p: tensor<i32>, %q: tensor<i32>) {\n"
      "  stablehlo.return %y, %p : tensor<f32>, tensor<i32>\n }\n"
      "%1 = stablehlo.negate %0#1 : tensor<i32>",
      "%a: tensor<4xf32>, %b: tensor<4xi32>, %i: tensor<f32>, %j: tensor<i32>");
  const Op& reduce = first_op(function);
  const Block& body = function.block(reduce.regions[0]);
  const Op& returned = function.op(body.ops[0]);
  EXPECT_THAT(returned.operands, ElementsAre(body.arguments[2], body.arguments[1]));
  EXPECT_EQ(function.op(function.block(function.body()).ops[1]).operands[0], reduce.results[1]);
}

TEST(ParseOps, WhileNamesItsArgumentsInBothRegions) {
  const Function function = parse_body(
      "%0:2 = stablehlo.while(%i = %a, %s = %b) : tensor<i32>, tensor<f32>\n"
      " cond {\n  %c = stablehlo.compare LT, %i, %a, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
      "  stablehlo.return %c : tensor<i1>\n } do {\n  stablehlo.return %i, %s : tensor<i32>, tensor<f32>\n }",
      "%a: tensor<i32>, %b: tensor<f32>");
  const Op& loop = first_op(function);
  ASSERT_EQ(loop.regions.size(), 2u);
  const Op& compare = function.op(function.block(loop.regions[0]).ops[0]);
  EXPECT_EQ(compare.operands[0], function.block(loop.regions[0]).arguments[0]);
  EXPECT_EQ(compare.operands[1], function.arguments()[0]);
  EXPECT_EQ(compare.enumeration(Attr::compare_type, ComparisonType::kNone), ComparisonType::kSigned);
}

TEST(ParseOps, AttributesOfOthersAreKept) {
  const Function function = parse_body(
      "%0 = stablehlo.custom_call @Sharding(%a) {backend_config = \"x\", mhlo.sharding = "
      "\"{replicated}\", sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{\"x\"}]>]>, list = [1, 2.5, @f]} "
      ": "
      "(tensor<4xf32>) -> tensor<4xf32>",
      "%a: tensor<4xf32>");
  const Op& call = first_op(function);
  EXPECT_EQ(call.string(Attr::call_target_name), "Sharding");
  EXPECT_EQ(*call.extra->at("mhlo.sharding").get<std::string>(), "{replicated}");
  EXPECT_EQ(call.extra->at("sdy.sharding").get<Opaque>()->text,
            "#sdy.sharding_per_value<[<@mesh, [{\"x\"}]>]>");
  EXPECT_EQ(call.extra->at("list").as_list()->size(), 3u);
}

TEST(ParseOps, ChecksBecomeCustomCalls) {
  const Function function = parse_body(
      "check.expect_almost_eq_const %a, dense<1.0> : tensor<f32>, tolerance = 0.5\n"
      "%0 = interpreter.probe %a, probe_id = \"p\" : tensor<f32>",
      "%a: tensor<f32>");
  const Op& check = first_op(function);
  EXPECT_EQ(check.string(Attr::call_target_name), "check.expect_almost_eq_const");
  EXPECT_EQ(*check.extra->at("tolerance").get<double>(), 0.5);
  EXPECT_TRUE(check.extra->at("value").get<Literal>() != nullptr);
  EXPECT_EQ(function.op(function.block(function.body()).ops[1]).results.size(), 1u);
}

TEST(ParseLocations, TheUsersLineAndTheOutermostName) {
  const Module module = parse_module(
      "#loc1 = loc(\"model.py\":12:4)\n"
      "func.func @main(%a: tensor<f32> loc(\"a\")) -> tensor<f32> {\n"
      "  %0 = stablehlo.negate %a : tensor<f32> loc(#loc3)\n"
      "  %1 = stablehlo.negate %0 : tensor<f32> loc(fused<\"m\">[unknown, \"x.py\":7:1])\n"
      "  %2 = stablehlo.negate %1 : tensor<f32>\n"
      "  return %2 : tensor<f32> loc(unknown)\n} loc(#loc1)\n"
      "#loc2 = loc(callsite(\"inner\"(#loc1) at \"caller.py\":99:1))\n"
      "#loc3 = loc(\"jit(f)/neg\"(#loc2))\n",
      "locations.mlir");
  const Function& main = module.entry();
  const auto place = [&](size_t i) {
    return module.location(main.op(main.block(main.body()).ops[i]).location);
  };
  EXPECT_EQ(place(0), (Location{"jit(f)/neg", "model.py", 12, 4}));
  EXPECT_EQ(place(1), (Location{"", "x.py", 7, 1}));
  EXPECT_EQ(place(2), (Location{"", "locations.mlir", 5, 3}));
  EXPECT_EQ(place(3), Location{});
}

TEST(ParseModules, GenericFormOfEverything) {
  const Module module = parse_module(
      "\"builtin.module\"() <{sym_name = \"m\"}> ({\n"
      "  \"func.func\"() <{function_type = (tensor<f32>) -> tensor<f32>, sym_name = \"main\", sym_visibility "
      "= "
      "\"public\", arg_attrs = [{jax.buffer_donor = true}]}> ({\n"
      "  ^bb0(%arg0: tensor<f32>):\n"
      "    %0 = \"stablehlo.abs\"(%arg0) : (tensor<f32>) -> tensor<f32>\n"
      "    \"func.return\"(%0) : (tensor<f32>) -> ()\n"
      "  }) : () -> ()\n"
      "}) {mhlo.num_partitions = 1 : i32} : () -> ()\n",
      "generic.mlir");
  EXPECT_EQ(module.name, "m");
  EXPECT_EQ(*module.attributes.at("mhlo.num_partitions").get<int64_t>(), 1);
  EXPECT_TRUE(module.entry().argument_attributes[0].contains("jax.buffer_donor"));
  EXPECT_EQ(module.entry().returned().size(), 1u);
}

TEST(ParseModules, MeshesAndPartsOfAFile) {
  const auto parts = split_input_file(
      "func.func @a() {\n return\n}\n// -----\nsdy.mesh @mesh = <[\"x\"=2]>\nfunc.func @b() {\n return\n}\n");
  ASSERT_EQ(parts.size(), 2u);
  const Module second = parse_module(parts[1], "b.mlir");
  EXPECT_EQ(second.functions[0].name, "b");
  const Dictionary& meshes = *second.attributes.at("sdy.meshes").as_dictionary();
  EXPECT_EQ(meshes.at("mesh").get<Opaque>()->text, "#sdy.mesh<[\"x\"=2]>");
}

struct Refusal {
  const char* text;
  const char* message;
};

TEST(ParseErrors, SayWhatWasFoundAndWhere) {
  const Refusal refusals[] = {
      {"sdy.mesh @N0po=U", "found `U`, expected a bracket that opens (column 16)\n    at bad.mlir:1"},
      {"sdy.mesh @m =", "found ``, expected a bracket that opens"},
      {"func.func @f(%a: tensor<f32>) {\n  %0 = stablehlo.abs %b : tensor<f32>\n  return\n}",
       "%b is used here and not defined before (column 22)\n    at bad.mlir:2"},
      {"func.func @f() {\n  %0 = stablehlo.constant dense<[1, 2]> : tensor<3xi32>\n  return\n}",
       "2 entries here; dimension 0 of tensor<3xi32> has 3"},
      {"func.func @f(%a: tensor<f32>) {\n  %0 = stablehlo.abs %a : tensor<2xf32>\n  return\n}",
       "operand 0 of stablehlo.abs is tensor<f32>, written here as tensor<2xf32>"},
      {"func.func @f() {\n  %0 = stablehlo.constant dense<300> : tensor<i8>\n  return\n}",
       "300 is out of the range of i8"},
      {"func.func @f() {\n  %0 = stablehlo.constant dense<\"0xZZ\"> : tensor<i8>\n  return\n}",
       "expected pairs of hexadecimal digits"},
      {"func.func @f() {\n  %0 = scf.for %1\n}", "op scf.for is not taken"},
      {"func.func @f(%a: tensor<*xf32>) {\n return\n}", "tensors without a rank"},
      {"func.func @f() {\n  return\n", "found the end of the text, expected an op or `}`"},
      {"func.func @f() {\n  return\n}\nfunc.func @f() {\n  return\n}", "@f is defined twice"},
      {"module {\n  func.func @f() {\n    return\n  }\n}\nmodule {\n}", "found more behind the module"},
      {"func.func @f(%a: tensor<2xf32>) {\n  %0 = stablehlo.slice %a [0:1 : (tensor<2xf32>) -> "
       "tensor<1xf32>\n}",
       "found `(`"},
      {"func.func @f(%a: tensor<f32>) {\n  %0 = stablehlo.compare XX, %a, %a : (tensor<f32>, tensor<f32>) -> "
       "tensor<i1>\n}",
       "comparison_direction of stablehlo.compare takes one of EQ, NE, GE, GT, LE, LT"},
      {"func.func @f(%a: tensor<f32>) {\n  %0:2 = stablehlo.abs %a : tensor<f32>\n}",
       "2 names for the 1 results of stablehlo.abs"},
      {"#a = #a\nfunc.func @f() attributes {x = #a} {\n return\n}", "nested deeper than 200 levels"},
  };
  for (const Refusal& refusal : refusals) EXPECT_THAT(fault_of(refusal.text), HasSubstr(refusal.message));
}

}  // namespace
}  // namespace opentrn::graph
