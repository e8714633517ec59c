#include "profile/text_format.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace opentrn::profile {

namespace {

constexpr size_t kColumnsMax = 120;

std::string scaled(double value, double step, const std::vector<std::string>& units) {
  size_t unit = 0;
  while (value >= step && unit + 1 < units.size()) value /= step, ++unit;
  return unit == 0 ? fmt::format("{:.0f} {}", value, units[0]) : fmt::format("{:.2f} {}", value, units[unit]);
}

}  // namespace

std::string time_text(double ns) {
  if (ns == 0) return "0";
  if (ns < 1e3) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e6) return fmt::format("{:.2f} us", ns / 1e3);
  if (ns < 1e9) return fmt::format("{:.2f} ms", ns / 1e6);
  return fmt::format("{:.2f} s", ns / 1e9);
}

std::string bytes_text(double bytes) { return scaled(bytes, 1024, {"B", "KiB", "MiB", "GiB"}); }
std::string flops_text(double flops) {
  return scaled(flops, 1000, {"flop", "Kflop", "Mflop", "Gflop", "Tflop"});
}
std::string percent_text(double percent) { return fmt::format("{:.1f} %", percent); }
std::string count_text(double value) {
  if (value < 10'000) return fmt::format("{:.0f}", value);
  return scaled(value, 1000, {"", "K", "M", "G"});
}
std::string money_text(double usd) {
  const int digits = usd <= 0 ? 2 : std::clamp(2 - static_cast<int>(std::floor(std::log10(usd))), 2, 8);
  return fmt::format("${:.{}f}", usd, digits);
}

std::string Table::str() const {
  std::vector<size_t> width(rows_[0].size());
  for (const auto& row : rows_)
    for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  std::string out;
  for (const auto& row : rows_) {
    std::string line = " ";
    for (size_t c = 0; c < row.size(); ++c)
      line += is_number(c) ? fmt::format(" {:>{}} ", row[c], width[c])
                           : fmt::format(" {:<{}} ", row[c], width[c]);
    line.resize(std::min(line.size(), kColumnsMax));
    out += line.erase(line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace opentrn::profile
