#include "cli/text_table.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <sstream>

#include <fmt/format.h>

namespace opentrn::cli {
namespace {

bool is_numeric(const std::string& text) {
  if (text.empty() || text == "?" || text == "-") return true;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isdigit(c) || c == '.' || c == ',' || c == '/' || c == '-';
  });
}

std::string with_thousands(std::string digits) {
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

}  // namespace

std::string cell(const std::string& value) { return value; }

std::string cell(double value) {
  if (value < 0) return fmt::format("-{}", cell(-value));
  if (value < 1000) return fmt::format("{:.6g}", value);
  const double tenths = std::round(value * 10) / 10;
  const double whole = std::floor(tenths);
  const std::string rest = tenths == whole ? "" : fmt::format("{:.1f}", tenths - whole).substr(1);
  return with_thousands(fmt::format("{:.0f}", whole)) + rest;
}

TextTable::TextTable(std::vector<std::string> header) { rows_.push_back(std::move(header)); }

void TextTable::add_row(std::vector<std::string> cells) {
  OPENTRN_CHECK(cells.size() == rows_[0].size(), "{} cells under {} headings", cells.size(), rows_[0].size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::str() const {
  const size_t columns = rows_[0].size();
  std::vector<size_t> width(columns, 0);
  std::vector<bool> right(columns, true);
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < columns; ++c) {
      width[c] = std::max(width[c], rows_[r][c].size());
      if (r > 0 && !is_numeric(rows_[r][c])) right[c] = false;
    }
  }
  const size_t cells = std::accumulate(width.begin(), width.end(), size_t{0});
  const std::string gap(cells + 2 * columns <= kTerminalWidth ? 2 : 1, ' ');
  std::string out;
  for (const std::vector<std::string>& row : rows_) {
    std::string line;
    for (size_t c = 0; c < columns; ++c)
      line += gap +
              (right[c] ? fmt::format("{:>{}}", row[c], width[c]) : fmt::format("{:<{}}", row[c], width[c]));
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string wrapped(const std::string& text, size_t indent) {
  const std::string start(indent, ' ');
  std::istringstream words(text);
  std::string out, line = start;
  for (std::string word; words >> word;) {
    if (line.size() > indent && line.size() + 1 + word.size() > kLineWidth) {
      out += line + "\n";
      line = start;
    }
    line += (line.size() > indent ? " " : "") + word;
  }
  return out + line + "\n";
}

}  // namespace opentrn::cli
