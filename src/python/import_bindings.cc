// opentrn._core.graph.import_onnx: models of other formats as graph modules. Constants cross as
// (element type name, dimensions, bytes), as in graph_bindings.cc.
#include "python/import_bindings.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "base/fault.h"
#include "import/onnx/onnx.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

graph::Literal to_literal(const nb::tuple& parts) {
  const auto name = nb::cast<std::string>(parts[0]);
  const auto element = graph::element_type_from_name(name);
  if (!element) throw Fault(FaultKind::kInput, "graph.element", fmt::format("no element type {}", name));
  const auto data = nb::cast<nb::bytes>(parts[2]);
  const auto* begin = reinterpret_cast<const std::byte*>(data.c_str());
  return {graph::Type::tensor(*element, nb::cast<std::vector<int64_t>>(parts[1])),
          std::vector<std::byte>(begin, begin + data.size())};
}

import::onnx::Options options_of(std::map<std::string, int64_t> dimensions, const nb::dict& constants){
    import::onnx::Options options{.dimensions = std::move(dimensions), .constants = {}};
for (const auto& [name, value] : constants)
  options.constants.emplace(nb::cast<std::string>(name), to_literal(nb::cast<nb::tuple>(value)));
return options;
}  // namespace

graph::Module import_onnx(const nb::bytes& model, const std::string& folder,
                          std::map<std::string, int64_t> dimensions, const nb::dict& constants) {
  const auto* begin = reinterpret_cast<const std::byte*>(model.c_str());
  const auto bytes = std::make_shared<const std::vector<std::byte>>(begin, begin + model.size());
  const auto options = options_of(std::move(dimensions), constants);
  const nb::gil_scoped_release unlocked;
  return import::onnx::import_bytes(*bytes, bytes, folder, options);
}

graph::Module import_onnx_file(const std::string& path, std::map<std::string, int64_t> dimensions,
                               const nb::dict& constants) {
  const auto options = options_of(std::move(dimensions), constants);
  const nb::gil_scoped_release unlocked;
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

}  // namespace opentrn::python

void bind_import(nb::module_& module) {
  module.def("import_onnx", import_onnx, "model"_a, "folder"_a = "",
             "dimensions"_a = std::map<std::string, int64_t>{}, "constants"_a = nb::dict());
  module.def("import_onnx_file", import_onnx_file, "path"_a,
             "dimensions"_a = std::map<std::string, int64_t>{}, "constants"_a = nb::dict());
  module.def("onnx_names", onnx_names);
  module.def("onnx_operators", onnx_operators);
}

}  // namespace opentrn::python
