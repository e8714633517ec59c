#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

void run_simplify(graph::Function& function) {
  simplify(function);
  remove_dead_ops(function);
}

constexpr PassCase kSimplifyCases[] = {
    {"transposes", "(%x: tensor<2x3xf32>) -> tensor<2x3xf32>",
     R"(%a = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
        %b = stablehlo.transpose %a, dims = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
        return %b : tensor<2x3xf32>)",
     "return %x : tensor<2x3xf32>"},
    {"reshapes", "(%x: tensor<2x6xf32>) -> tensor<4x3xf32>",
     R"(%a = stablehlo.reshape %x : (tensor<2x6xf32>) -> tensor<12xf32>
        %b = stablehlo.reshape %a : (tensor<12xf32>) -> tensor<4x3xf32>
        return %b : tensor<4x3xf32>)",
     R"(%b = stablehlo.reshape %x : (tensor<2x6xf32>) -> tensor<4x3xf32>
        return %b : tensor<4x3xf32>)"},
    {"chosen_where_not", "(%p: tensor<4xi1>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32>",
     R"(%n = stablehlo.not %p : tensor<4xi1>
        %a = stablehlo.select %n, %x, %y : tensor<4xi1>, tensor<4xf32>
        return %a : tensor<4xf32>)",
     R"(%a = stablehlo.select %p, %y, %x : tensor<4xi1>, tensor<4xf32>
        return %a : tensor<4xf32>)"},
    {"times_one", "(%x: tensor<4xf32>) -> tensor<4xf32>",
     R"(%one = stablehlo.constant dense<1.0> : tensor<4xf32>
        %a = stablehlo.multiply %one, %x : tensor<4xf32>
        return %a : tensor<4xf32>)",
     "return %x : tensor<4xf32>"},
    {"a_key_and_the_number_of_a_round",
     "(%x: tensor<1024x128xui32>, %k: tensor<ui32>) -> tensor<1024x128xui32>",
     R"(%two = stablehlo.constant dense<2> : tensor<1024x128xui32>
        %w = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<ui32>) -> tensor<1024x128xui32>
        %a = stablehlo.add %w, %x : tensor<1024x128xui32>
        %b = stablehlo.add %a, %two : tensor<1024x128xui32>
        return %b : tensor<1024x128xui32>)",
     R"(%two = stablehlo.constant dense<2> : tensor<ui32>
        %s = stablehlo.add %k, %two : tensor<ui32>
        %w = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<ui32>) -> tensor<1024x128xui32>
        %b = stablehlo.add %x, %w : tensor<1024x128xui32>
        return %b : tensor<1024x128xui32>)"},
    // Few elements: as it is written.
    {"a_key_and_a_number_of_few", "(%x: tensor<4xui32>, %k: tensor<ui32>) -> tensor<4xui32>",
     R"(%two = stablehlo.constant dense<2> : tensor<4xui32>
        %w = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<ui32>) -> tensor<4xui32>
        %a = stablehlo.add %x, %w : tensor<4xui32>
        %b = stablehlo.add %a, %two : tensor<4xui32>
        return %b : tensor<4xui32>)",
     R"(%two = stablehlo.constant dense<2> : tensor<4xui32>
        %w = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<ui32>) -> tensor<4xui32>
        %a = stablehlo.add %x, %w : tensor<4xui32>
        %b = stablehlo.add %a, %two : tensor<4xui32>
        return %b : tensor<4xui32>)"},
    // x + 0 makes +0 of -0: it stays.
    {"plus_zero", "(%x: tensor<4xf32>) -> tensor<4xf32>",
     R"(%zero = stablehlo.constant dense<0.0> : tensor<4xf32>
        %a = stablehlo.add %x, %zero : tensor<4xf32>
        return %a : tensor<4xf32>)",
     R"(%zero = stablehlo.constant dense<0.0> : tensor<4xf32>
        %a = stablehlo.add %x, %zero : tensor<4xf32>
        return %a : tensor<4xf32>)"},
    {"widened_and_back", "(%x: tensor<4xbf16>) -> tensor<4xbf16>",
     R"(%a = stablehlo.convert %x : (tensor<4xbf16>) -> tensor<4xf32>
        %b = stablehlo.convert %a : (tensor<4xf32>) -> tensor<4xbf16>
        return %b : tensor<4xbf16>)",
     "return %x : tensor<4xbf16>"},
    // The first convert rounds.
    {"narrowed_and_back", "(%x: tensor<4xf32>) -> tensor<4xf32>",
     R"(%a = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xbf16>
        %b = stablehlo.convert %a : (tensor<4xbf16>) -> tensor<4xf32>
        return %b : tensor<4xf32>)",
     R"(%a = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xbf16>
        %b = stablehlo.convert %a : (tensor<4xbf16>) -> tensor<4xf32>
        return %b : tensor<4xf32>)"},
    // Of arguments it would be a kernel more.
    {"rounded_behind_a_concatenation", "(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<8xbf16>",
     R"(%a = stablehlo.negate %x : tensor<4xf32>
        %b = stablehlo.negate %y : tensor<4xf32>
        %c = stablehlo.concatenate %a, %b, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
        %r = stablehlo.convert %c : (tensor<8xf32>) -> tensor<8xbf16>
        return %r : tensor<8xbf16>)",
     R"(%a = stablehlo.negate %x : tensor<4xf32>
        %b = stablehlo.negate %y : tensor<4xf32>
        %p = stablehlo.convert %a : (tensor<4xf32>) -> tensor<4xbf16>
        %q = stablehlo.convert %b : (tensor<4xf32>) -> tensor<4xbf16>
        %c = stablehlo.concatenate %p, %q, dim = 0 : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<8xbf16>
        return %c : tensor<8xbf16>)"},
    {"rounded_arguments_side_by_side", "(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<8xbf16>",
     R"(%c = stablehlo.concatenate %x, %y, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
        %r = stablehlo.convert %c : (tensor<8xf32>) -> tensor<8xbf16>
        return %r : tensor<8xbf16>)",
     R"(%c = stablehlo.concatenate %x, %y, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
        %r = stablehlo.convert %c : (tensor<8xf32>) -> tensor<8xbf16>
        return %r : tensor<8xbf16>)"},
    {"division_by_a_power_of_two", "(%x: tensor<4xf32>) -> tensor<4xf32>",
     R"(%four = stablehlo.constant dense<4.0> : tensor<4xf32>
        %a = stablehlo.divide %x, %four : tensor<4xf32>
        return %a : tensor<4xf32>)",
     R"(%quarter = stablehlo.constant dense<0.25> : tensor<4xf32>
        %a = stablehlo.multiply %x, %quarter : tensor<4xf32>
        return %a : tensor<4xf32>)"},
    {"one_matrix_for_a_whole_batch", "(%x: tensor<2x4x5x6xf32>, %w: tensor<4x3xf32>) -> tensor<2x5x6x3xf32>",
     R"(%t = stablehlo.transpose %x, dims = [0, 2, 3, 1] : (tensor<2x4x5x6xf32>) -> tensor<2x5x6x4xf32>
        %s = stablehlo.broadcast_in_dim %w, dims = [2, 3] : (tensor<4x3xf32>) -> tensor<2x5x4x3xf32>
        %p = stablehlo.dot_general %t, %s, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2]
             : (tensor<2x5x6x4xf32>, tensor<2x5x4x3xf32>) -> tensor<2x5x6x3xf32>
        return %p : tensor<2x5x6x3xf32>)",
     R"(%p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
             : (tensor<2x4x5x6xf32>, tensor<4x3xf32>) -> tensor<2x5x6x3xf32>
        return %p : tensor<2x5x6x3xf32>)"},
    // A batch between the rows: the result has it in front.
    {"one_matrix_for_a_batch_of_columns", "(%x: tensor<5x2x4xf32>, %w: tensor<4x3xf32>) -> tensor<2x5x3xf32>",
     R"(%s = stablehlo.broadcast_in_dim %w, dims = [1, 2] : (tensor<4x3xf32>) -> tensor<2x4x3xf32>
        %p = stablehlo.dot_general %x, %s, batching_dims = [1] x [0], contracting_dims = [2] x [1]
             : (tensor<5x2x4xf32>, tensor<2x4x3xf32>) -> tensor<2x5x3xf32>
        return %p : tensor<2x5x3xf32>)",
     R"(%s = stablehlo.broadcast_in_dim %w, dims = [1, 2] : (tensor<4x3xf32>) -> tensor<2x4x3xf32>
        %p = stablehlo.dot_general %x, %s, batching_dims = [1] x [0], contracting_dims = [2] x [1]
             : (tensor<5x2x4xf32>, tensor<2x4x3xf32>) -> tensor<2x5x3xf32>
        return %p : tensor<2x5x3xf32>)"},
    {"known_select", "(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32>",
     R"(%yes = stablehlo.constant dense<true> : tensor<4xi1>
        %a = stablehlo.select %yes, %x, %y : tensor<4xi1>, tensor<4xf32>
        return %a : tensor<4xf32>)",
     "return %x : tensor<4xf32>"},
};

TEST(Simplify, WritesIdentitiesThatKeepEveryBit) { expect_cases(kSimplifyCases, run_simplify); }

TEST(Simplify, SaysHowManyOpsItReplaced) {
  graph::Module module =
      parsed(main_of("(%x: tensor<4xf32>) -> tensor<4xf32>",
                     "%a = stablehlo.negate %x : tensor<4xf32>\nreturn %a : tensor<4xf32>"));
  EXPECT_EQ(simplify(module.entry()), 0);
}

}  // namespace
}  // namespace opentrn::compiler
