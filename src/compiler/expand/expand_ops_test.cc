// Every row of the tables of expansions by a program of its own: the row takes the op, nothing that has an
// expansion is left, and the values are those of the op. What is not in 32 bits on the device is compared in
// its words.
#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/pass_for_test.h"
#include "compiler/expand/expand.h"
#include "compiler/expand/expansion_cases.h"

namespace opentrn::compiler {
namespace {

// `%r = op %x, %y` of one type; CHLO's ops state their result's type too.
ExpansionCase elementwise(std::string_view op, std::string_view type, int operands, double tolerance = 0,
                          double range = 4) {
  const bool is_chlo = op.starts_with("chlo.");
  std::string types(type), result = is_chlo ? fmt::format(" -> {}", type) : "";
  if (is_chlo && operands == 2) types = fmt::format("{0}, {0}", type);
  const std::string names = operands == 2 ? "%x, %y" : "%x";
  return {operands == 2 ? fmt::format("%x: {0}, %y: {0}", type) : fmt::format("%x: {}", type),
          std::string(type), fmt::format("%r = {} {} : {}{}", op, names, types, result), tolerance, range};
}

constexpr std::string_view kFloats = "tensor<3x4xf32>", kWhole = "tensor<3x4xi32>",
                           kComplex = "tensor<3x4xcomplex<f32>>", kWide = "tensor<3x4xui64>";

// A device's input of 64 bits has 32 of them, so values come and leave as their words.
ExpansionCase from_words(ExpansionCase given) {
  std::string arguments, made;
  size_t begin = 0;
  while (begin < given.arguments.size()) {
    const size_t end = std::min(given.arguments.find(", ", begin), given.arguments.size());
    const std::string argument = given.arguments.substr(begin, end - begin);
    begin = end + 2;
    arguments += arguments.empty() ? "" : ", ";
    const size_t colon = argument.find(": "), wide = argument.find("xui64>");
    if (wide == std::string::npos) {
      arguments += argument;
      continue;
    }
    const std::string name = argument.substr(0, colon), type = argument.substr(colon + 2),
                      words = argument.substr(colon + 2, wide - colon - 2) + "x2xui32>";
    arguments += fmt::format("{}_words: {}", name, words);
    made += fmt::format("{0} = stablehlo.bitcast_convert {0}_words : ({1}) -> {2}\n", name, words, type);
  }
  given.arguments = arguments;
  given.body = made + given.body;
  given.range = 4e9;
  return given;
}

ExpansionCase of_words(const ExpansionCase& plain) {
  ExpansionCase given = from_words(plain);
  const std::string words = given.result.substr(0, given.result.find("xui64>")) + "x2xui32>";
  for (size_t at = 0; (at = given.body.find("%r ", at)) != std::string::npos; at += 5)
    given.body.replace(at, 3, "%out ");
  given.body += fmt::format("\n%r = stablehlo.bitcast_convert %out : ({}) -> {}", given.result, words);
  given.result = words;
  return given;
}

std::vector<ExpansionCase> functions() {
  std::vector<ExpansionCase> cases;
  for (const char* op : {"chlo.lgamma", "chlo.digamma", "chlo.bessel_i1e", "chlo.erfc"})
    cases.push_back(elementwise(op, kFloats, 1, 2e-4));
  for (const char* op : {"chlo.erf_inv", "chlo.asin", "chlo.acos", "chlo.atanh"})
    cases.push_back(elementwise(op, kFloats, 1, 1e-4, 0.9));
  for (const char* op : {"chlo.asinh", "chlo.acosh", "chlo.sinh", "chlo.cosh"})
    cases.push_back(elementwise(op, kFloats, 1, 2e-5));
  cases.push_back(elementwise("stablehlo.tan", kFloats, 1, 2e-5, 1.4));
  cases.push_back(elementwise("chlo.tan", kFloats, 1, 2e-5, 1.4));
  cases.push_back(elementwise("stablehlo.atan2", kFloats, 2, 2e-6));
  cases.push_back(elementwise("chlo.zeta", kFloats, 2, 2e-4));
  cases.push_back(
      {fmt::format("%y: {}", kFloats), std::string(kFloats),
       fmt::format("%x = stablehlo.constant dense<2.0> : {0}\n%r = chlo.polygamma %x, %y : {0}, {0} -> {0}",
                   kFloats),
       1e-3});
  return cases;
}

std::vector<ExpansionCase> bits() {
  std::vector<ExpansionCase> cases = {
      elementwise("stablehlo.popcnt", kWhole, 1, 0, 1e6),
      elementwise("stablehlo.count_leading_zeros", kWhole, 1, 0, 1e6),
      elementwise("stablehlo.power", kWhole, 2, 0, 6),
      elementwise("chlo.mulhi", kWhole, 2, 0, 2e9),
      elementwise("chlo.next_after", kFloats, 2),
      elementwise("stablehlo.shift_right_arithmetic", "tensor<3x4xui8>", 2, 0, 12),
      {"%x: tensor<3x4xf32>", "tensor<3x4xi4>",
       "%r = stablehlo.convert %x : (tensor<3x4xf32>) -> tensor<3x4xi4>", 0, 20},
      {"%x: tensor<8xf32>", "tensor<8xf32>",
       "%r = stablehlo.reduce_precision %x, format = e5m10 : tensor<8xf32>"},
  };
  for (const char* op : {"chlo.is_inf", "chlo.is_pos_inf", "chlo.is_neg_inf"})
    cases.push_back(
        {"%x: tensor<3xf32>", "tensor<5xi1>",
         fmt::format("%c = stablehlo.constant dense<[0x7F800000, 0xFF800000]> : tensor<2xf32>\n"
                     "%y = stablehlo.concatenate %x, %c, dim = 0 : (tensor<3xf32>, tensor<2xf32>) -> "
                     "tensor<5xf32>\n%r = {} %y : tensor<5xf32> -> tensor<5xi1>",
                     op)});
  // Numbers of 64 bits beyond those of 32, whose low halves would give another order.
  const std::string far = "%c = stablehlo.constant dense<8589934593> : tensor<4xi64>\n";
  cases.push_back(
      {"%x: tensor<4xi64>", "tensor<4xi1>",
       far + "%r = stablehlo.compare LT, %x, %c : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi1>"});
  for (const char* op : {"minimum", "maximum"})
    cases.push_back(
        {"%x: tensor<4xi64>", "tensor<4xi32>",
         far + fmt::format("%m = stablehlo.{} %x, %c : tensor<4xi64>\n%low = stablehlo.constant dense<9> : "
                           "tensor<4xi64>\n%n = stablehlo.minimum %m, %low : tensor<4xi64>\n"
                           "%r = stablehlo.convert %n : (tensor<4xi64>) -> tensor<4xi32>",
                           op)});
  cases.push_back(
      {"%x: tensor<4xi64>", "tensor<4xi32>",
       far + "%low = stablehlo.constant dense<-2> : tensor<4xi64>\n%n = stablehlo.clamp %low, %x, %c : "
             "tensor<4xi64>\n%r = stablehlo.convert %n : (tensor<4xi64>) -> tensor<4xi32>"});
  return cases;
}

std::vector<ExpansionCase> complex_functions() {
  std::vector<ExpansionCase> cases;
  for (const char* op : {"negate", "exponential", "exponential_minus_one", "log", "log_plus_one", "logistic",
                         "sqrt", "rsqrt", "cbrt", "sine", "cosine", "tan", "tanh", "sign"})
    cases.push_back(elementwise(fmt::format("stablehlo.{}", op), kComplex, 1, 1e-4, 2));
  for (const char* op :
       {"conj", "square", "tan", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh"})
    cases.push_back(elementwise(fmt::format("chlo.{}", op), kComplex, 1, 1e-4, 2));
  for (const char* op : {"add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "atan2"})
    cases.push_back(elementwise(fmt::format("stablehlo.{}", op), kComplex, 2, 1e-3, 1.5));
  return cases;
}

std::vector<ExpansionCase> complex_structure() {
  const std::string x = "%x: tensor<3x4xcomplex<f32>>", of = "tensor<3x4xcomplex<f32>>";
  const std::string sum = R"( ({ ^bb0(%p: tensor<complex<f32>>, %q: tensor<complex<f32>>):
      %s = stablehlo.add %p, %q : tensor<complex<f32>>
      stablehlo.return %s : tensor<complex<f32>> }) : )";
  const std::string zero = "%zero = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>\n";
  return {
      {"%a: tensor<4xf32>, %b: tensor<4xf32>", "tensor<4xf32>",
       "%c = stablehlo.complex %a, %b : tensor<4xcomplex<f32>>\n"
       "%r = stablehlo.real %c : (tensor<4xcomplex<f32>>) -> tensor<4xf32>"},
      {"%a: tensor<4xf32>, %b: tensor<4xf32>", "tensor<4xf32>",
       "%c = stablehlo.complex %a, %b : tensor<4xcomplex<f32>>\n"
       "%r = stablehlo.imag %c : (tensor<4xcomplex<f32>>) -> tensor<4xf32>"},
      {x, "tensor<3x4xf32>", "%r = stablehlo.abs %x : (" + of + ") -> tensor<3x4xf32>", 1e-6},
      {"%x: tensor<4xf32>", "tensor<4xcomplex<f32>>",
       "%r = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xcomplex<f32>>"},
      {x, of, "%r = stablehlo.bitcast_convert %x : (" + of + ") -> " + of},
      {x, of, "%i = stablehlo.iota dim = 1 : " + of + "\n%r = stablehlo.add %x, %i : " + of},
      {x, "tensor<3x4xi1>",
       "%y = stablehlo.reverse %x, dims = [1] : " + of + "\n%r = stablehlo.compare NE, %x, %y : (" + of +
           ", " + of + ") -> tensor<3x4xi1>"},
      {x, of, "%r = stablehlo.fft %x, type = FFT, length = [4] : (" + of + ") -> " + of, 1e-5},
      {x + ", %w: tensor<4x2xcomplex<f32>>", "tensor<3x2xcomplex<f32>>",
       "%r = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (" + of +
           ", tensor<4x2xcomplex<f32>>) -> tensor<3x2xcomplex<f32>>",
       1e-5},
      {"%x: tensor<1x2x5xcomplex<f32>>, %w: tensor<3x2x2xcomplex<f32>>", "tensor<1x3x4xcomplex<f32>>",
       "%r = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = "
       "[1], pad = "
       "[[0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
       "(tensor<1x2x5xcomplex<f32>>, "
       "tensor<3x2x2xcomplex<f32>>) -> tensor<1x3x4xcomplex<f32>>",
       1e-5},
      {x, "tensor<3xcomplex<f32>>",
       zero + "%r = \"stablehlo.reduce\"(%x, %zero) <{dimensions = array<i64: 1>}>" + sum + "(" + of +
           ", tensor<complex<f32>>) -> tensor<3xcomplex<f32>>",
       1e-5},
      {x, "tensor<3x3xcomplex<f32>>",
       zero + "%r = \"stablehlo.reduce_window\"(%x, %zero) <{window_dimensions = array<i64: 1, 2>}>" + sum +
           "(" + of + ", tensor<complex<f32>>) -> tensor<3x3xcomplex<f32>>",
       1e-5},
      {x + ", %u: tensor<2x4xcomplex<f32>>", of,
       "%i = stablehlo.constant dense<[[2], [0]]> : tensor<2x1xi32>\n"
       "%r = \"stablehlo.scatter\"(%x, %i, %u) <{scatter_dimension_numbers = "
       "#stablehlo.scatter<update_window_dims = "
       "[1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}>" +
           sum + "(" + of + ", tensor<2x1xi32>, tensor<2x4xcomplex<f32>>) -> " + of,
       1e-6},
      {x, "tensor<2x3x4xcomplex<f32>>",
       "%r = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (" + of + ") -> tensor<2x3x4xcomplex<f32>>"},
      {x, "tensor<4x3xcomplex<f32>>",
       "%r = stablehlo.transpose %x, dims = [1, 0] : (" + of + ") -> tensor<4x3xcomplex<f32>>"},
      {x, "tensor<12xcomplex<f32>>", "%r = stablehlo.reshape %x : (" + of + ") -> tensor<12xcomplex<f32>>"},
      {x, "tensor<2x2xcomplex<f32>>",
       "%r = stablehlo.slice %x [1:3, 0:4:2] : (" + of + ") -> tensor<2x2xcomplex<f32>>"},
      {x, of, "%r = stablehlo.reverse %x, dims = [0] : " + of},
      {x, "tensor<6x4xcomplex<f32>>",
       "%r = stablehlo.concatenate %x, %x, dim = 0 : (" + of + ", " + of + ") -> tensor<6x4xcomplex<f32>>"},
      {x, "tensor<4x4xcomplex<f32>>",
       zero + "%r = stablehlo.pad %x, %zero, low = [1, 0], high = [0, 0], interior = [0, 0] : (" + of +
           ", tensor<complex<f32>>) -> tensor<4x4xcomplex<f32>>"},
      {x + ", %p: tensor<3x4xi1>", of,
       "%y = stablehlo.reverse %x, dims = [1] : " + of +
           "\n%r = stablehlo.select %p, %x, %y : tensor<3x4xi1>, " + of},
      {x, "tensor<2x4xcomplex<f32>>",
       "%i = stablehlo.constant dense<[[2], [0]]> : tensor<2x1xi32>\n"
       "%r = \"stablehlo.gather\"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], "
       "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: "
       "1, 4>}> : (" +
           of + ", tensor<2x1xi32>) -> tensor<2x4xcomplex<f32>>"},
      {x + ", %i: tensor<i32>", "tensor<2x4xcomplex<f32>>",
       "%z = stablehlo.constant dense<0> : tensor<i32>\n%r = stablehlo.dynamic_slice %x, %i, %z, sizes = [2, "
       "4] : (" +
           of + ", tensor<i32>, tensor<i32>) -> tensor<2x4xcomplex<f32>>"},
      {x + ", %u: tensor<1x4xcomplex<f32>>, %i: tensor<i32>", of,
       "%z = stablehlo.constant dense<0> : tensor<i32>\n%r = stablehlo.dynamic_update_slice %x, %u, %i, %z : "
       "(" +
           of + ", tensor<1x4xcomplex<f32>>, tensor<i32>, tensor<i32>) -> " + of},
      {x, of, "%r = stablehlo.optimization_barrier %x : " + of},
  };
}

std::vector<ExpansionCase> wide_integers() {
  std::vector<ExpansionCase> cases;
  for (const char* op :
       {"add", "subtract", "multiply", "divide", "remainder", "and", "or", "xor", "maximum", "minimum"})
    cases.push_back(of_words(elementwise(fmt::format("stablehlo.{}", op), kWide, 2, 0, 9e18)));
  for (const char* op : {"shift_left", "shift_right_logical"})
    cases.push_back(
        of_words({fmt::format("%x: {0}, %y: {0}", kWide), std::string(kWide),
                  fmt::format("%c = stablehlo.constant dense<95> : {0}\n%s = stablehlo.and %y, %c : {0}\n"
                              "%r = stablehlo.{1} %x, %s : {0}",
                              kWide, op)}));
  for (const char* op : {"not", "negate", "popcnt", "count_leading_zeros"})
    cases.push_back(of_words(elementwise(fmt::format("stablehlo.{}", op), kWide, 1, 0, 9e18)));
  const std::string x = "%x: tensor<3x4xui64>", of(kWide);
  cases.push_back(
      from_words({x + ", %y: tensor<3x4xui64>", "tensor<3x4xi1>",
                  "%r = stablehlo.compare LT, %x, %y : (" + of + ", " + of + ") -> tensor<3x4xi1>"}));
  cases.push_back(
      from_words({x, "tensor<3x4xui32>",
                  "%c = stablehlo.constant dense<7> : " + of + "\n%s = stablehlo.multiply %x, %c : " + of +
                      "\n%r = stablehlo.convert %s : (" + of + ") -> tensor<3x4xui32>"}));
  cases.push_back(from_words({x, "tensor<3x4xf32>",
                              "%c = stablehlo.constant dense<9> : " + of + "\n%s = stablehlo.xor %x, %c : " +
                                  of + "\n%r = stablehlo.convert %s : (" + of + ") -> tensor<3x4xf32>",
                              1e-6}));
  // Numbers whose f64 has an f32.
  cases.push_back(
      {"%x: tensor<4xf32>", "tensor<4xf32>",
       "%d = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xf64>\n"
       "%w = stablehlo.bitcast_convert %d : (tensor<4xf64>) -> tensor<4xui64>\n"
       "%c = stablehlo.constant dense<0> : tensor<4xui64>\n%v = stablehlo.or %w, %c : tensor<4xui64>\n"
       "%e = stablehlo.bitcast_convert %v : (tensor<4xui64>) -> tensor<4xf64>\n"
       "%r = stablehlo.convert %e : (tensor<4xf64>) -> tensor<4xf32>"});
  // Signed numbers as unsigned ones, with their sign in the upper word.
  cases.push_back(
      {"%x: tensor<4xi64>", "tensor<4x2xui32>",
       "%w = stablehlo.bitcast_convert %x : (tensor<4xi64>) -> tensor<4xui64>\n"
       "%c = stablehlo.constant dense<0> : tensor<4xui64>\n%v = stablehlo.or %w, %c : tensor<4xui64>\n"
       "%r = stablehlo.bitcast_convert %v : (tensor<4xui64>) -> tensor<4x2xui32>",
       0, 1e9});
  // What nothing takes further is the low word.
  cases.push_back(
      {"%w: tensor<4x1xui32>", "tensor<4xui64>",
       "%z = stablehlo.constant dense<0> : tensor<4x1xui32>\n"
       "%p = stablehlo.concatenate %w, %z, dim = 1 : (tensor<4x1xui32>, tensor<4x1xui32>) -> "
       "tensor<4x2xui32>\n%r = stablehlo.bitcast_convert %p : (tensor<4x2xui32>) -> tensor<4xui64>",
       0, 4e9});
  const auto structure = [&](const std::string& result, const std::string& op) {
    cases.push_back(of_words({x, result, "%r = stablehlo." + op + " : (" + of + ") -> " + result, 0, 9e18}));
  };
  structure("tensor<2x3x4xui64>", "broadcast_in_dim %x, dims = [1, 2]");
  structure("tensor<4x3xui64>", "transpose %x, dims = [1, 0]");
  structure("tensor<12xui64>", "reshape %x");
  structure("tensor<2x2xui64>", "slice %x [1:3, 0:4:2]");
  cases.push_back(of_words({x, of, "%r = stablehlo.reverse %x, dims = [0] : " + of, 0, 9e18}));
  cases.push_back(
      of_words({x, "tensor<6x4xui64>",
                "%r = stablehlo.concatenate %x, %x, dim = 0 : (" + of + ", " + of + ") -> tensor<6x4xui64>",
                0, 9e18}));
  cases.push_back(
      of_words({x, "tensor<4x4xui64>",
                "%z = stablehlo.constant dense<4294967299> : tensor<ui64>\n%r = stablehlo.pad %x, %z, low = "
                "[1, 0], high = [0, 0], interior = [0, 0] : (" +
                    of + ", tensor<ui64>) -> tensor<4x4xui64>",
                0, 9e18}));
  cases.push_back(of_words({x + ", %y: " + of + ", %p: tensor<3x4xi1>", of,
                            "%r = stablehlo.select %p, %x, %y : tensor<3x4xi1>, " + of, 0, 9e18}));
  return cases;
}

std::string convolution(
    const std::string& window, const std::string& types,
    const std::string& groups = "batch_group_count = 1 : i64, feature_group_count = 1 : i64") {
  return "%r = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = "
         "{" +
         window + "} {" + groups + "} : " + types;
}

std::vector<ExpansionCase> products() {
  return {
      {"%x: tensor<3x4xi8>, %w: tensor<4x2xi8>", "tensor<3x2xf32>",
       "%r = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<3x4xi8>, tensor<4x2xi8>) "
       "-> "
       "tensor<3x2xf32>",
       0, 100},
      {"%x: tensor<1x2x4x4xi8>, %w: tensor<3x2x2x2xi8>", "tensor<1x3x3x3xf32>",
       convolution("stride = [1, 1]", "(tensor<1x2x4x4xi8>, tensor<3x2x2x2xi8>) -> tensor<1x3x3x3xf32>"), 0,
       100},
      // floats of eight bits that the kernel does not take, and booleans that are counted
      {"%x: tensor<3x4xf8E4M3FN>, %w: tensor<4x2xf8E4M3FN>", "tensor<3x2xbf16>",
       "%r = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<3x4xf8E4M3FN>, "
       "tensor<4x2xf8E4M3FN>) -> tensor<3x2xbf16>",
       1e-2},
      {"%x: tensor<1x2x4x4xf8E4M3>, %w: tensor<3x2x2x2xf8E4M3>", "tensor<1x3x3x3xf32>",
       convolution("stride = [1, 1]",
                   "(tensor<1x2x4x4xf8E4M3>, tensor<3x2x2x2xf8E4M3>) -> tensor<1x3x3x3xf32>"),
       1e-5},
      {"%x: tensor<3x4xi1>, %w: tensor<4x2xi1>", "tensor<3x2xi32>",
       "%r = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<3x4xi1>, tensor<4x2xi1>) "
       "-> tensor<3x2xi32>"},
      {"%x: tensor<3x4xi1>, %w: tensor<4x2xi1>", "tensor<3x2xf32>",
       "%r = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<3x4xi1>, tensor<4x2xi1>) "
       "-> tensor<3x2xf32>"},
      {"%x: tensor<128x2x3xf32>, %w: tensor<128x3x2xf32>", "tensor<128x2x2xf32>",
       "%r = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1] : "
       "(tensor<128x2x3xf32>, tensor<128x3x2xf32>) -> tensor<128x2x2xf32>",
       1e-6},
      {"%x: tensor<6x20x24xf32>, %w: tensor<6x24xf32>", "tensor<6x20xf32>",
       "%r = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1] : "
       "(tensor<6x20x24xf32>, tensor<6x24xf32>) -> tensor<6x20xf32>",
       1e-6},
      {"%x: tensor<1x11000xf32>, %w: tensor<11000x1xf32>", "tensor<1x1xf32>",
       "%r = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<1x11000xf32>, "
       "tensor<11000x1xf32>) "
       "-> tensor<1x1xf32>",
       1e-4},
      {"%x: tensor<4x5xi32>, %w: tensor<5x3xi32>", "tensor<4x3xi32>",
       "%r = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x5xi32>, tensor<5x3xi32>) "
       "-> "
       "tensor<4x3xi32>",
       0, 1e9},
      {"%x: tensor<1x2x4x4xi32>, %w: tensor<3x2x2x2xi32>", "tensor<1x3x3x3xi32>",
       convolution("stride = [1, 1]", "(tensor<1x2x4x4xi32>, tensor<3x2x2x2xi32>) -> tensor<1x3x3x3xi32>"), 0,
       1e9},
      // backwards
      {"%x: tensor<1x2x5x5xf32>, %w: tensor<3x2x3x3xf32>", "tensor<1x3x3x3xf32>",
       convolution("stride = [1, 1], reverse = [true, true]",
                   "(tensor<1x2x5x5xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x3x3xf32>"),
       1e-5},
      // images of few channels beside one another
      {"%x: tensor<2x4x24x24xf32>, %w: tensor<4x1x3x3xf32>", "tensor<2x4x24x24xf32>",
       convolution("stride = [1, 1], pad = [[1, 1], [1, 1]]",
                   "(tensor<2x4x24x24xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x24x24xf32>",
                   "batch_group_count = 1 : i64, feature_group_count = 4 : i64"),
       1e-5},
      // bands of one image of few channels, with rows of zeros at both ends
      {"%x: tensor<1x16x41x62xf32>, %w: tensor<16x1x5x3xf32>", "tensor<1x16x20x62xf32>",
       convolution("stride = [2, 1], pad = [[2, 1], [2, 2]], rhs_dilate = [1, 2]",
                   "(tensor<1x16x41x62xf32>, tensor<16x1x5x3xf32>) -> tensor<1x16x20x62xf32>",
                   "batch_group_count = 1 : i64, feature_group_count = 16 : i64"),
       1e-5},
      {"%x: tensor<1x16x64x64xf32>, %w: tensor<16x1x3x3xf32>", "tensor<1x16x64x64xf32>",
       convolution("stride = [1, 1], pad = [[1, 1], [1, 1]]",
                   "(tensor<1x16x64x64xf32>, tensor<16x1x3x3xf32>) -> tensor<1x16x64x64xf32>",
                   "batch_group_count = 1 : i64, feature_group_count = 16 : i64"),
       1e-5},
      // patches
      {"%x: tensor<1x3x16x16xf32>, %w: tensor<4x3x8x8xf32>", "tensor<1x4x2x2xf32>",
       convolution("stride = [8, 8]", "(tensor<1x3x16x16xf32>, tensor<4x3x8x8xf32>) -> tensor<1x4x2x2xf32>"),
       1e-5},
      // patches that are spread: a transposed convolution whose stride is its window, taps in PyTorch's order
      {"%x: tensor<2x3x4x5xf32>, %w: tensor<3x6x2x3xf32>", "tensor<2x6x8x15xf32>",
       "%r = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1], window = "
       "{stride = [1, 1], pad = [[1, 1], [2, 2]], lhs_dilate = [2, 3], reverse = [true, false]} "
       "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x3x4x5xf32>, "
       "tensor<3x6x2x3xf32>) -> tensor<2x6x8x15xf32>",
       1e-5},
      // a gradient of weights: few places, a kernel of many, batches and features innermost
      {"%x: tensor<3x8x8x2xf32>, %w: tensor<3x6x6x4xf32>", "tensor<3x3x2x4xf32>",
       "%r = stablehlo.convolution(%x, %w) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = "
       "{stride = "
       "[1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x8x8x2xf32>, "
       "tensor<3x6x6x4xf32>) -> tensor<3x3x2x4xf32>",
       1e-5},
      // the same with channels first: the images and the gradient of the result are turned
      {"%x: tensor<3x16x8x8xf32>, %w: tensor<3x4x6x6xf32>", "tensor<4x16x3x3xf32>",
       "%r = stablehlo.convolution(%x, %w) dim_numbers = [f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1], window = "
       "{stride = "
       "[1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x16x8x8xf32>, "
       "tensor<3x4x6x6xf32>) -> tensor<4x16x3x3xf32>",
       1e-5},
      // a kernel that SBUF does not hold whole, of more channels than those whose taps are stacked
      {"%x: tensor<1x16x1x201xf32>, %w: tensor<128x16x1x200xf32>", "tensor<1x128x1x2xf32>",
       convolution("stride = [1, 1]",
                   "(tensor<1x16x1x201xf32>, tensor<128x16x1x200xf32>) -> tensor<1x128x1x2xf32>"),
       1e-3},  // sums of 3,200 products of either sign, in another order
  };
}

// Differences of x [shape without `x_lacks`] and y [shape without `y_lacks`], squared, reduced over one
// dimension.
ExpansionCase of_differences(const Dims& shape, size_t x_lacks, size_t y_lacks, size_t reduced,
                             const std::string& combiner, double tolerance) {
  const auto type = [](const Dims& dims) { return fmt::format("tensor<{}xf32>", fmt::join(dims, "x")); };
  const auto without = [&](size_t d) {
    Dims dims = shape;
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(d));
    return dims;
  };
  const auto others = [&](size_t d) {
    Dims at;
    for (size_t i = 0; i < shape.size(); ++i)
      if (i != d) at.push_back(static_cast<int64_t>(i));
    return at;
  };
  const std::string x = type(without(x_lacks)), y = type(without(y_lacks)), all = type(shape),
                    result = type(without(reduced));
  return {
      fmt::format("%x: {}, %y: {}", x, y), result,
      fmt::format("%start = stablehlo.constant dense<0.5> : tensor<f32>\n"
                  "%a = stablehlo.broadcast_in_dim %x, dims = [{}] : ({}) -> {}\n"
                  "%b = stablehlo.broadcast_in_dim %y, dims = [{}] : ({}) -> {}\n"
                  "%d = stablehlo.subtract %a, %b : {}\n%m = stablehlo.multiply %d, %d : {}\n",
                  fmt::join(others(x_lacks), ", "), x, all, fmt::join(others(y_lacks), ", "), y, all, all,
                  all) +
          fmt::format("%r = \"stablehlo.reduce\"(%m, %start) <{{dimensions = array<i64: {}>}}>", reduced) +
          region("f32", "%s = stablehlo." + combiner + " %p, %q : tensor<f32>") +
          fmt::format("({}, tensor<f32>) -> {}", all, result),
      tolerance};
}

std::vector<ExpansionCase> reductions() {
  const std::string zero = "%zero = stablehlo.constant dense<0.0> : tensor<f32>\n",
                    add = region("f32", "%s = stablehlo.add %p, %q : tensor<f32>");
  const std::string place_of_largest =
      R"( ({ ^bb0(%a: tensor<f32>, %i: tensor<i32>, %b: tensor<f32>, %j: tensor<i32>):
      %gt = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %ne = stablehlo.compare NE, %a, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %or = stablehlo.or %gt, %ne : tensor<i1>
      %eq = stablehlo.compare EQ, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %lt = stablehlo.compare LT, %i, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %both = stablehlo.and %eq, %lt : tensor<i1>
      %first = stablehlo.or %or, %both : tensor<i1>
      %v = stablehlo.select %or, %a, %b : tensor<i1>, tensor<f32>
      %k = stablehlo.select %first, %i, %j : tensor<i1>, tensor<i32>
      stablehlo.return %v, %k : tensor<f32>, tensor<i32> }) : )";
  return {
      // distances of points of few coordinates, and what each gives to all others
      of_differences({64, 96, 3}, 1, 0, 2, "add", 1e-5),
      of_differences({5, 64, 96}, 2, 1, 0, "maximum", 0),
      of_differences({96, 64, 3}, 2, 0, 1, "add", 1e-3),
      {"%x: tensor<3x1x4xf32>", "tensor<3x4xf32>",
       zero + "%r = \"stablehlo.reduce\"(%x, %zero) <{dimensions = array<i64: 1>}>" + add +
           "(tensor<3x1x4xf32>, tensor<f32>) -> tensor<3x4xf32>"},
      {"%x: tensor<3x16xf32>", "tensor<3xi32>",
       "%low = stablehlo.constant dense<0xFF800000> : tensor<f32>\n%none = stablehlo.constant dense<0> : "
       "tensor<i32>\n"
       "%n = stablehlo.iota dim = 1 : tensor<3x16xi32>\n"
       "%v, %r = \"stablehlo.reduce\"(%x, %n, %low, %none) <{dimensions = array<i64: 1>}>" +
           place_of_largest +
           "(tensor<3x16xf32>, tensor<3x16xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, "
           "tensor<3xi32>)"},
      {"%x: tensor<128x64xf32>", "tensor<f32>",
       zero + "%r = \"stablehlo.reduce\"(%x, %zero) <{dimensions = array<i64: 0, 1>}>" + add +
           "(tensor<128x64xf32>, tensor<f32>) -> tensor<f32>",
       1e-4},
      // many rows of few columns, some of which are reduced too
      {"%x: tensor<2x4x512x3x2xf32>", "tensor<2x3xf32>",
       zero + "%r = \"stablehlo.reduce\"(%x, %zero) <{dimensions = array<i64: 1, 2, 4>}>" + add +
           "(tensor<2x4x512x3x2xf32>, tensor<f32>) -> tensor<2x3xf32>",
       1e-4},
      // rows that no kernel holds whole, of what is computed
      {"%x: tensor<2x3x9000xf32>", "tensor<2xf32>",
       zero + "%y = stablehlo.multiply %x, %x : tensor<2x3x9000xf32>\n" +
           "%r = \"stablehlo.reduce\"(%y, %zero) <{dimensions = array<i64: 1, 2>}>" + add +
           "(tensor<2x3x9000xf32>, tensor<f32>) -> tensor<2xf32>",
       1e-4},
      {"%x: tensor<3x16xi32>", "tensor<3x16xi32>",
       "%zero = stablehlo.constant dense<0> : tensor<i32>\n"
       "%r = \"stablehlo.reduce_window\"(%x, %zero) <{padding = dense<[[0, 0], [15, 0]]> : tensor<2x2xi64>, "
       "window_dimensions = array<i64: 1, 16>}>" +
           region("i32", "%s = stablehlo.xor %p, %q : tensor<i32>") +
           "(tensor<3x16xi32>, tensor<i32>) -> tensor<3x16xi32>",
       0, 1e9},
      // running sums over more than the kernel takes
      {"%x: tensor<1x8320xf32>", "tensor<1x8320xf32>",
       zero +
           "%r = \"stablehlo.reduce_window\"(%x, %zero) <{padding = dense<[[0, 0], [8319, 0]]> : "
           "tensor<2x2xi64>, "
           "window_dimensions = array<i64: 1, 8320>}>" +
           add + "(tensor<1x8320xf32>, tensor<f32>) -> tensor<1x8320xf32>",
       1e-3, 1},
      // running extremes of few slabs, backwards
      {"%x: tensor<2x5x300xf32>", "tensor<2x5x300xf32>",
       "%low = stablehlo.constant dense<0xFF800000> : tensor<f32>\n"
       "%r = \"stablehlo.reduce_window\"(%x, %low) <{padding = dense<[[0, 0], [0, 4], [0, 0]]> : "
       "tensor<3x2xi64>, window_dimensions = array<i64: 1, 5, 1>}>" +
           region("f32", "%s = stablehlo.maximum %p, %q : tensor<f32>") +
           "(tensor<2x5x300xf32>, tensor<f32>) -> tensor<2x5x300xf32>"},
      // windows over an outer dimension, whose slabs are combined as a whole
      {"%x: tensor<4x3x6x8xf32>", "tensor<2x3x6x8xf32>",
       zero +
           "%r = \"stablehlo.reduce_window\"(%x, %zero) <{padding = dense<[[1, 0], [0, 0], [0, 0], [0, 0]]> "
           ": "
           "tensor<4x2xi64>, window_dimensions = array<i64: 3, 1, 1, 1>, "
           "window_strides = array<i64: 2, 1, 1, 1>}>" +
           add + "(tensor<4x3x6x8xf32>, tensor<f32>) -> tensor<2x3x6x8xf32>",
       1e-5},
      // two values at once, over longer rows than the kernel takes
      {"%x: tensor<2x9000xi32>, %y: tensor<2x9000xi32>", "tensor<2xi32>",
       R"(%zero = stablehlo.constant dense<0> : tensor<i32>
          %v, %r = "stablehlo.reduce"(%x, %y, %zero, %zero) <{dimensions = array<i64: 1>}> ({
            ^bb0(%a: tensor<i32>, %i: tensor<i32>, %b: tensor<i32>, %j: tensor<i32>):
              %s = stablehlo.maximum %a, %b : tensor<i32>
              %t = stablehlo.xor %i, %j : tensor<i32>
              stablehlo.return %s, %t : tensor<i32>, tensor<i32> }) :
            (tensor<2x9000xi32>, tensor<2x9000xi32>, tensor<i32>, tensor<i32>) -> (tensor<2xi32>, tensor<2xi32>))",
       0, 1e9},
      {"%x: tensor<3x4xf32>, %y: tensor<3x4xf32>", "tensor<3x4xf32>",
       "%r = \"stablehlo.map\"(%x, %y) <{dimensions = array<i64: 0, 1>}>" +
           region("f32",
                  "%t = stablehlo.multiply %p, %q : tensor<f32>\n%s = stablehlo.add %t, %q : tensor<f32>") +
           "(tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>"},
      {"%x: tensor<1x6xf32>, %y: tensor<1x3xf32>", "tensor<1x6xf32>",
       zero + "%r = \"stablehlo.select_and_scatter\"(%x, %y, %zero) <{window_dimensions = array<i64: 1, 2>, "
              "window_strides = array<i64: 1, 2>}> ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>):\n"
              "%s = stablehlo.compare GE, %p, %q : (tensor<f32>, tensor<f32>) -> "
              "tensor<i1>\nstablehlo.return %s : "
              "tensor<i1> }, { ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n%t = stablehlo.add %a, %b : "
              "tensor<f32>\n"
              "stablehlo.return %t : tensor<f32> }) : (tensor<1x6xf32>, tensor<1x3xf32>, tensor<f32>) -> "
              "tensor<1x6xf32>"},
      {"%x: tensor<2x12xi32>", "tensor<2x3xi32>",
       "%r, %i = chlo.top_k(%x, k = 3) : tensor<2x12xi32> -> (tensor<2x3xi32>, tensor<2x3xi32>)", 0, 1e9},
  };
}

std::vector<ExpansionCase> solvers_and_random() {
  const std::string positive =
      R"(%t = stablehlo.transpose %x, dims = [1, 0] : (tensor<80x80xf32>) -> tensor<80x80xf32>
      %p = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0] : (tensor<80x80xf32>, tensor<80x80xf32>) ->
        tensor<80x80xf32>
      %i = stablehlo.iota dim = 0 : tensor<80x80xf32>
      %j = stablehlo.iota dim = 1 : tensor<80x80xf32>
      %d = stablehlo.compare EQ, %i, %j : (tensor<80x80xf32>, tensor<80x80xf32>) -> tensor<80x80xi1>
      %e = stablehlo.convert %d : (tensor<80x80xi1>) -> tensor<80x80xf32>
      %s = stablehlo.add %p, %e : tensor<80x80xf32>
)";
  const std::string words = "%w: tensor<2x2xui32>";
  const std::string state = "%s = stablehlo.bitcast_convert %w : (tensor<2x2xui32>) -> tensor<2xui64>\n";
  return {
      {"%x: tensor<80x80xf32>", "tensor<80x80xf32>",
       positive + R"(%c = "stablehlo.cholesky"(%s) {lower = true} : (tensor<80x80xf32>) -> tensor<80x80xf32>
      %low = stablehlo.compare GE, %i, %j : (tensor<80x80xf32>, tensor<80x80xf32>) -> tensor<80x80xi1>
      %zero = stablehlo.constant dense<0.0> : tensor<80x80xf32>
      %r = stablehlo.select %low, %c, %zero : tensor<80x80xi1>, tensor<80x80xf32>)",
       1e-3},
      {"%x: tensor<80x80xf32>, %b: tensor<80x2xf32>", "tensor<80x2xf32>",
       positive +
           R"(%r = "stablehlo.triangular_solve"(%s, %b) <{left_side = true, lower = true, unit_diagonal = false,
          transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> :
          (tensor<80x80xf32>, tensor<80x2xf32>) -> tensor<80x2xf32>)",
       1e-3},
      {words, "tensor<6xui32>",
       state + "%t, %r = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> "
               "(tensor<2xui64>, "
               "tensor<6xui32>)",
       0, 1e9},
      {words, "tensor<2x2xui32>",
       state + "%r = stablehlo.bitcast_convert %s : (tensor<2xui64>) -> tensor<2x2xui32>", 0, 1e9},
  };
}

std::vector<ExpansionCase> all_cases() {
  std::vector<ExpansionCase> cases;
  for (auto& group : {functions(), bits(), complex_functions(), complex_structure(), wide_integers(),
                      products(), reductions(), scatter_and_gather_cases(), solvers_and_random()})
    cases.insert(cases.end(), group.begin(), group.end());
  return cases;
}

// Rows whose values no test of moderate size has. Random numbers: RandomNumbersAreInRange. Decompositions:
// tests/compiler/test_decompositions.py, by properties. Counts of 2^26 elements:
// LongCountsAreMadeOfShortOnes.
bool is_tested_elsewhere(const Expansion& row) {
  return row.kind == OpKind::rng_ || row.kind == OpKind::custom_call_ || row.kind == OpKind::iota_;
}

std::set<const Expansion*> rows_of(const graph::Function& function) {
  std::set<const Expansion*> rows;
  graph::walk(function, function.body(), [&](graph::OpId id) {
    if (const Expansion* row = expansion_of(function, function.op(id))) rows.insert(row);
  });
  return rows;
}

TEST(Expansions, EachKeepsItsValues) {
  for (const ExpansionCase& given : all_cases()) {
    const std::string text = given.text();
    SCOPED_TRACE(text);
    EXPECT_FALSE(rows_of(parsed(text).entry()).empty()) << "nothing is expanded";
    const auto run = [](graph::Function& function) { expand(function); };
    EXPECT_TRUE(rows_of(passed(text, run).entry()).empty()) << "something is left to expand";
    expect_same_values(text, run, given.tolerance, given.range);
  }
}

TEST(Expansions, EachRowHasACase) {
  std::set<const Expansion*> met;
  for (const ExpansionCase& given : all_cases()) met.merge(rows_of(parsed(given.text()).entry()));
  int number = 0, family_number = 0;
  for (const auto family : expansion_families()) {
    for (const Expansion& row : family) {
      ++number;
      EXPECT_TRUE(met.contains(&row) || is_tested_elsewhere(row))
          << graph::name(row.kind) << ", row " << &row - family.data() << " of family " << family_number
          << " in expand.cc: add a program to this file";
    }
    ++family_number;
  }
  EXPECT_GT(number, 150);
}

TEST(Expansions, LongCountsAreMadeOfShortOnes) {
  graph::Module module = parsed(main_of("() -> tensor<16385x4096xi32>",
                                        "%r = stablehlo.iota dim = 0 : tensor<16385x4096xi32>\n"
                                        "return %r : tensor<16385x4096xi32>"));
  ASSERT_TRUE(expand(module.entry()));
  graph::walk(module.entry(), module.entry().body(), [&](graph::OpId id) {
    const graph::Op& op = module.entry().op(id);
    if (op.kind != OpKind::iota_) return;
    EXPECT_LE(module.entry().type(op.results[0]).element_count(), 16385);
  });
}

TEST(Expansions, RandomNumbersAreInRange) {
  graph::Module module = parsed(main_of("(%a: tensor<f32>, %b: tensor<f32>) -> tensor<64xf32>", R"(
    %n = stablehlo.constant dense<64> : tensor<1xi64>
    %r = stablehlo.rng %a, %b, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<64xf32>
    return %r : tensor<64xf32>)"));
  ASSERT_TRUE(expand(module.entry()));
  const auto scalar = [](float value) {
    std::vector<std::byte> bytes(4);
    std::memcpy(bytes.data(), &value, 4);
    return graph::Literal(graph::Type::scalar(graph::ElementType::kF32), bytes);
  };
  const std::vector<graph::eval::RuntimeValue> arguments = {{scalar(2)}, {scalar(3)}};
  const auto numbers = numbers_of(graph::eval::evaluate(module, module.entry(), arguments).at(0).literal());
  EXPECT_GT(std::set<double>(numbers.begin(), numbers.end()).size(), 50);
  for (const double number : numbers) EXPECT_TRUE(number >= 2 && number < 3) << number;
}

}  // namespace
}  // namespace opentrn::compiler
