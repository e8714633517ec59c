// opentrn._core.graph.import_onnx: models of other formats as graph modules. Constants cross as
// (element type name, dimensions, bytes), as in graph_bindings.cc.
#include "python/import_bindings.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <filesystem>

#include "base/fault.h"
#include "graph/control_arguments.h"
#include "import/onnx/onnx.h"
#include "import/onnx/stages.h"
#include "python/unlocked.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using OnnxOptions = import::onnx::Options;

graph::Literal to_literal(const nb::tuple& parts) {
  const auto name = nb::cast<std::string>(parts[0]);
  const auto element = graph::element_type_from_name(name);
  if (!element) throw Fault(FaultKind::kInput, "graph.element", fmt::format("no element type {}", name));
  const auto data = nb::cast<nb::bytes>(parts[2]);
  const auto* begin = reinterpret_cast<const std::byte*>(data.c_str());
  return {graph::Type::tensor(*element, nb::cast<std::vector<int64_t>>(parts[1])),
          std::vector<std::byte>(begin, begin + data.size())};
}

OnnxOptions options_of(std::map<std::string, int64_t> dimensions, const nb::dict& constants) {
  OnnxOptions options{.dimensions = std::move(dimensions), .constants = {}};
  for (const auto& [name, value] : constants)
    options.constants.emplace(nb::cast<std::string>(name), to_literal(nb::cast<nb::tuple>(value)));
  return options;
}

graph::Module import_onnx(const nb::bytes& model, const std::filesystem::path& folder,
                          std::map<std::string, int64_t> dimensions, const nb::dict& constants) {
  const auto* begin = reinterpret_cast<const std::byte*>(model.c_str());
  const auto bytes = std::make_shared<const std::vector<std::byte>>(begin, begin + model.size());
  const auto options = options_of(std::move(dimensions), constants);
  const Unlocked unlocked;
  return import::onnx::import_bytes(*bytes, bytes, folder, options);
}

graph::Module import_onnx_file(const std::filesystem::path& path, std::map<std::string, int64_t> dimensions,
                               const nb::dict& constants) {
  const auto options = options_of(std::move(dimensions), constants);
  const Unlocked unlocked;
  return import::onnx::import_file(path, options);
}

// The ONNX names of the entry's arguments and results, in order.
std::pair<std::vector<std::string>, std::vector<std::string>> onnx_names(const graph::Module& module) {
  const auto names = [](const std::vector<graph::Dictionary>& dictionaries) {
    std::vector<std::string> list;
    for (const auto& dictionary : dictionaries) {
      const auto found = dictionary.find("onnx.name");
      const std::string* name = found == dictionary.end() ? nullptr : found->second.get<std::string>();
      list.push_back(name ? *name : "");
    }
    return list;
  };
  return {names(module.entry().argument_attributes), names(module.entry().result_attributes)};
}

// (domain, operator, since version, why it is refused or "")
std::vector<std::tuple<std::string, std::string, int64_t, std::string>> onnx_operators() {
  std::vector<std::tuple<std::string, std::string, int64_t, std::string>> rows;
  for (const import::onnx::OperatorRow& row : import::onnx::operators())
    rows.emplace_back(row.domain, row.op_type, row.since, row.refusal);
  return rows;
}

using ImportedStage = import::onnx::Stage;
using ImportedStagePtr = std::shared_ptr<ImportedStage>;

// nanobind's holders are of types without const; nothing changes a stage.
ImportedStagePtr shared(const std::shared_ptr<const ImportedStage>& stage) {
  return std::const_pointer_cast<ImportedStage>(stage);
}

ImportedStagePtr onnx_stages(const nb::bytes& model, const std::filesystem::path& folder,
                             std::map<std::string, int64_t> dimensions, const nb::dict& constants) {
  const auto* begin = reinterpret_cast<const std::byte*>(model.c_str());
  const auto bytes = std::make_shared<const std::vector<std::byte>>(begin, begin + model.size());
  const auto options = options_of(std::move(dimensions), constants);
  const Unlocked unlocked;
  return shared(import::onnx::first_stage(*bytes, bytes, folder, options));
}

ImportedStagePtr onnx_stages_of_file(const std::filesystem::path& path,
                                     std::map<std::string, int64_t> dimensions) {
  const import::onnx::Options options{.dimensions = std::move(dimensions), .constants = {}};
  const Unlocked unlocked;
  return shared(import::onnx::first_stage(path, options));
}

ImportedStagePtr next_stage(const ImportedStage& stage, const nb::list& answers) {
  std::vector<graph::Literal> literals;
  for (const auto answer : answers) literals.push_back(to_literal(nb::cast<nb::tuple>(answer)));
  const Unlocked unlocked;
  return shared(stage.next(literals));
}

// [(slot, the number of the question that counts its rows, or None)]
std::vector<std::tuple<size_t, std::optional<size_t>>> outputs_of(const ImportedStage& stage) {
  std::vector<std::tuple<size_t, std::optional<size_t>>> rows;
  for (const auto& output : stage.outputs) rows.emplace_back(output.slot, output.ask);
  return rows;
}

// [(name, whether it counts, bound, slot, node, element type, slots behind it)]
std::vector<std::tuple<std::string, bool, int64_t, size_t, std::string, std::string, std::vector<size_t>>>
asks_of(const ImportedStage& stage) {
  std::vector<std::tuple<std::string, bool, int64_t, size_t, std::string, std::string, std::vector<size_t>>>
      rows;
  for (const auto& ask : stage.asks)
    rows.emplace_back(ask.name, ask.counts, ask.bound, ask.slot, ask.where,
                      std::string(graph::name(ask.type.element())), ask.behind);
  return rows;
}

// [(name, element type, sizes with None for what data decide)]
std::vector<std::tuple<std::string, std::string, std::vector<std::optional<int64_t>>>> results_of(
    const ImportedStage& stage) {
  std::vector<std::tuple<std::string, std::string, std::vector<std::optional<int64_t>>>> rows;
  for (const auto& info : stage.result_infos())
    rows.emplace_back(info.name, std::string(graph::name(info.element)), info.shape);
  return rows;
}

}  // namespace

void bind_import(nb::module_& module) {
  module.def("import_onnx", import_onnx, "model"_a, "folder"_a = "",
             "dimensions"_a = std::map<std::string, int64_t>{}, "constants"_a = nb::dict());
  module.def("import_onnx_file", import_onnx_file, "path"_a,
             "dimensions"_a = std::map<std::string, int64_t>{}, "constants"_a = nb::dict());
  nb::class_<ImportedStage>(module, "OnnxStage")
      .def_prop_ro("module", [](const ImportedStage& self) { return graph::Module(self.module); })
      .def_ro("inputs", &ImportedStage::inputs)
      .def_prop_ro("outputs", outputs_of)
      .def_prop_ro("asks", asks_of)
      .def_ro("results", &ImportedStage::results)
      .def_ro("nodes_left", &ImportedStage::nodes_left)
      .def_prop_ro("result_infos", results_of)
      .def("next", next_stage, "answers"_a);
  module.def("onnx_stages", onnx_stages, "model"_a, "folder"_a = "",
             "dimensions"_a = std::map<std::string, int64_t>{}, "constants"_a = nb::dict());
  module.def("onnx_stages_of_file", onnx_stages_of_file, "path"_a,
             "dimensions"_a = std::map<std::string, int64_t>{});
  module.def("onnx_names", onnx_names);
  // [(name, input, axis)] of the dimensions that a file leaves open, at every place where they stand.
  module.def("onnx_open_dimensions", [](const std::filesystem::path& path) {
    std::vector<std::tuple<std::string, std::string, size_t>> rows;
    for (const auto& open : import::onnx::open_dimensions(path))
      rows.emplace_back(open.name, open.input, open.axis);
    return rows;
  });
  // [(operator, nodes, why it is not imported or "", name of the first such node)]
  module.def("onnx_survey", [](const std::filesystem::path& path) {
    std::vector<std::tuple<std::string, size_t, std::string, std::string>> rows;
    for (const auto& row : import::onnx::survey(path))
      rows.emplace_back(row.op, row.count, row.refusal, row.place);
    return rows;
  });
  module.def("control_arguments",
             [](const graph::Module& of) { return graph::control_arguments(of.entry()); });
  module.def("onnx_operators", onnx_operators);
}

}  // namespace opentrn::python
