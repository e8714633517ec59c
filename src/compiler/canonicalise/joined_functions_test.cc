#include "compiler/analysis/pass_for_test.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {
namespace {

void functions_joined(graph::Function& function) {
  join_functions(function);
  remove_dead_ops(function);
}

constexpr PassCase kJoinedFunctionsCases[] = {
    // The gates i, f, g, o of an LSTM: g lies between the others.
    {"gates", "(%x: tensor<2x8xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>)",
     R"(%a = stablehlo.slice %x [0:2, 0:2] : (tensor<2x8xf32>) -> tensor<2x2xf32>
        %b = stablehlo.slice %x [0:2, 2:4] : (tensor<2x8xf32>) -> tensor<2x2xf32>
        %c = stablehlo.slice %x [0:2, 6:8] : (tensor<2x8xf32>) -> tensor<2x2xf32>
        %i = stablehlo.logistic %a : tensor<2x2xf32>
        %f = stablehlo.logistic %b : tensor<2x2xf32>
        %o = stablehlo.logistic %c : tensor<2x2xf32>
        return %i, %f, %o : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>)",
     R"(%y = stablehlo.logistic %x : tensor<2x8xf32>
        %i = stablehlo.slice %y [0:2, 0:2] : (tensor<2x8xf32>) -> tensor<2x2xf32>
        %f = stablehlo.slice %y [0:2, 2:4] : (tensor<2x8xf32>) -> tensor<2x2xf32>
        %o = stablehlo.slice %y [0:2, 6:8] : (tensor<2x8xf32>) -> tensor<2x2xf32>
        return %i, %f, %o : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>)"},
    // A stretch that is not all of the tensor, and parts that lie upon each other.
    {"stretch", "(%x: tensor<9xf32>) -> (tensor<2xf32>, tensor<3xf32>)",
     R"(%a = stablehlo.slice %x [3:5] : (tensor<9xf32>) -> tensor<2xf32>
        %b = stablehlo.slice %x [4:7] : (tensor<9xf32>) -> tensor<3xf32>
        %i = stablehlo.tanh %a : tensor<2xf32>
        %f = stablehlo.tanh %b : tensor<3xf32>
        return %i, %f : tensor<2xf32>, tensor<3xf32>)",
     R"(%s = stablehlo.slice %x [3:7] : (tensor<9xf32>) -> tensor<4xf32>
        %y = stablehlo.tanh %s : tensor<4xf32>
        %i = stablehlo.slice %y [0:2] : (tensor<4xf32>) -> tensor<2xf32>
        %f = stablehlo.slice %y [1:4] : (tensor<4xf32>) -> tensor<3xf32>
        return %i, %f : tensor<2xf32>, tensor<3xf32>)"},
};

TEST(JoinFunctions, OfPartsOfOneTensor) { expect_cases(kJoinedFunctionsCases, functions_joined); }

// Two functions, two tensors, parts of the rows, every second column, many columns that nobody reads, many
// rows.
TEST(JoinFunctions, LeavesOthers) {
  const auto two = [](const std::string& whole, const std::string& first, const std::string& second,
                      const std::string& type, const std::string& function) {
    const std::string to = " : (" + whole + ") -> " + type + "\n";
    return main_of("(%x: " + whole + ", %y: " + whole + ") -> (" + type + ", " + type + ")",
                   "%a = stablehlo.slice " + first + to + "%b = stablehlo.slice " + second + to +
                       "%p = stablehlo.tanh %a : " + type + "\n%q = stablehlo." + function + " %b : " + type +
                       "\nreturn %p, %q : " + type + ", " + type);
  };
  const std::string texts[] = {
      two("tensor<2x8xf32>", "%x [0:2, 0:2]", "%x [0:2, 2:4]", "tensor<2x2xf32>", "logistic"),
      two("tensor<2x8xf32>", "%x [0:2, 0:2]", "%y [0:2, 2:4]", "tensor<2x2xf32>", "tanh"),
      two("tensor<2x8xf32>", "%x [0:1, 0:2]", "%x [1:2, 2:4]", "tensor<1x2xf32>", "tanh"),
      two("tensor<2x8xf32>", "%x [0:2, 0:4:2]", "%x [0:2, 4:8:2]", "tensor<2x2xf32>", "tanh"),
      two("tensor<2x800xf32>", "%x [0:2, 0:2]", "%x [0:2, 602:604]", "tensor<2x2xf32>", "tanh"),
      two("tensor<129x8xf32>", "%x [0:129, 0:2]", "%x [0:129, 2:4]", "tensor<129x2xf32>", "tanh"),
  };
  for (const std::string& text : texts) EXPECT_EQ(after(text, functions_joined), printed(text));
}

}  // namespace
}  // namespace opentrn::compiler
