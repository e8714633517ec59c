// Aligned text tables for people to read.
#pragma once

#include <string>
#include <vector>

#include "arch/fact.h"

namespace opentrn::cli {

inline constexpr size_t kLineWidth = 120;     // of what is no terminal
inline constexpr size_t kTerminalWidth = 80;  // of one that nobody has resized

// Columns that a line of stdout may have: the terminal's where it is one, at most kLineWidth.
size_t line_width();

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
  // Columns that do not fit in `width` stand below their row, each with its heading.
  std::string str(size_t width = line_width()) const;

 private:
  size_t columns_in(size_t width, const std::vector<size_t>& widths) const;
  std::vector<std::vector<std::string>> rows_;  // the first is the header
};

// Breaks at blanks so that no line is longer than `width`; all lines start with `indent` blanks, and those
// behind the first with `more` others.
std::string wrapped(const std::string& text, size_t indent, size_t width = line_width(), size_t more = 0);

// The same for each line of a text that is too long; the others stay as they are.
std::string wrapped_lines(const std::string& text, size_t width = line_width());

}  // namespace opentrn::cli
