// opentrn._core.graph: modules and their evaluation; opentrn/graph.py is how users reach them. Tensors
// cross as (element type name, dimensions, bytes): NumPy stays on the Python side.
#include "python/graph_bindings.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "base/fault.h"
#include "graph/eval/checks.h"
#include "graph/eval/evaluate.h"
#include "graph/module.h"
#include "graph/op_definitions.h"
#include "graph/text/text.h"
#include "graph/verify.h"
#include "import/load.h"
#include "python/unlocked.h"
#include "runtime/device_call.h"
#include "sim/functional/custom_op.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

graph::ElementType element_named(std::string_view name) {
  const auto element = graph::element_type_from_name(name);
  if (!element) throw Fault(FaultKind::kInput, "graph.element", fmt::format("no element type {}", name));
  return *element;
}

graph::Literal literal_of(nb::handle object) {
  const auto parts = nb::cast<nb::tuple>(object);
  const auto element = element_named(nb::cast<std::string>(parts[0]));
  const auto data = nb::cast<nb::bytes>(parts[2]);
  const auto* begin = reinterpret_cast<const std::byte*>(data.c_str());
  return graph::Literal(graph::Type::tensor(element, nb::cast<std::vector<int64_t>>(parts[1])),
                        std::vector<std::byte>(begin, begin + data.size()));
}

namespace {

using graph::Literal;
using graph::eval::RuntimeValue;

// None is a token, a list a tuple.
RuntimeValue to_value(nb::handle object) {
  if (object.is_none()) return {graph::eval::Token{}};
  if (nb::isinstance<nb::list>(object)) {
    std::vector<RuntimeValue> elements;
    for (const nb::handle element : nb::cast<nb::list>(object)) elements.push_back(to_value(element));
    return {
        graph::eval::RuntimeTuple(std::make_shared<const std::vector<RuntimeValue>>(std::move(elements)))};
  }
  return {literal_of(object)};
}

nb::object from_value(const RuntimeValue& value) {
  if (const auto* literal = std::get_if<Literal>(&value.value)) {
    const std::vector<std::byte> bytes = literal->dense();
    const auto dims = literal->type().dims();
    return nb::make_tuple(std::string(name(literal->type().element())),
                          std::vector<int64_t>(dims.begin(), dims.end()),
                          nb::bytes(bytes.data(), bytes.size()));
  }
  if (const auto* tuple = std::get_if<graph::eval::RuntimeTuple>(&value.value)) {
    nb::list elements;
    for (const RuntimeValue& element : **tuple) elements.append(from_value(element));
    return elements;
  }
  return nb::none();
}

const graph::Function& function_of(const graph::Module& module, const std::optional<std::string>& name) {
  if (!name) return module.entry();
  const graph::Function* found = module.find(*name);
  if (!found) throw Fault(FaultKind::kInput, "graph.function", fmt::format("the module has no @{}", *name));
  return *found;
}

std::vector<RuntimeValue> to_values(const nb::list& arguments) {
  std::vector<RuntimeValue> values;
  for (const nb::handle argument : arguments) values.push_back(to_value(argument));
  return values;
}

nb::list from_values(const std::vector<RuntimeValue>& values) {
  nb::list list;
  for (const RuntimeValue& value : values) list.append(from_value(value));
  return list;
}

// Keyword arguments of evaluate().
graph::eval::Options options_of(bool float64, const nb::object& custom_call) {
  sim::load_custom_ops_of_environment();
  graph::eval::Options options{.device_call = runtime::evaluate_device_call, .float64 = float64};
  if (!custom_call.is_none())
    options.custom_call =
        [custom_call](const graph::Op& op, const graph::Module&,
                      std::span<const RuntimeValue> operands) -> std::optional<std::vector<RuntimeValue>> {
      const nb::gil_scoped_acquire locked;
      const nb::object results =
          custom_call(op.string(graph::Attr::call_target_name),
                      from_values(std::vector<RuntimeValue>(operands.begin(), operands.end())));
      if (results.is_none()) return std::nullopt;
      return to_values(nb::cast<nb::list>(results));
    };
  return options;
}

nb::list evaluate(const graph::Module& module, const nb::list& arguments,
                  const std::optional<std::string>& function, bool float64, const nb::object& custom_call) {
  const std::vector<RuntimeValue> values = to_values(arguments);
  const graph::eval::Options options = options_of(float64, custom_call);
  std::vector<RuntimeValue> results;
  {
    const Unlocked unlocked;
    results = graph::eval::evaluate(module, function_of(module, function), values, options);
  }
  return from_values(results);
}

nb::list evaluate_parallel(const graph::Module& module, const std::vector<std::string>& functions,
                           int64_t replicas, int64_t partitions, const nb::list& arguments) {
  std::vector<const graph::Function*> programs;
  for (const std::string& name : functions) programs.push_back(&function_of(module, name));
  std::vector<std::vector<RuntimeValue>> values;
  for (const nb::handle list : arguments) values.push_back(to_values(nb::cast<nb::list>(list)));
  std::vector<std::vector<RuntimeValue>> results;
  {
    const Unlocked unlocked;
    results = graph::eval::evaluate_parallel(module, programs, replicas, partitions, values,
                                             {.device_call = runtime::evaluate_device_call});
  }
  nb::list all;
  for (const auto& of_process : results) all.append(from_values(of_process));
  return all;
}

// (spelling, element type name, dimensions with -1 for a dynamic one); no element type for tokens and tuples.
nb::list described(std::span<const graph::Type> types) {
  nb::list list;
  for (const graph::Type& type : types) {
    std::vector<int64_t> dims;
    if (type.is_tensor())
      for (const int64_t dim : type.dims()) dims.push_back(dim == graph::kDynamic ? -1 : dim);
    list.append(
        nb::make_tuple(type.to_string(), type.is_tensor() ? std::string(name(type.element())) : "", dims));
  }
  return list;
}

// For each argument the result that takes its place.
std::vector<std::optional<int64_t>> aliases(const graph::Function& function) {
  std::vector<std::optional<int64_t>> results(function.arguments().size());
  for (size_t i = 0; i < function.argument_attributes.size(); ++i) {
    const auto found = function.argument_attributes[i].find("tf.aliasing_output");
    if (found == function.argument_attributes[i].end()) continue;
    if (const auto* result = std::get_if<int64_t>(&found->second.value)) results[i] = *result;
  }
  return results;
}

// (name, is_public, argument types, result types, aliases)
nb::list functions_of(const graph::Module& module) {
  nb::list list;
  for (const graph::Function& function : module.functions)
    list.append(nb::make_tuple(function.name, function.is_public, described(function.argument_types()),
                               described(function.result_types), aliases(function)));
  return list;
}

std::string_view class_name(graph::OpClass op_class) {
  switch (op_class) {
    case graph::OpClass::kUnaryElementwise: return "unary elementwise";
    case graph::OpClass::kBinaryElementwise: return "binary elementwise";
    case graph::OpClass::kCollective: return "collective";
    case graph::OpClass::kControlFlow: return "control flow";
    case graph::OpClass::kDynamic: return "dynamic";
    case graph::OpClass::kBroadcasting: return "broadcasting";
    case graph::OpClass::kOther: return "other";
  }
  return "other";
}

// (name, class, (fewest, most) operands, (fewest, most) results, regions, attribute names); -1: no limit.
nb::list op_table() {
  const auto pair = [](graph::Count count) { return nb::make_tuple(count.low, count.high); };
  nb::list rows;
  for (int i = 0; i < graph::kOpKindCount; ++i) {
    const auto kind = static_cast<graph::OpKind>(i);
    const graph::OpDefinition& row = graph::definition(kind);
    nb::list attributes;
    for (const graph::AttrSpec& spec : row.attributes) attributes.append(std::string(name(spec.attr)));
    rows.append(nb::make_tuple(std::string(name(kind)), std::string(class_name(row.op_class)),
                               pair(row.operands), pair(row.results), pair(row.regions), attributes));
  }
  return rows;
}

// (part name, checks, takes_arguments, problem or None, label) of each part.
nb::list run_checked_file(const std::string& text, const std::string& filename, double norm_tolerance) {
  std::vector<graph::eval::CheckedPart> parts;
  {
    const Unlocked unlocked;
    parts = graph::eval::run_checked_file(text, filename, norm_tolerance);
  }
  nb::list list;
  for (const auto& part : parts)
    list.append(nb::make_tuple(part.name, part.checks, part.takes_arguments, part.problem, part.label));
  return list;
}

}  // namespace

void bind_graph(nb::module_& module) {
  nb::class_<graph::Module>(module, "Module")
      .def_prop_ro("name", [](const graph::Module& self) { return self.name; })
      .def_prop_ro("functions", functions_of)
      .def_prop_ro("entry", [](const graph::Module& self) { return self.entry().name; })
      .def(
          "to_text",
          [](const graph::Module& self, bool generic, bool locations, int64_t elide_larger) {
            return graph::print_module(self, {generic, locations, elide_larger});
          },
          "generic"_a = false, "locations"_a = false, "elide_larger"_a = -1)
      .def("verify", [](const graph::Module& self) { graph::verify(self); })
      .def("evaluate", evaluate, "arguments"_a, "function"_a = nb::none(), "float64"_a = false,
           "custom_call"_a = nb::none())
      .def("evaluate_parallel", evaluate_parallel, "functions"_a, "replicas"_a, "partitions"_a,
           "arguments"_a);
  module.def("parse", [](std::string_view text, std::string_view filename) {
    const Interruptible work;
    return graph::parse_module(text, filename);
  });
  module.def("read_bytes", [](const nb::bytes& data, std::string_view filename) {
    const Interruptible work;
    return import::load({reinterpret_cast<const std::byte*>(data.c_str()), data.size()}, filename);
  });
  module.def(
      "op_table", op_table,
      nb::sig("def op_table() -> list[tuple[str, str, tuple[int, int], tuple[int, int], tuple[int, int], "
              "list[str]]]"));
  module.def("run_checked_file", run_checked_file, "text"_a, "filename"_a, "norm_tolerance"_a = 0.0);
}

}  // namespace opentrn::python
