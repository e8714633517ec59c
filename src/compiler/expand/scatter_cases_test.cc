// Programs of gathers and scatters, for the test of expansions (expand_ops_test.cc).
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "compiler/expand/expansion_cases.h"

namespace opentrn::compiler {

namespace {

std::string scatter_of(const std::string& dims, const std::string& body) {
  return "%r = \"stablehlo.scatter\"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<" + dims +
         ">}>" + body;
}

// %r [32, 40]: of row i the place that j - i says; rows are a dimension of batches.
std::string differences() {
  std::string list;
  for (int i = 0; i < 32; ++i) {
    list += i == 0 ? "[[" : "], [";
    for (int j = 0; j < 40; ++j)
      list += fmt::format("{}[{}]", j == 0 ? "" : ", ", std::clamp(4 + (j - i) / 3, 0, 8));
  }
  return "%i = stablehlo.constant dense<" + list + "]]> : tensor<32x40x1xi32>\n" +
         R"(%r = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [],
      collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0],
      start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>}> :
      (tensor<32x9xf32>, tensor<32x40x1xi32>) -> tensor<32x40xf32>)";
}

// %r: a gather of x [table] at a coordinate of each dimension by two ops, %p0 and %p1 of [places, 1].
std::string places_of(const std::string& places, const std::vector<std::string>& ops,
                      const std::string& table, const std::string& behind = "",
                      const std::string& offsets = "offset_dims = [], ", const std::string& sizes = "") {
  const std::string one = "tensor<" + places + "x1xi32>", two = "tensor<" + places + "x2xi32>";
  return fmt::format("{}\n{}\n%p = stablehlo.concatenate %p0, %p1, dim = 2 : ({}, {}) -> {}\n", ops[0],
                     ops[1], one, one, two) +
         "%r = \"stablehlo.gather\"(%x, %p) <{dimension_numbers = #stablehlo.gather<" + offsets +
         "collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 2>, "
         "slice_sizes = array<i64: 1, 1" +
         sizes + ">}> : (tensor<" + table + "xf32>, " + two + ") -> tensor<" + places + behind + "xf32>";
}

}  // namespace

std::vector<ExpansionCase> scatter_and_gather_cases() {
  const std::string
      add_f = region("f32", "%s = stablehlo.add %p, %q : tensor<f32>"),
      add_i = region("i32", "%s = stablehlo.add %p, %q : tensor<i32>"),
      rows =
          "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
          "index_vector_dim = 1";
  const std::string two = "%i = stablehlo.constant dense<[[2], [0]]> : tensor<2x1xi32>\n";
  const std::string replaces =
      " ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): stablehlo.return %q : tensor<f32> }) : ";
  const std::string two_components =
      "%i = stablehlo.constant dense<[[0, 1], [2, 4], [0, 1], [7, 0]]> : tensor<4x2xi32>\n";
  // A hundred numbers at sixteen places, three of which lie outside.
  const auto extremes = [&](const std::string& element, const std::string& op, double limit) {
    return ExpansionCase{
        "%x: tensor<13x" + element + ">, %u: tensor<100x" + element + ">", "tensor<13x" + element + ">",
        "%n = stablehlo.iota dim = 0 : tensor<100x1xi32>\n%m = stablehlo.constant dense<15> : "
        "tensor<100x1xi32>\n%o = stablehlo.constant dense<1> : tensor<100x1xi32>\n"
        "%a = stablehlo.and %n, %m : tensor<100x1xi32>\n%i = stablehlo.subtract %a, %o : "
        "tensor<100x1xi32>\n" +
            scatter_of("inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1",
                       region(element, "%s = stablehlo." + op + " %p, %q : tensor<" + element + ">")) +
            fmt::format("(tensor<13x{0}>, tensor<100x1xi32>, tensor<100x{0}>) -> tensor<13x{0}>", element),
        0, limit};
  };
  // Rows at places from -1 to 14 of a table of 13.
  const auto extreme_rows = [&](const std::string& op) {
    return ExpansionCase{
        "%x: tensor<13x3xf32>, %u: tensor<600x3xf32>", "tensor<13x3xf32>",
        "%n = stablehlo.iota dim = 0 : tensor<600x1xi32>\n%f = stablehlo.constant dense<7> : "
        "tensor<600x1xi32>\n%k = stablehlo.multiply %n, %f : tensor<600x1xi32>\n%m = stablehlo.constant "
        "dense<15> : tensor<600x1xi32>\n%o = stablehlo.constant dense<1> : tensor<600x1xi32>\n"
        "%a = stablehlo.and %k, %m : tensor<600x1xi32>\n%i = stablehlo.subtract %a, %o : "
        "tensor<600x1xi32>\n" +
            scatter_of(rows, region("f32", "%s = stablehlo." + op + " %p, %q : tensor<f32>")) +
            "(tensor<13x3xf32>, tensor<600x1xi32>, tensor<600x3xf32>) -> tensor<13x3xf32>"};
  };
  // Places 0 to 3 of lines of five.
  const auto in_lines = [&](const std::string& table, const std::string& updates, const std::string& dims,
                            const std::string& body) {
    return ExpansionCase{
        "%x: tensor<" + table + "xf32>, %u: tensor<" + updates + "xf32>", "tensor<" + table + "xf32>",
        fmt::format("%a = stablehlo.iota dim = 0 : tensor<{0}x1xi32>\n%b = stablehlo.iota dim = 1 : "
                    "tensor<{0}x1xi32>\n%c = stablehlo.add %a, %b : tensor<{0}x1xi32>\n"
                    "%m = stablehlo.constant dense<3> : tensor<{0}x1xi32>\n"
                    "%i = stablehlo.and %c, %m : tensor<{0}x1xi32>\n",
                    updates) +
            scatter_of(dims, body) +
            fmt::format("(tensor<{0}xf32>, tensor<{1}x1xi32>, tensor<{1}xf32>) -> tensor<{0}xf32>", table,
                        updates),
        1e-6};
  };
  // A column, and columns outside at both ends, which stay as they are.
  const auto column = [&](const std::string& number) {
    return ExpansionCase{
        "%x: tensor<17x5xf32>, %u: tensor<17xf32>", "tensor<17x5xf32>",
        "%i = stablehlo.constant dense<" + number + "> : tensor<1xi32>\n" +
            scatter_of(
                "update_window_dims = [0], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1]",
                replaces) +
            "(tensor<17x5xf32>, tensor<1xi32>, tensor<17xf32>) -> tensor<17x5xf32>"};
  };
  return {
      column("3"),
      column("5"),
      column("-1"),
      {"%x: tensor<20x3x9xf32>, %u: tensor<1x16x2xf32>", "tensor<20x3x9xf32>",
       "%i = stablehlo.constant dense<[[2, 4, 1]]> : tensor<1x3xi32>\n" +
           scatter_of(
               "update_window_dims = [1, 2], inserted_window_dims = [1], scatter_dims_to_operand_dims = "
               "[2, 0, 1], index_vector_dim = 1",
               replaces) +
           "(tensor<20x3x9xf32>, tensor<1x3xi32>, tensor<1x16x2xf32>) -> tensor<20x3x9xf32>"},
      {"%x: tensor<3x5xf32>, %u: tensor<4xf32>", "tensor<3x5xf32>",
       "%i = stablehlo.constant dense<[[0, 1], [2, 4], [0, 1], [7, 0]]> : tensor<4x2xi32>\n" +
           scatter_of(
               "inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1",
               add_f) +
           "(tensor<3x5xf32>, tensor<4x2xi32>, tensor<4xf32>) -> tensor<3x5xf32>",
       1e-6},
      // rows at places of two components, some outside, some twice
      {"%x: tensor<3x5x2xf32>, %u: tensor<4x2xf32>", "tensor<3x5x2xf32>",
       two_components +
           scatter_of("update_window_dims = [1], inserted_window_dims = [0, 1], "
                      "scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1",
                      add_f) +
           "(tensor<3x5x2xf32>, tensor<4x2xi32>, tensor<4x2xf32>) -> tensor<3x5x2xf32>",
       1e-6},
      {"%x: tensor<5x3x2xi32>, %u: tensor<2x4xi32>", "tensor<5x3x2xi32>",
       two_components +
           scatter_of("update_window_dims = [0], inserted_window_dims = [0, 1], "
                      "scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 1",
                      region("i32", "%s = stablehlo.minimum %p, %q : tensor<i32>")) +
           "(tensor<5x3x2xi32>, tensor<4x2xi32>, tensor<2x4xi32>) -> tensor<5x3x2xi32>",
       0, 2e9},
      {"%x: tensor<3x5xf32>, %u: tensor<4xf32>", "tensor<3x5xf32>",
       two_components +
           scatter_of(
               "inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1",
               replaces) +
           "(tensor<3x5xf32>, tensor<4x2xi32>, tensor<4xf32>) -> tensor<3x5xf32>"},
      // a number for each element of rows, of which the second component counts; some rows outside, some
      // twice
      {"%x: tensor<7x24xf32>, %u: tensor<24x16xf32>", "tensor<7x24xf32>",
       "%n = stablehlo.iota dim = 1 : tensor<24x16x1xi32>\n%c = stablehlo.iota dim = 0 : "
       "tensor<24x16x1xi32>\n"
       "%m = stablehlo.constant dense<9> : tensor<24x16x1xi32>\n%a = stablehlo.and %n, %m : "
       "tensor<24x16x1xi32>\n"
       "%i = stablehlo.concatenate %a, %c, dim = 2 : (tensor<24x16x1xi32>, tensor<24x16x1xi32>) -> "
       "tensor<24x16x2xi32>\n" +
           scatter_of(
               "inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 2",
               add_f) +
           "(tensor<7x24xf32>, tensor<24x16x2xi32>, tensor<24x16xf32>) -> tensor<7x24xf32>",
       1e-5},
      // numbers in a list: the last of one place stays
      {"%x: tensor<9xf32>, %u: tensor<5xf32>", "tensor<9xf32>",
       "%i = stablehlo.constant dense<[[0], [2], [0], [-1], [9]]> : tensor<5x1xi32>\n" +
           scatter_of("inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1",
                      replaces) +
           "(tensor<9xf32>, tensor<5x1xi32>, tensor<5xf32>) -> tensor<9xf32>"},
      extremes("f32", "maximum", 100),
      extremes("i32", "minimum", 2e9),
      // few numbers in each of many lines
      in_lines(
          "6x5", "6x2",
          "inserted_window_dims = [1], input_batching_dims = [0], "
          "scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2",
          add_f),
      in_lines(
          "6x5", "6x2",
          "inserted_window_dims = [1], input_batching_dims = [0], "
          "scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2",
          replaces),
      in_lines(
          "5x6", "2x6",
          "inserted_window_dims = [0], input_batching_dims = [1], "
          "scatter_indices_batching_dims = [1], scatter_dims_to_operand_dims = [0], index_vector_dim = 2",
          add_f),
      // a region of two ops, of lines that are batches
      in_lines(
          "6x5", "6x2",
          "inserted_window_dims = [1], input_batching_dims = [0], "
          "scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2",
          region("f32",
                 "%t = stablehlo.multiply %p, %q : tensor<f32>\n%s = stablehlo.add %t, %q : tensor<f32>")),
      extreme_rows("maximum"),
      extreme_rows("minimum"),
      {"%x: tensor<3x5xf32>, %i: tensor<2x1xui8>, %u: tensor<2x5xf32>", "tensor<3x5xf32>",
       scatter_of(rows, region("f32", "%s = stablehlo.maximum %p, %q : tensor<f32>")) +
           "(tensor<3x5xf32>, tensor<2x1xui8>, tensor<2x5xf32>) -> tensor<3x5xf32>"},
      {"%x: tensor<9xi32>, %u: tensor<4xi32>", "tensor<9xi32>",
       "%i = stablehlo.constant dense<[[0], [2], [0], [8]]> : tensor<4x1xi32>\n" +
           scatter_of("inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1",
                      add_i) +
           "(tensor<9xi32>, tensor<4x1xi32>, tensor<4xi32>) -> tensor<9xi32>",
       0, 2e9},
      {"%u: tensor<4x3xbf16>", "tensor<9x3xbf16>",
       "%i = stablehlo.constant dense<[[0], [2], [0], [8]]> : tensor<4x1xi32>\n"
       "%x = stablehlo.constant dense<1.0> : tensor<9x3xbf16>\n" +
           scatter_of(rows, region("bf16", "%s = stablehlo.add %p, %q : tensor<bf16>")) +
           "(tensor<9x3xbf16>, tensor<4x1xi32>, tensor<4x3xbf16>) -> tensor<9x3xbf16>",
       0.05},
      {"%x: tensor<9x3xbf16>, %u: tensor<4x3xbf16>", "tensor<9x3xbf16>",
       "%i = stablehlo.constant dense<[[0], [2], [0], [8]]> : tensor<4x1xi32>\n" +
           scatter_of(rows, region("bf16", "%s = stablehlo.add %p, %q : tensor<bf16>")) +
           "(tensor<9x3xbf16>, tensor<4x1xi32>, tensor<4x3xbf16>) -> tensor<9x3xbf16>",
       0.05},
      // more windows than the kernel unrolls
      {"%x: tensor<9x2xf32>, %u: tensor<4100x2xf32>", "tensor<9x2xf32>",
       "%n = stablehlo.iota dim = 0 : tensor<4100x1xi32>\n%m = stablehlo.constant dense<7> : "
       "tensor<4100x1xi32>\n"
       "%i = stablehlo.and %n, %m : tensor<4100x1xi32>\n" +
           scatter_of(rows, region("f32", "%s = stablehlo.maximum %p, %q : tensor<f32>")) +
           "(tensor<9x2xf32>, tensor<4100x1xi32>, tensor<4100x2xf32>) -> tensor<9x2xf32>"},
      {"%x: tensor<9x2xi32>, %u: tensor<4100x2xi32>", "tensor<9x2xi32>",
       "%n = stablehlo.iota dim = 0 : tensor<4100x1xi32>\n%m = stablehlo.constant dense<7> : "
       "tensor<4100x1xi32>\n"
       "%i = stablehlo.and %n, %m : tensor<4100x1xi32>\n" +
           scatter_of(rows, region("i32", "%s = stablehlo.maximum %p, %q : tensor<i32>")) +
           "(tensor<9x2xi32>, tensor<4100x1xi32>, tensor<4100x2xi32>) -> tensor<9x2xi32>",
       0, 2e9},
      // a window of more than the kernel takes
      {"%x: tensor<3x8200xf32>, %u: tensor<2x8200xf32>", "tensor<3x8200xf32>",
       two + scatter_of(rows, region("f32", "%s = stablehlo.maximum %p, %q : tensor<f32>")) +
           "(tensor<3x8200xf32>, tensor<2x1xi32>, tensor<2x8200xf32>) -> tensor<3x8200xf32>"},
      // a region of more than one op
      {"%x: tensor<3x4xf32>, %u: tensor<2x4xf32>", "tensor<3x4xf32>",
       two +
           scatter_of(
               rows,
               region(
                   "f32",
                   "%t = stablehlo.multiply %p, %q : tensor<f32>\n%s = stablehlo.add %t, %q : tensor<f32>")) +
           "(tensor<3x4xf32>, tensor<2x1xi32>, tensor<2x4xf32>) -> tensor<3x4xf32>"},
      // columns of a table
      {"%x: tensor<64x9xf32>", "tensor<64x128xf32>",
       "%n = stablehlo.iota dim = 0 : tensor<128x1xi32>\n%m = stablehlo.constant dense<8> : "
       "tensor<128x1xi32>\n"
       "%i = stablehlo.and %n, %m : tensor<128x1xi32>\n"
       "%r = \"stablehlo.gather\"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], "
       "collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: "
       "64, 1>}> : "
       "(tensor<64x9xf32>, tensor<128x1xi32>) -> tensor<64x128xf32>"},
      // positions of an image with channels first, some outside, the second component in front
      {"%x: tensor<16x5x6xf32>, %n: tensor<96x2xi32>", "tensor<16x96xf32>",
       "%r = \"stablehlo.gather\"(%x, %n) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], "
       "collapsed_slice_dims = [1, 2], start_index_map = [2, 1], index_vector_dim = 1>, slice_sizes = "
       "array<i64: "
       "16, 1, 1>}> : (tensor<16x5x6xf32>, tensor<96x2xi32>) -> tensor<16x96xf32>",
       0, 7},
      // elements that follow each other in the table and in the result
      {"%x: tensor<5x64xf32>, %i: tensor<32xi32>", "tensor<32x64xf32>",
       places_of("32x64",
                 {"%p0 = stablehlo.broadcast_in_dim %i, dims = [0] : (tensor<32xi32>) -> tensor<32x64x1xi32>",
                  "%p1 = stablehlo.iota dim = 1 : tensor<32x64x1xi32>"},
                 "5x64")},
      // places by the difference of row and column
      {"%x: tensor<32x9xf32>", "tensor<32x40xf32>", differences()},
      // rows, then their columns
      {"%x: tensor<5x6x2xf32>", "tensor<32x32x2xf32>",
       "%n = stablehlo.iota dim = 0 : tensor<32xi32>\n%m = stablehlo.constant dense<5> : tensor<32xi32>\n"
       "%i = stablehlo.and %n, %m : tensor<32xi32>\n" +
           places_of(
               "32x32",
               {"%p0 = stablehlo.broadcast_in_dim %i, dims = [0] : (tensor<32xi32>) -> tensor<32x32x1xi32>",
                "%p1 = stablehlo.broadcast_in_dim %i, dims = [1] : (tensor<32xi32>) -> tensor<32x32x1xi32>"},
               "5x6x2", "x2", "offset_dims = [2], ", ", 2")},
      {"%x: tensor<2x9xf32>, %y: tensor<2x9xi32>", "tensor<2x9xi32>",
       R"(%v, %r = "stablehlo.sort"(%x, %y) <{dimension = 1 : i64, is_stable = true}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
            %s = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %s : tensor<i1> }) : (tensor<2x9xf32>, tensor<2x9xi32>) ->
              (tensor<2x9xf32>, tensor<2x9xi32>))"},
  };
}

}  // namespace opentrn::compiler
