#include "cli/nccom_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/units.h"
#include "cli/nccom_options.h"
#include "collectives/summary.h"

namespace opentrn::cli::nccom {

namespace {

// Two digits after the point, and one of them where the second is 0: 10.0, 10.22, 260.6.
std::string average(double us) {
  std::string text = fmt::format("{:.2f}", us);
  if (text.ends_with('0')) text.pop_back();
  return text;
}

// Percentiles are whole microseconds.
std::string time_text(const std::string& stat, double us) {
  return stat == "avg" ? average(us) : fmt::format("{:.0f}", us);
}

std::vector<std::string> header_of(const Columns& columns) {
  std::vector<std::string> header = {"size(B)", "count(elems)"};
  if (columns.sizes) header.insert(header.end(), {"total_input_size(B)", "total_output_size(B)"});
  header.emplace_back("type");
  for (const std::string& stat : columns.stats) header.push_back(fmt::format("time:{}(us)", stat));
  header.insert(header.end(), {"algbw(GB/s)", "busbw(GB/s)"});
  if (columns.algorithm) header.emplace_back("algorithm");
  return header;
}

std::vector<std::string> cells_of(const Columns& columns, const Row& row) {
  std::vector<std::string> cells = {fmt::format("{}", row.bytes), fmt::format("{}", row.elements)};
  if (columns.sizes) {
    cells.push_back(fmt::format("{}", row.input_bytes.value_or(0)));
    cells.push_back(fmt::format("{}", row.output_bytes.value_or(0)));
  }
  cells.push_back(row.type);
  for (size_t i = 0; i < columns.stats.size(); ++i)
    cells.push_back(time_text(columns.stats[i], row.times_us.at(i)));
  cells.push_back(fmt::format("{:.2f}", algorithm_bandwidth(row)));
  cells.push_back(fmt::format("{:.2f}", bus_bandwidth(columns, row)));
  if (columns.algorithm) cells.push_back(row.algorithm);
  return cells;
}

}  // namespace

double algorithm_bandwidth(const Row& row) {
  return row.average_us > 0 ? static_cast<double>(row.bytes) / (row.average_us * kBytesPerUsOfGb) : 0;
}

double bus_bandwidth(const Columns& columns, const Row& row) {
  return algorithm_bandwidth(row) * collectives::bus_factor(kind_of(columns.operation), columns.ranks);
}

std::string table_of(const Columns& columns, const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> lines = {header_of(columns)};
  for (const Row& row : rows) lines.push_back(cells_of(columns, row));
  std::vector<size_t> widths(lines[0].size(), 0);
  for (const auto& line : lines)
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  std::string out;
  for (const auto& line : lines) {
    std::string text;
    for (size_t i = 0; i < line.size(); ++i)
      text += fmt::format("{}{:>{}}", i ? "    " : "", line[i], widths[i]);
    // The documented samples begin their header at the margin.
    if (&line == lines.data()) text.erase(0, text.find_first_not_of(' '));
    out += text + "\n";
  }
  double sum = 0;
  for (const Row& row : rows) sum += bus_bandwidth(columns, row);
  if (!rows.empty())
    out += fmt::format("Avg bus bandwidth:\t{:.4f}GB/s\n", sum / static_cast<double>(rows.size()));
  return out;
}

nlohmann::ordered_json json_of(const Columns& columns, const std::vector<Row>& rows) {
  auto out = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    nlohmann::ordered_json item = {{"size(B)", row.bytes},
                                   {"count(elems)", row.elements},
                                   {"type", row.type},
                                   {"algbw(GB/s)", algorithm_bandwidth(row)},
                                   {"busbw(GB/s)", bus_bandwidth(columns, row)}};
    for (size_t i = 0; i < columns.stats.size(); ++i)
      item[fmt::format("time:{}(us)", columns.stats[i])] = row.times_us.at(i);
    if (columns.sizes) {
      item["total_input_size(B)"] = row.input_bytes.value_or(0);
      item["total_output_size(B)"] = row.output_bytes.value_or(0);
    }
    if (columns.algorithm) item["algorithm"] = row.algorithm;
    out.push_back(std::move(item));
  }
  return out;
}

}  // namespace opentrn::cli::nccom
