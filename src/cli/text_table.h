// Aligned text tables for people to read.
#pragma once

#include <string>
#include <vector>

#include "arch/fact.h"

namespace opentrn::cli {

inline constexpr size_t kLineWidth = 120;
inline constexpr size_t kTerminalWidth = 80;  // of one that nobody has resized

// A value that no public source gives prints as "?", one that does not apply as "-".
std::string cell(double value);  // 6 significant digits below 1000, thousands grouped above
std::string cell(const std::string& value);
template <typename T>
std::string cell(const arch::Spec<T>& spec) {
  if (!spec.listed()) return "-";
  return spec.known() ? cell(spec.value()) : "?";
}

class TextTable {
 public:
  // A column whose every cell is a number, "?" or "-" is set to the right.
  explicit TextTable(std::vector<std::string> header);
  void add_row(std::vector<std::string> cells);
  // Lines without trailing blanks. Two blanks before each column, one where the table would be too wide.
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the first is the header
};

// Breaks at blanks so that no line is longer than kLineWidth; all lines start with `indent` blanks.
std::string wrapped(const std::string& text, size_t indent);

}  // namespace opentrn::cli
