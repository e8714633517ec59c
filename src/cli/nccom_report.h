// What `nccom-test` prints and writes: the documented table, character by character, and the documented JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace opentrn::cli::nccom {

struct Row {
  int64_t bytes = 0, elements = 0;
  std::string type;
  std::vector<double> times_us;  // of each statistic of Columns
  double average_us = 0;         // what bandwidths are computed from
  std::string algorithm;
  std::optional<int64_t> input_bytes, output_bytes;  // of a rank
};

struct Columns {
  std::string operation;           // long name: its bus factor
  int ranks = 1;                   // of a group
  std::vector<std::string> stats;  // "avg", "p50"
  bool algorithm = false, sizes = false;
};

double algorithm_bandwidth(const Row& row);  // decimal GB/s
double bus_bandwidth(const Columns& columns, const Row& row);
std::string table_of(const Columns& columns, const std::vector<Row>& rows);
nlohmann::ordered_json json_of(const Columns& columns, const std::vector<Row>& rows);

}  // namespace opentrn::cli::nccom
