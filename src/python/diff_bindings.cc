// opentrn._core: a model's values against float64 (model/diff.h). opentrn/model/diff.py runs the programs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "compiler/observed_values.h"
#include "model/diff.h"
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

nb::list judged(const ObservedValues& observed, const nb::list& arguments, const nb::list& device,
                const nb::list& whole) {
  const auto given = literals_of(arguments), made = literals_of(device), wanted = literals_of(whole);
  std::vector<model::OpDiff> rows;
  {
    const Unlocked unlocked;
    rows = model::judge(observed, given, made, wanted, {.device_call = runtime::evaluate_device_call});
  }
  nb::list result;
  for (const model::OpDiff& row : rows)
    result.append(nb::make_tuple(row.accumulated.max_abs, row.accumulated.max_rel, row.own_ulp, row.of_limit,
                                 std::string(row.verdict)));
  return result;
}

nb::dict compared_result(nb::handle fused, nb::handle kept, nb::handle exact, const std::string& element) {
  const model::ResultDiff found =
      model::compare_result(literal_of(fused), literal_of(kept), literal_of(exact), element_named(element));
  nb::dict row;
  row["max_abs"] = found.accumulated.max_abs;
  row["max_rel"] = found.accumulated.max_rel;
  row["max_abs_kept"] = found.max_abs_kept;
  row["same_bits"] = found.same_bits;
  row["verdict"] = std::string(found.verdict);
  return row;
}

nb::dict distance(nb::handle have, nb::handle want) {
  const model::Distance found = model::distance(literal_of(have), literal_of(want));
  nb::dict row;
  row["relative_rms"] = found.relative_rms;
  row["cosine"] = found.cosine;
  return row;
}

}  // namespace

void bind_diff(nb::module_& module) {
  nb::class_<ObservedValues>(
      module, "ObservedValues",
      "A prepared graph with every op's value as a result (compiler/observed_values.h).")
      .def_prop_ro("rows", &rows_of,
                   "(kind, file, line, name, type, element, judgement, terms) of each value.")
      .def_ro("result_count", &ObservedValues::result_count,
              "Results of the model, which come before the values.")
      .def_ro("whole", &ObservedValues::whole, "The graph.")
      .def("judge", &judged, "arguments"_a, "device"_a, "whole"_a,
           "(max_abs, max_rel, own_ulp, of_limit, verdict) of each value: what the device made of it against "
           "float64. Values are (element, shape, bytes); `whole`: what the graph gives in float64.");
  module.def("observe", &observe, "module"_a);
  module.def(
      "compare_result", &compared_result, "fused"_a, "kept"_a, "exact"_a, "element"_a,
      "A result of the model as it is compiled, against float64 and against the run that kept every value; "
      "values are (element, shape, bytes).");
  module.def(
      "distance", &distance, "have"_a, "want"_a,
      "{relative_rms, cosine} of a result from that of the model as it is stated; values are (element, "
      "shape, bytes).");
}

}  // namespace opentrn::python
