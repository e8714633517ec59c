// Collectives, for the tools around the command line.
#include "python/nccom_bindings.h"

#include <tuple>

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <nlohmann/json.hpp>

#include "cli/nccom_options.h"
#include "cli/nccom_report.h"
#include "collectives/summary.h"
#include "fabric/platform.h"
#include "python/unlocked.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;  // NOLINT(google-build-using-namespace): "x"_a

namespace {

using Cells =
    std::tuple<int64_t, int64_t, std::string, std::vector<double>, double, std::string, int64_t, int64_t>;

std::string nccom_table(const std::string& operation, int ranks, const std::vector<std::string>& stats,
                        bool algorithm, bool sizes, const std::vector<Cells>& cells) {
  std::vector<cli::nccom::Row> rows;
  for (const auto& [bytes, elements, type, times, average, name, input, output] : cells)
    rows.push_back({bytes, elements, type, times, average, name, input, output});
  return table_of({operation, ranks, stats, algorithm, sizes}, rows);
}

// As JSON: "us", "bus_gb_s", "busiest", "generation" ("v2"). `groups`: how many, all at once.
std::string predict_collective(const std::string& operation, const std::string& machine, int nodes, int ranks,
                               int groups, int64_t bytes) {
  const Unlocked unlocked;
  const arch::Tables& tables = arch::default_tables();
  const fabric::Platform platform = fabric::Platform::make(tables, machine, nodes);
  const collectives::Summary summary = collectives::summary_of(
      tables, platform, collectives::place_ranks(platform, ranks * groups, 1, platform.servers()),
      {cli::nccom::kind_of(operation), DType::kUint8, bytes, ranks, ""});
  return nlohmann::json{{"us", summary.us},
                        {"bus_gb_s", summary.bus_gb_s},
                        {"busiest", summary.busiest},
                        {"generation", std::string(table_key(platform.generation()))}}
      .dump();
}

}  // namespace

void bind_nccom(nb::module_& module) {
  module.def("predict_collective", &predict_collective, "operation"_a, "machine"_a, "nodes"_a, "ranks"_a,
             "groups"_a, "bytes"_a);
  module.def("nccom_table", &nccom_table, "operation"_a, "ranks"_a, "stats"_a, "algorithm"_a, "sizes"_a,
             "rows"_a);
}

}  // namespace opentrn::python
