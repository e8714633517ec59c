// Runs the `opentrn` program in the test's process.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/commands.h"

namespace opentrn::cli {

struct Ran {
  int code;
  std::string out, err;
};

inline Ran run_for_test(std::vector<const char*> words) {
  words.insert(words.begin(), "opentrn");
  std::ostringstream out, err;
  const int code = run({add_ls, add_describe, add_fabric, add_nccom_test, add_plan, add_replay},
                       static_cast<int>(words.size()), words.data(), out, err);
  return {code, out.str(), err.str()};
}

// The longest line, in bytes; the output is ASCII.
inline size_t longest_line(const std::string& text) {
  std::istringstream lines(text);
  size_t longest = 0;
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

}  // namespace opentrn::cli
