// opentrn._core: what commands say of models (model/reports.h). Facts come and go as JSON.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "base/number_text.h"
#include "model/reports.h"
#include "python/model_bindings.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// As coverage_rows() gives one.
using CoverageTuple =
    std::tuple<std::string, int64_t, int64_t, std::string, int64_t, double, std::string, int, std::string>;
using HostTuple = std::tuple<std::string, std::string, std::string, int, std::string, double, int64_t>;

std::vector<runtime::HostOp> host_ops_of(const std::vector<HostTuple>& rows) {
  std::vector<runtime::HostOp> calls;
  for (const auto& [ops, result, file, line, name, flops, bytes] : rows)
    calls.push_back({ops, result, {file, line, name}, flops, bytes});
  return calls;
}

model::Report coverage_report(const std::vector<CoverageTuple>& rows, const std::vector<std::string>& notes) {
  std::vector<compiler::OpCoverage> ops;
  for (const auto& [op, count, unsupported, example, emulated, flops, file, line, name] : rows)
    ops.push_back({op, count, emulated, unsupported, flops, example, {file, line, name}});
  return model::coverage_report(std::move(ops), notes);
}

std::string json_text(const model::Report& report) {
  return report.json.dump(1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void bind_reports(nb::module_& module) {
  nb::class_<model::Report>(module, "Report", "What a command says of a model.")
      .def_ro("text", &model::Report::text, "For people, lines that end.")
      .def_prop_ro("json", &json_text, "The same for machines.")
      .def_ro("complete", &model::Report::complete, "Whether nothing of the model is refused.");
  module.def("coverage_report", &coverage_report, "rows"_a, "notes"_a,
             "Of the rows that coverage() gives, those first of which most is refused.");
  module.def(
      "unknown_operators_report",
      [](const std::filesystem::path& path) {
        return model::unknown_operators_report(import::onnx::survey(path));
      },
      "path"_a, "Of an ONNX file: the operators that are not imported; complete where all are.");
  module.def(
      "compile_report",
      [](const std::string& facts, const std::string& stages, const std::string& predicted) {
        return model::compile_report(nlohmann::ordered_json::parse(facts), stages, predicted);
      },
      "facts"_a, "stages"_a, "predicted"_a,
      "Of facts as JSON, and lines about stages and the predicted time.");
  module.def(
      "description_text",
      [](const std::string& program) {
        return model::description_text(nlohmann::ordered_json::parse(program));
      },
      "program"_a, "Of the facts that LoadedModel.description() gives.");
  module.def(
      "host_text",
      [](const std::vector<HostTuple>& calls, double flops, double bytes) {
        return model::host_text(host_ops_of(calls), {flops, bytes});
      },
      "calls"_a, "flops_share"_a, "bytes_share"_a);
  module.def(
      "output_text",
      [](const std::string& facts) { return model::output_text(nlohmann::ordered_json::parse(facts)); },
      "facts"_a, "Of a result that `opentrn run` computed, from the facts that it prints as JSON.");
  module.def("size_text", &size_text, "count"_a, "Bytes with four digits: 512 B, 1.5 KiB.");
  module.def("time_text", &time_text, "us"_a, "Microseconds in the unit that suits them.");
  module.def(
      "place_text",
      [](const std::string& file, int line, const std::string& name) {
        return model::place_of({file, line, name});
      },
      "file"_a, "line"_a, "name"_a, "The framework's name of an op, else its line.");
}

}  // namespace opentrn::python
