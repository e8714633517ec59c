// Programs for the test of expansions (expand_ops_test.cc), in several files.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "compiler/analysis/pass_for_test.h"

namespace opentrn::compiler {

// `body` ends without a return: `%r` is returned, of type `result`.
struct ExpansionCase {
  std::string arguments, result, body;
  double tolerance = 0;  // 0: the same bits
  double range = 4;

  std::string text() const {
    return main_of(fmt::format("({}) -> {}", arguments, result),
                   fmt::format("{}\nreturn %r : {}", body, result));
  }
};

inline std::string region(const std::string& type, const std::string& op) {
  return " ({ ^bb0(%p: tensor<" + type + ">, %q: tensor<" + type + ">):\n" + op +
         "\nstablehlo.return %s : tensor<" + type + "> }) : ";
}

// Of gathers and scatters (scatter_cases_test.cc).
std::vector<ExpansionCase> scatter_and_gather_cases();

}  // namespace opentrn::compiler
