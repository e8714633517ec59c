// What a comparison of a model with float64 found (model/diff.h), by op, and as text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/diff.h"

namespace opentrn::model {

// One op's value on the device.
struct DiffRow {
  size_t number = 0;
  std::string op, name, file;  // name: the framework's; may be empty
  int line = 0;
  std::string type;
  bool is_narrowed = false;    // the device keeps the type's 64 bits in 32
  std::string_view judgement;  // how its error was judged
  OpDiff error;

  std::string place() const;  // the framework's name, else file and line
};

// A result of the model as it is compiled. `from_model`: what casts and narrow weights cost, where there are
// some.
struct ResultRow {
  ResultDiff error;
  std::optional<Distance> from_model;
};

struct DiffReport {
  std::string target;
  std::vector<DiffRow> ops;  // in program order
  std::vector<ResultRow> results;

  const DiffRow* first_bug() const;  // the first op whose own error rounding does not explain, or null
  bool is_clean() const;             // no bug, neither in an op nor in the fused program
  // At most 79 columns: the ops of the largest own error first, those in doubt above all.
  std::string text(size_t rows_max) const;
};

// The report of what judge() said of each observed value.
DiffReport report_of(std::string target, const compiler::ObservedValues& observed,
                     const std::vector<OpDiff>& judged);

}  // namespace opentrn::model
