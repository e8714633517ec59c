#include "cli/text_table.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <sstream>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

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

size_t line_width() {
  constexpr size_t kLeast = 40;
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < kLeast)
    return kLineWidth;
  return std::min<size_t>(size.ws_col, kLineWidth);
}

// How many of the first columns fit, with a blank before each; all where not even two do.
size_t TextTable::columns_in(size_t width, const std::vector<size_t>& widths) const {
  size_t count = 0, used = 0;
  while (count < widths.size() && used + 1 + widths[count] <= width) used += 1 + widths[count++];
  return count < 2 ? widths.size() : count;
}

std::string TextTable::str(size_t most) const {
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
  const std::string gap(cells + 2 * columns <= std::min(most, kTerminalWidth) ? 2 : 1, ' ');
  const size_t beside = columns_in(most, width);
  std::string out;
  for (const std::vector<std::string>& row : rows_) {
    std::string line;
    for (size_t c = 0; c < beside; ++c)
      line += gap +
              (right[c] ? fmt::format("{:>{}}", row[c], width[c]) : fmt::format("{:<{}}", row[c], width[c]));
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    std::string below;
    for (size_t c = beside; c < columns && &row != &rows_.front(); ++c)
      if (!row[c].empty()) below += fmt::format("{}{}: {}", below.empty() ? "" : "; ", rows_[0][c], row[c]);
    constexpr size_t kIndent = 4;
    if (!below.empty()) out += wrapped(below, kIndent, most);
  }
  return out;
}

std::string wrapped(const std::string& text, size_t indent, size_t width, size_t more) {
  size_t start = indent;
  std::istringstream words(text);
  std::string out, line(start, ' ');
  for (std::string word; words >> word;) {
    if (line.size() > start && line.size() + 1 + word.size() > width) {
      out += line + "\n";
      start = indent + more;
      line.assign(start, ' ');
    }
    line += (line.size() > start ? " " : "") + word;
  }
  return out + line + "\n";
}

std::string wrapped_lines(const std::string& text, size_t width) {
  constexpr size_t kMore = 2;
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    out += line.size() <= width ? line + "\n" : wrapped(line, indent, width, kMore);
  }
  return out;
}

}  // namespace opentrn::cli
