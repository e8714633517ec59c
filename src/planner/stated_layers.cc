#include "planner/stated_layers.h"

#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "base/fault.h"
#include "planner/check/csv.h"

namespace opentrn::planner {

StatedLayers::StatedLayers(std::string_view text, const std::string& origin) {
  const std::vector<std::string> columns = {"tp",         "cp",          "sp",       "micro_batch",
                                            "forward_us", "backward_us", "output_us"};
  for (const Record& row : read_columns(text, origin, columns)) {
    double values[7];
    for (size_t i = 0; i < columns.size(); ++i) {
      const std::string& cell = row.cells[i];
      char* end = nullptr;
      values[i] = std::strtod(cell.c_str(), &end);
      const bool whole = i >= 4 || values[i] == std::floor(values[i]);
      const double least = i == 2 || i == 6 ? 0 : i < 4 ? 1 : 1e-9;
      if (cell.empty() || *end != '\0' || !whole || !(values[i] >= least) ||
          values[i] > (i < 4 ? 1e6 : 1e15) || (i == 2 && values[i] > 1))
        throw Fault(FaultKind::kInput, "plan.rows",
                    fmt::format("{}, line {}: {} is '{}'", origin, row.line, columns[i], cell),
                    "degrees from 1, sp 0 or 1, microseconds above 0");
    }
    const auto degree = [&](int i) { return static_cast<int>(values[i]); };
    const std::tuple key{degree(0), degree(1), values[2] > 0, degree(3)};
    LayerTimes times;
    times.block.forward = values[4] * 1e-6;
    times.block.backward = values[5] * 1e-6;
    times.block.weights = times.block.backward / 2;  // nothing states it: half of a backward pass
    times.output_s = values[6] * 1e-6;
    if (!rows_.emplace(key, times).second)
      throw Fault(FaultKind::kInput, "plan.rows",
                  fmt::format("{}, line {}: these degrees stand there twice", origin, row.line),
                  "one of the two");
  }
}

std::optional<LayerTimes> StatedLayers::layers(const Job&, const Machine&, const Layout& layout,
                                               std::string& why) {
  const auto found = rows_.find({layout.tp, layout.cp, layout.sp, layout.micro_batch});
  why = found != rows_.end() ? "" : "some layouts have no row of stated times";
  return found != rows_.end() ? std::optional(found->second) : std::nullopt;
}

std::optional<ServeTimes> StatedLayers::serve(const Model&, Precision, const Machine&, int, const ServeStep&,
                                              std::string& why) {
  why = "stated times are of training";
  return std::nullopt;
}

}  // namespace opentrn::planner
