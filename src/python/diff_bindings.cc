// opentrn._core: a model's values against float64 (model/diff.h). opentrn/model/diff.py runs the programs.
#include <nanobind/nanobind.h>
#include <algorithm>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "compiler/observed_values.h"
#include "model/diff_report.h"
#include "python/graph_bindings.h"
#include "python/model_bindings.h"
#include "python/unlocked.h"
#include "runtime/device_call.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using compiler::ObservedValues;
using graph::Literal;

compiler::ObservedValues observe(const graph::Module& module) {
  const Interruptible work;
  return compiler::observe(module);
}

// (kind, file, line, name, type, element, judgement, terms) of each.
nb::list rows_of(const ObservedValues& observed) {
  constexpr std::string_view kJudgements[] = {"exact", "rounded", "function", "sum", "unknown"};
  nb::list rows;
  for (const compiler::ObservedValue& row : observed.values)
    rows.append(nb::make_tuple(row.kind, row.where.file, row.where.line, row.where.function,
                               row.type.to_string(), std::string(graph::name(row.type.element())),
                               std::string(kJudgements[static_cast<size_t>(row.judgement)]), row.terms));
  return rows;
}

std::vector<Literal> literals_of(const nb::list& values) {
  std::vector<Literal> literals;
  for (const nb::handle value : values) literals.push_back(literal_of(value));
  return literals;
}

model::DiffReport judged(const ObservedValues& observed, std::string target, const nb::list& arguments,
                         const nb::list& device, const nb::list& whole) {
  const auto given = literals_of(arguments), made = literals_of(device), wanted = literals_of(whole);
  const Unlocked unlocked;
  const auto rows =
      model::judge(observed, given, made, wanted, {.device_call = runtime::evaluate_device_call});
  return model::report_of(std::move(target), observed, rows);
}

bool has_values_of(const ObservedValues& observed, const ObservedValues& other) {
  return std::ranges::equal(
      observed.values, other.values, {}, [](const auto& row) { return row.type.to_string(); },
      [](const auto& row) { return row.type.to_string(); });
}

void add_result(model::DiffReport& report, nb::handle fused, nb::handle kept, nb::handle exact,
                const std::string& element, nb::handle model) {
  const Literal made = literal_of(fused);
  model::ResultRow row{
      model::compare_result(made, literal_of(kept), literal_of(exact), element_named(element)), {}};
  if (!model.is_none()) row.from_model = model::distance(made, literal_of(model));
  report.results.push_back(row);
}

nb::list diff_results(const model::DiffReport& report) {
  nb::list rows;
  for (const model::ResultRow& found : report.results) {
    nb::dict row;
    row["max_abs"] = found.error.accumulated.max_abs;
    row["max_rel"] = found.error.accumulated.max_rel;
    row["max_abs_kept"] = found.error.max_abs_kept;
    row["same_bits"] = found.error.same_bits;
    row["verdict"] = std::string(found.error.verdict);
    if (found.from_model) {
      nb::dict distance;
      distance["relative_rms"] = found.from_model->relative_rms;
      distance["cosine"] = found.from_model->cosine;
      row["from_model"] = distance;
    }
    rows.append(row);
  }
  return rows;
}

nb::dict diff_fields(const model::DiffRow& row) {
  nb::dict fields;
  fields["number"] = row.number;
  fields["op"] = row.op;
  fields["name"] = row.name;
  fields["file"] = row.file;
  fields["line"] = row.line;
  fields["type"] = row.type;
  fields["judgement"] = std::string(row.judgement);
  fields["max_abs"] = row.error.accumulated.max_abs;
  fields["max_rel"] = row.error.accumulated.max_rel;
  fields["own_ulp"] = row.error.own_ulp;
  fields["of_limit"] = row.error.of_limit;
  fields["verdict"] = std::string(row.error.verdict);
  return fields;
}

nb::dict diff_json(const model::DiffReport& report) {
  nb::list ops;
  for (const model::DiffRow& row : report.ops) ops.append(diff_fields(row));
  const model::DiffRow* bug = report.first_bug();
  nb::dict made;
  made["target"] = report.target;
  made["first_bug"] = bug ? nb::object(diff_fields(*bug)) : nb::none();
  made["is_clean"] = report.is_clean();
  made["results"] = diff_results(report);
  made["ops"] = ops;
  return made;
}

void bind_report(nb::module_& module) {
  using model::DiffRow;
  const auto of_error = [](auto field) { return [field](const DiffRow& row) { return row.error.*field; }; };
  nb::class_<DiffRow>(module, "OpDiff", "One op's value on the device against float64.")
      .def_ro("number", &DiffRow::number)
      .def_ro("op", &DiffRow::op)
      .def_ro("name", &DiffRow::name, "The framework's; empty where it has none.")
      .def_ro("file", &DiffRow::file)
      .def_ro("line", &DiffRow::line)
      .def_ro("type", &DiffRow::type)
      .def_prop_ro("judgement", [](const DiffRow& row) { return std::string(row.judgement); })
      .def_prop_ro(
          "max_abs", [](const DiffRow& row) { return row.error.accumulated.max_abs; },
          "The accumulated error: against the model in float64.")
      .def_prop_ro(
          "max_rel", [](const DiffRow& row) { return row.error.accumulated.max_rel; },
          "That of the largest element.")
      .def_prop_ro("own_ulp", of_error(&model::OpDiff::own_ulp),
                   "The op's own error in units in the last place; of integers, elements that differ.")
      .def_prop_ro("of_limit", of_error(&model::OpDiff::of_limit),
                   "The largest own error over what rounding explains there; None when no limit is known.")
      .def_prop_ro(
          "verdict", [](const DiffRow& row) { return std::string(row.error.verdict); },
          "exact, rounding, bug or not judged.")
      .def_prop_ro("place", &DiffRow::place, "The framework's name of the op, else its line.");
  nb::class_<model::DiffReport>(module, "Diff", "What diff() found; `ops` in program order.")
      .def_ro("target", &model::DiffReport::target)
      .def_ro("ops", &model::DiffReport::ops)
      .def_prop_ro("results", &diff_results, "Of the model as it is compiled, against float64.")
      .def("add_result", &add_result, "fused"_a, "kept"_a, "exact"_a, "element"_a, "model"_a.none(),
           "A result as it is compiled, with what the run that kept every value gave, float64, and float64 "
           "of the "
           "model without what changes values; values are (element, shape, bytes).")
      .def_prop_ro("first_bug", &model::DiffReport::first_bug, nb::rv_policy::reference_internal,
                   nb::sig("def first_bug(self) -> OpDiff | None"),
                   "The first op whose own error rounding does not explain.")
      .def_prop_ro("is_clean", &model::DiffReport::is_clean,
                   "No bug, neither in an op nor in the fused program.")
      .def("json", &diff_json, nb::sig("def json(self) -> dict[str, Any]"), "Plain data.")
      .def("text", &model::DiffReport::text, nb::kw_only(), "rows_max"_a = 12,
           "For a terminal, at most 79 columns: the ops of the largest own error first, those in doubt above "
           "all.");
}

}  // namespace

void bind_diff(nb::module_& module) {
  bind_report(module);
  nb::class_<ObservedValues>(
      module, "ObservedValues",
      "A prepared graph with every op's value as a result (compiler/observed_values.h).")
      .def_prop_ro("rows", &rows_of,
                   "(kind, file, line, name, type, element, judgement, terms) of each value.")
      .def_ro("result_count", &ObservedValues::result_count,
              "Results of the model, which come before the values.")
      .def_ro("whole", &ObservedValues::whole, "The graph.")
      .def("has_values_of", &has_values_of, "other"_a, "Whether both have values of the same types.")
      .def("judge", &judged, "target"_a, "arguments"_a, "device"_a, "whole"_a,
           "What the device made of each value against float64. Values are (element, shape, bytes); `whole`: "
           "what the "
           "graph gives in float64.");
  module.def("observe", &observe, "module"_a);
}

}  // namespace opentrn::python
