// Every constraint label of the specification has a program that breaks it, or stands in kWithoutCase.
#include "graph/shape_rules.h"

#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/ranges.h>

#include "base/fault.h"
#include "graph/op_definitions.h"
#include "graph/text/text.h"
#include "graph/verify.h"

namespace opentrn::graph {
namespace {

struct Case {
  std::string label;
  std::string arguments;  // types of %a0, %a1, ..
  std::string op;         // one op in generic form, its results unnamed
  int results = 1;
};

std::string program(const Case& c) {
  std::string text =
      "func.func @callee(%x: tensor<2xf32>) -> tensor<2xf32> { func.return %x : tensor<2xf32> }\n";
  text += "func.func @main(";
  int n = 0;
  size_t begin = 0;
  while (begin < c.arguments.size()) {
    size_t end = c.arguments.find('|', begin);
    if (end == std::string::npos) end = c.arguments.size();
    text += fmt::format("{}%a{}: {}", n == 0 ? "" : ", ", n, c.arguments.substr(begin, end - begin));
    ++n;
    begin = end + 1;
  }
  text += ") {\n  ";
  if (c.results > 0) text += c.results > 1 ? fmt::format("%r:{} = ", c.results) : "%r = ";
  return text + c.op + "\n  func.return\n}\n";
}

// The label of the fault that the program gives; "" when it verifies.
std::string label_of(const Case& c) {
  const Module module = parse_module(program(c), "case.mlir");
  try {
    verify(module);
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kInput);
    EXPECT_GT(fault.location().line, 0) << fault.what();
    return fault.label();
  }
  return "";
}

const std::string kAddBody =
    "({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): %z = stablehlo.add %x, %y : tensor<f32> "
    "\"stablehlo.return\"(%z) : (tensor<f32>) -> () })";
// A computation of the wrong type.
const std::string kWrongBody =
    "({ ^bb0(%x: tensor<f32>, %y: tensor<i32>): \"stablehlo.return\"(%x) : (tensor<f32>) -> () })";
const std::string kLessBody =
    "({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): %z = stablehlo.compare LT, %x, %y : (tensor<f32>, "
    "tensor<f32>) -> "
    "tensor<i1> \"stablehlo.return\"(%z) : (tensor<i1>) -> () })";

std::string region(const std::string& returned, const std::string& type) {
  return fmt::format("({{ \"stablehlo.return\"({}) : ({}) -> () }})", returned, type);
}

// Ops of one or two operands whose shapes are the same.
void add_elementwise(std::vector<Case>& cases) {
  struct Row {
    const char* ops;
    const char* element;
    int operands;
  };
  constexpr Row kRows[] = {
      {"cbrt ceil cosine exponential exponential_minus_one floor log log_plus_one logistic negate "
       "round_nearest_afz round_nearest_even rsqrt sign sine sqrt tan tanh abs is_finite real imag",
       "f32", 1},
      {"count_leading_zeros not popcnt", "i32", 1},
      {"add atan2 divide maximum minimum multiply power remainder subtract complex", "f32", 2},
      {"and or xor shift_left shift_right_arithmetic shift_right_logical", "i32", 2}};
  for (const Row& row : kRows) {
    std::string name;
    for (const char letter : std::string(row.ops) + " ") {
      if (letter != ' ') {
        name += letter;
        continue;
      }
      const std::string type = fmt::format("tensor<4x{}>", row.element);
      const std::string wrong = fmt::format("tensor<5x{}>", name == "is_finite" ? "i1" : row.element);
      const std::string second = fmt::format("tensor<5x{}>", row.element);
      if (row.operands == 1)
        cases.push_back(
            {name + ".C1", type, fmt::format("\"stablehlo.{}\"(%a0) : ({}) -> {}", name, type, wrong)});
      else
        cases.push_back({name + ".C1", type + "|" + second,
                         fmt::format("\"stablehlo.{}\"(%a0, %a1) : ({}, {}) -> {}", name, type, second,
                                     name == "complex" ? "tensor<4xcomplex<f32>>" : type)});
      name.clear();
    }
  }
}

std::string dot(const std::string& numbers, const std::string& types, const std::string& more = "") {
  return fmt::format(
      "\"stablehlo.dot_general\"(%a0, %a1) {{dot_dimension_numbers = #stablehlo.dot<{}>{}}} : {}", numbers,
      more, types);
}

void add_dot_general(std::vector<Case>& cases) {
  const std::string args = "tensor<2x3x4xf32>|tensor<2x4x5xf32>";
  const std::string types = "(tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>";
  const auto numbers = [](const char* lb, const char* rb, const char* lc, const char* rc) {
    return fmt::format(
        "lhs_batching_dimensions = [{}], rhs_batching_dimensions = [{}], lhs_contracting_dimensions = [{}], "
        "rhs_contracting_dimensions = [{}]",
        lb, rb, lc, rc);
  };
  const auto add = [&](int c, const std::string& n) {
    cases.push_back({fmt::format("dot_general.C{}", c), args, dot(n, types)});
  };
  add(1, numbers("0", "", "2", "1"));
  add(2, numbers("0", "0", "2", ""));
  add(3, numbers("0", "0", "0", "1"));
  add(4, numbers("0", "0", "2", "0"));
  add(5, numbers("3", "0", "2", "1"));
  add(6, numbers("0", "0", "3", "1"));
  add(7, numbers("0", "3", "2", "1"));
  add(8, numbers("0", "0", "2", "3"));
  add(9, numbers("1", "0", "2", "1"));
  add(10, numbers("0", "0", "1", "1"));
  const std::string good = numbers("0", "0", "2", "1");
  cases.push_back({"dot_general.C11", args,
                   dot(good, types,
                       ", precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision "
                       "DEFAULT>, #stablehlo<precision DEFAULT>]")});
  cases.push_back(
      {"dot_general.C12", args, dot(good, "(tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x6xf32>")});
  cases.push_back({"dot_general.C13", "tensor<2x3x4xf32>|tensor<2x4x5xi32>",
                   dot(good, "(tensor<2x3x4xf32>, tensor<2x4x5xi32>) -> tensor<2x3x5xf32>")});
}

void add_convolution(std::vector<Case>& cases) {
  struct Conv {
    std::string strides = "1, 1", lhs_dilation = "1, 1", rhs_dilation = "1, 1", padding = "[[0, 0], [0, 0]]";
    std::string reversal = "false, false";
    std::string dims = "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]";
    std::string features = "1", batches = "1", lhs = "tensor<2x8x8x4xf32>", rhs = "tensor<3x3x4x6xf32>";
    std::string result = "tensor<2x6x6x6xf32>", precision = "";
  };
  const auto add = [&](int c, const Conv& v) {
    cases.push_back(
        {fmt::format("convolution.C{}", c), v.lhs + "|" + v.rhs,
         fmt::format(
             "\"stablehlo.convolution\"(%a0, %a1) {{window_strides = array<i64: {}>, padding = dense<{}> : "
             "tensor<{}x2xi64>, lhs_dilation = array<i64: {}>, rhs_dilation = array<i64: {}>, "
             "window_reversal = array<i1: {}>, dimension_numbers = #stablehlo.conv<{}>, feature_group_count "
             "= {} : i64, batch_group_count = {} : i64{}}} : ({}, {}) -> {}",
             v.strides, v.padding, v.padding.size() > 16 ? 3 - (v.padding == "[[0, 0], [0, 0]]" ? 1 : 0) : 2,
             v.lhs_dilation, v.rhs_dilation, v.reversal, v.dims, v.features, v.batches, v.precision, v.lhs,
             v.rhs, v.result)});
  };
  add(1, {.rhs = "tensor<3x4x6xf32>"});
  add(2, {.strides = "1"});
  add(3, {.strides = "0, 1"});
  add(4, {.padding = "[[0, 0], [0, 0], [0, 0]]"});
  add(5, {.lhs_dilation = "1"});
  add(6, {.lhs_dilation = "0, 1"});
  add(7, {.rhs_dilation = "1"});
  add(8, {.rhs_dilation = "0, 1"});
  add(9, {.reversal = "false"});
  add(10, {.batches = "3", .rhs = "tensor<3x3x4x6xf32>"});
  add(11, {.features = "3"});
  add(14, {.rhs = "tensor<3x3x5x6xf32>"});
  add(15, {.batches = "2", .rhs = "tensor<3x3x4x5xf32>"});
  add(16, {.features = "2", .rhs = "tensor<3x3x2x5xf32>"});
  add(21, {.features = "0"});
  add(22, {.batches = "0"});
  add(23, {.features = "2", .batches = "2"});
  add(25, {.result = "tensor<2x6x7x6xf32>"});
  add(27, {.rhs = "tensor<3x3x4x6xi32>"});
}

void add_gather(std::vector<Case>& cases) {
  const auto add = [&](int c, const char* offset, const char* collapsed, const char* batching,
                       const char* starts, const char* map, int vector, const char* sizes,
                       const char* result = "tensor<5x1x4xf32>") {
    cases.push_back(
        {fmt::format("gather.C{}", c), "tensor<3x4xf32>|tensor<5x2xi32>",
         fmt::format(
             "\"stablehlo.gather\"(%a0, %a1) {{dimension_numbers = #stablehlo.gather<offset_dims = [{}], "
             "collapsed_slice_dims = [{}], operand_batching_dims = [{}], start_indices_batching_dims = [{}], "
             "start_index_map = [{}], index_vector_dim = {}>, slice_sizes = array<i64: {}>}} : "
             "(tensor<3x4xf32>, tensor<5x2xi32>) -> {}",
             offset, collapsed, batching, starts, map, vector, sizes, result)});
  };
  add(1, "1", "", "", "", "0, 1", 1, "1, 4");
  add(2, "1, 2", "", "", "", "0, 1", 3, "1, 4");
  add(3, "1, 2", "", "", "", "0", 1, "1, 4");
  add(4, "2, 1", "", "", "", "0, 1", 1, "1, 4");
  add(5, "1, 3", "", "", "", "0, 1", 1, "1, 4");
  add(6, "", "1, 1", "", "", "0, 1", 1, "1, 4");
  add(7, "", "1, 0", "", "", "0, 1", 1, "1, 1");
  add(8, "1", "2", "", "", "0, 1", 1, "1, 4");
  add(9, "1", "1", "", "", "0, 1", 1, "1, 4");
  add(14, "1", "", "0", "2", "0, 1", 1, "1, 4");
  add(15, "1", "", "0", "1", "0, 1", 1, "1, 4");
  add(16, "1", "", "0", "", "0, 1", 1, "1, 4");
  add(17, "1", "", "0", "0", "0, 1", 1, "1, 4");
  add(18, "1, 2", "", "", "", "0, 0", 1, "1, 4");
  add(19, "1, 2", "", "", "", "0, 2", 1, "1, 4");
  add(20, "1, 2", "", "", "", "0, 1", 1, "1");
  add(21, "1, 2", "", "", "", "0, 1", 1, "1, 5");
  add(22, "1, 2", "", "", "", "0, 1", 1, "1, 4", "tensor<5x2x4xf32>");
  add(23, "1, 2", "", "", "", "0, 1", 1, "1, 4", "tensor<5x1x4xi32>");
}

void add_movement(std::vector<Case>& cases) {
  const std::vector<Case> more = {
      {"broadcast_in_dim.C1", "tensor<2xf32>",
       R"("stablehlo.broadcast_in_dim"(%a0) {broadcast_dimensions = array<i64: 0>} : (tensor<2xf32>) -> tensor<2xi32>)"},
      {"broadcast_in_dim.C2", "tensor<2xf32>",
       R"("stablehlo.broadcast_in_dim"(%a0) {broadcast_dimensions = array<i64: 0, 1>} : (tensor<2xf32>) -> tensor<2x2xf32>)"},
      {"broadcast_in_dim.C3", "tensor<2xf32>",
       R"("stablehlo.broadcast_in_dim"(%a0) {broadcast_dimensions = array<i64: 2>} : (tensor<2xf32>) -> tensor<2x2xf32>)"},
      {"broadcast_in_dim.C4", "tensor<2x2xf32>",
       R"("stablehlo.broadcast_in_dim"(%a0) {broadcast_dimensions = array<i64: 0, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>)"},
      {"broadcast_in_dim.C5", "tensor<2xf32>",
       R"("stablehlo.broadcast_in_dim"(%a0) {broadcast_dimensions = array<i64: 0>} : (tensor<2xf32>) -> tensor<3xf32>)"},
      {"reshape.C1", "tensor<2xf32>", R"("stablehlo.reshape"(%a0) : (tensor<2xf32>) -> tensor<2xi32>)"},
      {"reshape.C2", "tensor<2xf32>", R"("stablehlo.reshape"(%a0) : (tensor<2xf32>) -> tensor<3xf32>)"},
      {"transpose.C1", "tensor<2x3xf32>",
       R"("stablehlo.transpose"(%a0) {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xi32>)"},
      {"transpose.C2", "tensor<2x3xf32>",
       R"("stablehlo.transpose"(%a0) {permutation = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<3x2xf32>)"},
      {"transpose.C3", "tensor<2x3xf32>",
       R"("stablehlo.transpose"(%a0) {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>)"},
      {"reverse.C1", "tensor<2xf32>",
       R"("stablehlo.reverse"(%a0) {dimensions = array<i64: 0>} : (tensor<2xf32>) -> tensor<3xf32>)"},
      {"reverse.C2", "tensor<2xf32>",
       R"("stablehlo.reverse"(%a0) {dimensions = array<i64: 0, 0>} : (tensor<2xf32>) -> tensor<2xf32>)"},
      {"reverse.C3", "tensor<2xf32>",
       R"("stablehlo.reverse"(%a0) {dimensions = array<i64: 1>} : (tensor<2xf32>) -> tensor<2xf32>)"},
      {"pad.C1", "tensor<2xf32>|tensor<i32>",
       R"("stablehlo.pad"(%a0, %a1) {edge_padding_low = array<i64: 0>, edge_padding_high = array<i64: 0>, interior_padding = array<i64: 0>} : (tensor<2xf32>, tensor<i32>) -> tensor<2xf32>)"},
      {"pad.C2", "tensor<2xf32>|tensor<f32>",
       R"("stablehlo.pad"(%a0, %a1) {edge_padding_low = array<i64: 0, 0>, edge_padding_high = array<i64: 0>, interior_padding = array<i64: 0>} : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>)"},
      {"pad.C3", "tensor<2xf32>|tensor<f32>",
       R"("stablehlo.pad"(%a0, %a1) {edge_padding_low = array<i64: 0>, edge_padding_high = array<i64: 0>, interior_padding = array<i64: -1>} : (tensor<2xf32>, tensor<f32>) -> tensor<1xf32>)"},
      {"pad.C4", "tensor<2xf32>|tensor<f32>",
       R"("stablehlo.pad"(%a0, %a1) {edge_padding_low = array<i64: 1>, edge_padding_high = array<i64: 0>, interior_padding = array<i64: 0>} : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>)"},
      {"slice.C1", "tensor<4xf32>",
       R"("stablehlo.slice"(%a0) {start_indices = array<i64: 0>, limit_indices = array<i64: 2>, strides = array<i64: 1>} : (tensor<4xf32>) -> tensor<2xi32>)"},
      {"slice.C2", "tensor<4xf32>",
       R"("stablehlo.slice"(%a0) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 2>, strides = array<i64: 1>} : (tensor<4xf32>) -> tensor<2xf32>)"},
      {"slice.C3", "tensor<4xf32>",
       R"("stablehlo.slice"(%a0) {start_indices = array<i64: 0>, limit_indices = array<i64: 5>, strides = array<i64: 1>} : (tensor<4xf32>) -> tensor<5xf32>)"},
      {"slice.C4", "tensor<4xf32>",
       R"("stablehlo.slice"(%a0) {start_indices = array<i64: 0>, limit_indices = array<i64: 4>, strides = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>)"},
      {"slice.C5", "tensor<4xf32>",
       R"("stablehlo.slice"(%a0) {start_indices = array<i64: 0>, limit_indices = array<i64: 3>, strides = array<i64: 2>} : (tensor<4xf32>) -> tensor<3xf32>)"},
      {"concatenate.C1", "tensor<4xf32>|tensor<4xi32>",
       R"("stablehlo.concatenate"(%a0, %a1) {dimension = 0 : i64} : (tensor<4xf32>, tensor<4xi32>) -> tensor<8xf32>)"},
      {"concatenate.C2", "tensor<4x2xf32>|tensor<4x3xf32>",
       R"("stablehlo.concatenate"(%a0, %a1) {dimension = 0 : i64} : (tensor<4x2xf32>, tensor<4x3xf32>) -> tensor<8x2xf32>)"},
      {"concatenate.C4", "tensor<4xf32>",
       R"("stablehlo.concatenate"(%a0) {dimension = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>)"},
      {"concatenate.C5", "tensor<4xf32>",
       R"("stablehlo.concatenate"(%a0) {dimension = 0 : i64} : (tensor<4xf32>) -> tensor<4xi32>)"},
      {"concatenate.C6", "tensor<4xf32>|tensor<4xf32>",
       R"("stablehlo.concatenate"(%a0, %a1) {dimension = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<7xf32>)"},
      {"iota.C1", "", R"("stablehlo.iota"() {iota_dimension = 1 : i64} : () -> tensor<4xf32>)"},
      {"constant.C1", "",
       R"("stablehlo.constant"() {value = dense<1.0> : tensor<4xf32>} : () -> tensor<5xf32>)"},
      {"convert.C1", "tensor<4xf32>", R"("stablehlo.convert"(%a0) : (tensor<4xf32>) -> tensor<5xi32>)"},
      {"bitcast_convert.C1", "tensor<4xf32>",
       R"("stablehlo.bitcast_convert"(%a0) : (tensor<4xf32>) -> tensor<5xi32>)"},
      {"bitcast_convert.C2", "tensor<4xcomplex<f32>>",
       R"("stablehlo.bitcast_convert"(%a0) : (tensor<4xcomplex<f32>>) -> tensor<4xf64>)"},
      {"compare.C1", "tensor<4xf32>|tensor<4xi32>",
       R"("stablehlo.compare"(%a0, %a1) {comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xi1>)"},
      {"compare.C2", "tensor<4xf32>|tensor<5xf32>",
       R"("stablehlo.compare"(%a0, %a1) {comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xi1>)"},
      {"compare.C3", "tensor<4xf32>|tensor<4xf32>",
       R"("stablehlo.compare"(%a0, %a1) {comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type SIGNED>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>)"},
      {"clamp.C1", "tensor<2xf32>|tensor<4xf32>|tensor<f32>",
       R"("stablehlo.clamp"(%a0, %a1, %a2) : (tensor<2xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>)"},
      {"clamp.C2", "tensor<f32>|tensor<4xf32>|tensor<2xf32>",
       R"("stablehlo.clamp"(%a0, %a1, %a2) : (tensor<f32>, tensor<4xf32>, tensor<2xf32>) -> tensor<4xf32>)"},
      {"clamp.C3", "tensor<i32>|tensor<4xf32>|tensor<f32>",
       R"("stablehlo.clamp"(%a0, %a1, %a2) : (tensor<i32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>)"},
      {"clamp.C4", "tensor<f32>|tensor<4xf32>|tensor<f32>",
       R"("stablehlo.clamp"(%a0, %a1, %a2) : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<5xf32>)"},
      {"select.C1", "tensor<3xi1>|tensor<4xf32>|tensor<4xf32>",
       R"("stablehlo.select"(%a0, %a1, %a2) : (tensor<3xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>)"},
      {"select.C2", "tensor<4xi1>|tensor<4xf32>|tensor<4xi32>",
       R"("stablehlo.select"(%a0, %a1, %a2) : (tensor<4xi1>, tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>)"},
      {"dynamic_slice.C1", "tensor<4xf32>|tensor<i32>",
       R"("stablehlo.dynamic_slice"(%a0, %a1) {slice_sizes = array<i64: 2>} : (tensor<4xf32>, tensor<i32>) -> tensor<2xi32>)"},
      {"dynamic_slice.C2", "tensor<4xf32>|tensor<i32>",
       R"("stablehlo.dynamic_slice"(%a0, %a1) {slice_sizes = array<i64: 2, 2>} : (tensor<4xf32>, tensor<i32>) -> tensor<2xf32>)"},
      {"dynamic_slice.C3", "tensor<4x4xf32>|tensor<i32>|tensor<i64>",
       R"("stablehlo.dynamic_slice"(%a0, %a1, %a2) {slice_sizes = array<i64: 2, 2>} : (tensor<4x4xf32>, tensor<i32>, tensor<i64>) -> tensor<2x2xf32>)"},
      {"dynamic_slice.C4", "tensor<4xf32>|tensor<i32>",
       R"("stablehlo.dynamic_slice"(%a0, %a1) {slice_sizes = array<i64: 5>} : (tensor<4xf32>, tensor<i32>) -> tensor<5xf32>)"},
      {"dynamic_slice.C5", "tensor<4xf32>|tensor<i32>",
       R"("stablehlo.dynamic_slice"(%a0, %a1) {slice_sizes = array<i64: 2>} : (tensor<4xf32>, tensor<i32>) -> tensor<3xf32>)"},
      {"dynamic_update_slice.C1", "tensor<4xf32>|tensor<2xf32>|tensor<i32>",
       R"("stablehlo.dynamic_update_slice"(%a0, %a1, %a2) : (tensor<4xf32>, tensor<2xf32>, tensor<i32>) -> tensor<5xf32>)"},
      {"dynamic_update_slice.C2", "tensor<4xf32>|tensor<2xi32>|tensor<i32>",
       R"("stablehlo.dynamic_update_slice"(%a0, %a1, %a2) : (tensor<4xf32>, tensor<2xi32>, tensor<i32>) -> tensor<4xf32>)"},
      {"dynamic_update_slice.C3", "tensor<4xf32>|tensor<2x2xf32>|tensor<i32>",
       R"("stablehlo.dynamic_update_slice"(%a0, %a1, %a2) : (tensor<4xf32>, tensor<2x2xf32>, tensor<i32>) -> tensor<4xf32>)"},
      {"dynamic_update_slice.C4", "tensor<4xf32>|tensor<2xf32>",
       R"("stablehlo.dynamic_update_slice"(%a0, %a1) : (tensor<4xf32>, tensor<2xf32>) -> tensor<4xf32>)"},
      {"dynamic_update_slice.C5", "tensor<4x4xf32>|tensor<2x2xf32>|tensor<i32>|tensor<i64>",
       R"("stablehlo.dynamic_update_slice"(%a0, %a1, %a2, %a3) : (tensor<4x4xf32>, tensor<2x2xf32>, tensor<i32>, tensor<i64>) -> tensor<4x4xf32>)"},
      {"dynamic_update_slice.C6", "tensor<4xf32>|tensor<5xf32>|tensor<i32>",
       R"("stablehlo.dynamic_update_slice"(%a0, %a1, %a2) : (tensor<4xf32>, tensor<5xf32>, tensor<i32>) -> tensor<4xf32>)"},
      {"get_dimension_size.C1", "tensor<4xf32>",
       R"("stablehlo.get_dimension_size"(%a0) {dimension = 1 : i64} : (tensor<4xf32>) -> tensor<i32>)"},
      {"reduce_precision.C2", "tensor<4xf32>",
       R"("stablehlo.reduce_precision"(%a0) {exponent_bits = 0 : i32, mantissa_bits = 2 : i32} : (tensor<4xf32>) -> tensor<4xf32>)"},
      {"reduce_precision.C3", "tensor<4xf32>",
       R"("stablehlo.reduce_precision"(%a0) {exponent_bits = 2 : i32, mantissa_bits = -1 : i32} : (tensor<4xf32>) -> tensor<4xf32>)"},
      {"cholesky.C2", "tensor<4xf32>",
       R"("stablehlo.cholesky"(%a0) {lower = true} : (tensor<4xf32>) -> tensor<4xf32>)"},
      {"cholesky.C3", "tensor<4x3xf32>",
       R"("stablehlo.cholesky"(%a0) {lower = true} : (tensor<4x3xf32>) -> tensor<4x3xf32>)"},
      {"cholesky.C1", "tensor<4x4xf32>",
       R"("stablehlo.cholesky"(%a0) {lower = true} : (tensor<4x4xf32>) -> tensor<4x3xf32>)"},
      {"tuple.C1", "tensor<4xf32>", R"("stablehlo.tuple"(%a0) : (tensor<4xf32>) -> tuple<tensor<5xf32>>)"},
      {"get_tuple_element.C1", "tuple<tensor<4xf32>>",
       R"("stablehlo.get_tuple_element"(%a0) {index = 1 : i32} : (tuple<tensor<4xf32>>) -> tensor<4xf32>)"},
      {"get_tuple_element.C2", "tuple<tensor<4xf32>>",
       R"("stablehlo.get_tuple_element"(%a0) {index = 0 : i32} : (tuple<tensor<4xf32>>) -> tensor<5xf32>)"},
      {"optimization_barrier.C1", "tensor<4xf32>",
       R"("stablehlo.optimization_barrier"(%a0) : (tensor<4xf32>) -> tensor<5xf32>)"},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_regions(std::vector<Case>& cases) {
  const auto reduce = [&](int c, const std::string& args, const std::string& body, const char* dims,
                          const std::string& types) {
    cases.push_back({fmt::format("reduce.C{}", c), args,
                     fmt::format("\"stablehlo.reduce\"(%a0, %a1) {} {{dimensions = array<i64: {}>}} : {}",
                                 body, dims, types)});
  };
  reduce(2, "tensor<4xf32>|tensor<i32>", kAddBody, "0", "(tensor<4xf32>, tensor<i32>) -> tensor<f32>");
  reduce(4, "tensor<4xf32>|tensor<f32>", kAddBody, "1", "(tensor<4xf32>, tensor<f32>) -> tensor<f32>");
  reduce(5, "tensor<4xf32>|tensor<f32>", kAddBody, "0, 0", "(tensor<4xf32>, tensor<f32>) -> tensor<f32>");
  reduce(6, "tensor<4xf32>|tensor<f32>", kWrongBody, "0", "(tensor<4xf32>, tensor<f32>) -> tensor<f32>");
  reduce(7, "tensor<4xf32>|tensor<f32>", kAddBody, "0", "(tensor<4xf32>, tensor<f32>) -> tensor<4xf32>");
  reduce(8, "tensor<4xf32>|tensor<f32>", kAddBody, "0", "(tensor<4xf32>, tensor<f32>) -> tensor<i32>");
  const auto window = [&](int c, const char* sizes, const char* strides, const char* base,
                          const char* dilations, const char* padding, const char* result = "tensor<3xf32>",
                          const std::string& body = kAddBody) {
    cases.push_back(
        {fmt::format("reduce_window.C{}", c), "tensor<4xf32>|tensor<f32>",
         fmt::format("\"stablehlo.reduce_window\"(%a0, %a1) {} {{window_dimensions = array<i64: {}>, "
                     "window_strides = array<i64: {}>, base_dilations = array<i64: {}>, window_dilations "
                     "= array<i64: {}>, padding = dense<0> : tensor<{}x2xi64>}} : (tensor<4xf32>, "
                     "tensor<f32>) -> {}",
                     body, sizes, strides, base, dilations, padding, result)});
  };
  window(4, "2, 2", "1", "1", "1", "1");
  window(5, "0", "1", "1", "1", "1");
  window(6, "2", "1, 1", "1", "1", "1");
  window(7, "2", "0", "1", "1", "1");
  window(8, "2", "1", "1, 1", "1", "1");
  window(9, "2", "1", "0", "1", "1");
  window(10, "2", "1", "1", "1, 1", "1");
  window(11, "2", "1", "1", "0", "1");
  window(12, "2", "1", "1", "1", "2");
  window(13, "2", "1", "1", "1", "1", "tensor<3xf32>", kWrongBody);
  window(15, "2", "1", "1", "1", "1", "tensor<4xf32>");
  window(16, "2", "1", "1", "1", "1", "tensor<3xi32>");
  const std::vector<Case> more = {
      {"sort.C2", "tensor<4xf32>",
       fmt::format("\"stablehlo.sort\"(%a0) {} {{dimension = 0 : i64}} : (tensor<4xf32>) -> tensor<5xf32>",
                   kLessBody)},
      {"sort.C4", "tensor<4xf32>",
       fmt::format("\"stablehlo.sort\"(%a0) {} {{dimension = 1 : i64}} : (tensor<4xf32>) -> tensor<4xf32>",
                   kLessBody)},
      {"sort.C5", "tensor<4xf32>",
       fmt::format("\"stablehlo.sort\"(%a0) {} {{dimension = 0 : i64}} : (tensor<4xf32>) -> tensor<4xf32>",
                   kAddBody)},
      {"map.C1", "tensor<4xf32>|tensor<5xf32>",
       fmt::format("\"stablehlo.map\"(%a0, %a1) {} {{dimensions = array<i64: 0>}} : (tensor<4xf32>, "
                   "tensor<5xf32>) -> tensor<4xf32>",
                   kAddBody)},
      {"map.C3", "tensor<4xf32>|tensor<4xf32>",
       fmt::format("\"stablehlo.map\"(%a0, %a1) {} {{dimensions = array<i64: 1>}} : (tensor<4xf32>, "
                   "tensor<4xf32>) -> tensor<4xf32>",
                   kAddBody)},
      {"map.C4", "tensor<4xf32>|tensor<4xf32>",
       fmt::format("\"stablehlo.map\"(%a0, %a1) {} {{dimensions = array<i64: 0>}} : (tensor<4xf32>, "
                   "tensor<4xf32>) -> tensor<4xf32>",
                   kWrongBody)},
      {"if.C2", "tensor<i1>|tensor<2xf32>|tensor<3xf32>",
       fmt::format("\"stablehlo.if\"(%a0) ({}, {}) : (tensor<i1>) -> tensor<2xf32>",
                   region("%a1", "tensor<2xf32>").substr(1, region("%a1", "tensor<2xf32>").size() - 2),
                   region("%a2", "tensor<3xf32>").substr(1, region("%a2", "tensor<3xf32>").size() - 2))},
      {"if.C3", "tensor<i1>|tensor<2xf32>",
       R"("stablehlo.if"(%a0) ({ "stablehlo.return"(%a1) : (tensor<2xf32>) -> () }, { "stablehlo.return"(%a1) : (tensor<2xf32>) -> () }) : (tensor<i1>) -> tensor<3xf32>)"},
      {"case.C3", "tensor<i32>|tensor<2xf32>|tensor<3xf32>",
       R"("stablehlo.case"(%a0) ({ "stablehlo.return"(%a1) : (tensor<2xf32>) -> () }, { "stablehlo.return"(%a2) : (tensor<3xf32>) -> () }) : (tensor<i32>) -> tensor<2xf32>)"},
      {"case.C4", "tensor<i32>|tensor<2xf32>",
       R"("stablehlo.case"(%a0) ({ "stablehlo.return"(%a1) : (tensor<2xf32>) -> () }) : (tensor<i32>) -> tensor<3xf32>)"},
      {"while.C1", "tensor<f32>",
       R"("stablehlo.while"(%a0) ({ ^bb0(%x: tensor<f32>): "stablehlo.return"(%x) : (tensor<f32>) -> () }, { ^bb0(%x: tensor<f32>): "stablehlo.return"(%x) : (tensor<f32>) -> () }) : (tensor<f32>) -> tensor<f32>)"},
      {"while.C2", "tensor<i1>",
       R"("stablehlo.while"(%a0) ({ ^bb0(%x: tensor<i1>): "stablehlo.return"(%x) : (tensor<i1>) -> () }, { ^bb0(%x: tensor<f32>): "stablehlo.return"(%x) : (tensor<f32>) -> () }) : (tensor<i1>) -> tensor<i1>)"},
      {"while.C3", "tensor<i1>",
       R"("stablehlo.while"(%a0) ({ ^bb0(%x: tensor<i1>): "stablehlo.return"(%x) : (tensor<i1>) -> () }, { ^bb0(%x: tensor<i1>): "stablehlo.return"(%x) : (tensor<i1>) -> () }) : (tensor<i1>) -> tensor<2xi1>)"},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> made;
    add_elementwise(made);
    add_dot_general(made);
    add_convolution(made);
    add_gather(made);
    add_movement(made);
    add_regions(made);
    return made;
  }();
  return cases;
}

TEST(ShapeRules, EveryCaseBreaksItsConstraint) {
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.label);
    try {
      EXPECT_EQ(label_of(c), c.label) << program(c);
    } catch (const Fault& fault) {
      ADD_FAILURE() << "does not parse: " << fault.what() << "\n" << program(c);
    }
  }
}

// Labels without a program here. Taking one off this list, or adding a constraint, means adding a case.
std::set<std::string> without_case() {
  // clang-format off: one op a line.
  static const std::map<std::string, std::vector<int>> kNumbers{
      {"abs", {2}},
      {"add", {2, 3, 4, 5, 6, 7}},
      {"all_gather", {1, 2, 3, 4, 5, 6}},
      {"all_reduce", {1, 2, 3, 4, 5, 6, 7}},
      {"all_to_all", {1, 2, 3, 4, 5, 6, 7, 8, 9}},
      {"async_done", {1}},
      {"async_start", {1, 2, 3, 4}},
      {"batch_norm_grad", {1, 2, 3, 4, 5}},
      {"batch_norm_inference", {1, 2, 3, 4, 5, 6, 7}},
      {"batch_norm_training", {1, 2, 3, 4, 5, 6, 7}},
      {"broadcast_in_dim", {6}},
      {"case", {1, 2}},
      {"collective_broadcast", {1, 2, 3, 4, 5, 6}},
      {"collective_permute", {1, 2, 3, 4, 5}},
      {"collective_reduce", {1, 2, 3, 4}},
      {"complex", {2, 3}},
      {"composite", {1, 2, 3, 4}},
      {"concatenate", {3}},
      {"convolution", {12, 13, 17, 18, 19, 20, 24, 26, 28, 29, 30, 31, 32, 33, 34}},
      {"dot_general", {14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24}},
      {"dynamic_broadcast_in_dim", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
      {"dynamic_conv", {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17,
                        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34}},
      {"dynamic_gather", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}},
      {"dynamic_iota", {1, 2}},
      {"dynamic_pad", {1, 2, 3, 4}},
      {"dynamic_reshape", {1, 2, 3, 4}},
      {"fft", {1, 2, 3, 4, 5}},
      {"gather", {10, 11, 12, 13}},
      {"if", {1}},
      {"imag", {2}},
      {"infeed", {1, 2, 3}},
      {"map", {2}},
      {"real", {2}},
      {"recv", {1, 2, 3, 4, 5}},
      {"reduce", {1, 3}},
      {"reduce_precision", {1}},
      {"reduce_scatter", {1, 2, 3, 4, 5, 6, 7, 8, 9}},
      {"reduce_window", {1, 2, 3, 14}},
      {"reshape", {3}},
      {"rng", {1, 2, 3}},
      {"rng_bit_generator", {1, 2}},
      {"scatter",
       {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25}},
      {"select_and_scatter", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
      {"send", {1, 2, 3, 4, 5}},
      {"sort", {1, 3}},
      {"transpose", {4}},
      {"triangular_solve", {1, 2, 3, 4}},
      {"uniform_dequantize", {1, 2}},
      {"uniform_quantize", {1, 2}},
  };
  // clang-format on
  std::set<std::string> labels;
  for (const auto& [op, numbers] : kNumbers)
    for (const int n : numbers) labels.insert(fmt::format("{}.C{}", op, n));
  return labels;
}

TEST(ShapeRules, EveryLabelHasACaseOrIsListed) {
  std::set<std::string> covered;
  for (const Case& c : all_cases()) covered.insert(c.label);
  std::set<std::string> missing;
  for (int i = 0; i < kOpKindCount; ++i) {
    const auto kind = static_cast<OpKind>(i);
    std::string op(name(kind));
    if (op.starts_with("stablehlo.")) op.erase(0, 10);
    for (int n = 1; n <= constraint_count(kind); ++n)
      if (const std::string label = fmt::format("{}.C{}", op, n); !covered.contains(label))
        missing.insert(label);
  }
  EXPECT_TRUE(missing == without_case()) << fmt::format("without a case: {}", fmt::join(missing, " "));
}

}  // namespace
}  // namespace opentrn::graph
