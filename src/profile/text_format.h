// Numbers and tables of the reports for a terminal.
#pragma once

#include <string>
#include <vector>

namespace opentrn::profile {

std::string time_text(double ns);        // "1.23 us"
std::string bytes_text(double bytes);    // "1.50 MiB"
std::string flops_text(double flops);    // "2.10 Gflop"
std::string percent_text(double value);  // "12.3 %"
std::string count_text(double value);    // "1.2 M"
std::string money_text(double usd);      // "$0.0123", three digits that count

// Columns are as wide as their widest cell; those from `numbers_begin` up to `numbers_end` are set to the
// right.
class Table {
 public:
  Table(std::vector<std::string> header, size_t numbers_begin, size_t numbers_end = 99)
      : rows_{std::move(header)}, numbers_begin_(numbers_begin), numbers_end_(numbers_end) {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  size_t size() const { return rows_.size() - 1; }
  std::string str() const;

 private:
  bool is_number(size_t column) const { return column >= numbers_begin_ && column < numbers_end_; }

  std::vector<std::vector<std::string>> rows_;
  size_t numbers_begin_, numbers_end_;
};

}  // namespace opentrn::profile
