// Published measurements from a file of comma-separated values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace opentrn::planner {

// One published figure, as its file has it.
struct Row {
  int line = 0;  // in the file, from 1
  std::string id, system, model, params, chips, parallelism, seq, global_batch, dtype, metric, value, unit,
      source;

  std::string family() const { return id.substr(0, id.find('.')); }
};

// The cells of a file under columns of these names, in their order; other columns are left out. Input faults,
// as read_rows().
struct Record {
  int line = 0;  // in the file, from 1
  std::vector<std::string> cells;
};
std::vector<Record> read_columns(std::string_view text, const std::string& origin,
                                 const std::vector<std::string>& columns);

// Input faults, with the line: a column that is missing, a row of another length, a quote that is not closed.
std::vector<Row> read_rows(std::string_view text, const std::string& origin);

}  // namespace opentrn::planner
