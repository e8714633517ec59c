#include "planner/check/csv.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::planner {
namespace {

constexpr std::pair<const char*, std::string Row::*> kColumns[] = {
    {"id", &Row::id},        {"system", &Row::system},
    {"model", &Row::model},  {"params", &Row::params},
    {"chips", &Row::chips},  {"parallelism", &Row::parallelism},
    {"seq", &Row::seq},      {"global_batch", &Row::global_batch},
    {"dtype", &Row::dtype},  {"metric", &Row::metric},
    {"value", &Row::value},  {"unit", &Row::unit},
    {"source", &Row::source}};

std::vector<Record> records_of(std::string_view text, const std::string& origin) {
  std::vector<Record> records;
  Record record{1, {""}};
  bool quoted = false, any = false;
  int line = 1, opened = 1;
  const auto close = [&] {
    if (any || record.cells.size() > 1) records.push_back(std::move(record));
    record = {line, {""}};
    any = false;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char each = text[i];
    if (each == '\n') ++line;
    if (quoted) {
      if (each != '"') {
        record.cells.back() += each;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        record.cells.back() += text[++i];
      } else {
        quoted = false;
      }
    } else if (each == '"') {
      quoted = any = true;
      opened = line;
    } else if (each == ',') {
      record.cells.emplace_back();
    } else if (each == '\n') {
      close();
    } else if (each != '\r') {
      record.cells.back() += each;
      any = true;
    }
  }
  if (quoted)
    throw Fault(FaultKind::kInput, "plan.rows",
                fmt::format("{}, line {}: a quote that is not closed", origin, opened),
                "a second quote ends it; two stand for one");
  close();
  return records;
}

}  // namespace

std::vector<Record> read_columns(std::string_view text, const std::string& origin,
                                 const std::vector<std::string>& columns) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const std::vector<Record> records = records_of(text, origin);
  const auto refuse = [&](int line, std::string what, std::string hint) {
    throw Fault(FaultKind::kInput, "plan.rows", fmt::format("{}, line {}: {}", origin, line, what),
                std::move(hint));
  };
  if (records.empty()) refuse(1, "no row", "the names of the columns, then the rows");
  const std::vector<std::string>& header = records.front().cells;
  std::vector<size_t> at;
  for (const std::string& column : columns) {
    const auto found = std::ranges::find(header, column);
    if (found == header.end())
      refuse(records.front().line, fmt::format("no column '{}'", column),
             fmt::format("{}", fmt::join(columns, ",")));
    at.push_back(static_cast<size_t>(found - header.begin()));
  }
  std::vector<Record> rows;
  for (size_t r = 1; r < records.size(); ++r) {
    const Record& record = records[r];
    if (record.cells.size() != header.size())
      refuse(record.line, fmt::format("{} cells under {} columns", record.cells.size(), header.size()),
             "a comma inside a cell needs quotes around it");
    Record row{record.line, {}};
    for (const size_t i : at) row.cells.push_back(record.cells[i]);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> read_rows(std::string_view text, const std::string& origin) {
  std::vector<std::string> columns;
  for (const auto& column : kColumns) columns.emplace_back(column.first);
  std::vector<Row> rows;
  for (const Record& record : read_columns(text, origin, columns)) {
    Row row;
    row.line = record.line;
    for (size_t i = 0; i < std::size(kColumns); ++i) row.*kColumns[i].second = record.cells[i];
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace opentrn::planner
