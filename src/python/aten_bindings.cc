// opentrn._core.aten: what writes torch's graphs as StableHLO text (import/aten), with torch's own types.
//
// torch is not imported here: opentrn.torch.types hands over its dtypes once, with what each is called in
// MLIR.
#include "python/aten_bindings.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/complex.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>
#include <array>
#include <unordered_map>

#include "base/fault.h"
#include "import/aten/rules.h"

namespace opentrn::python {

namespace nb = nanobind;
namespace aten = import::aten;
using namespace nb::literals;
using aten::Arg;
using aten::Body;
using aten::ElementType;
using aten::Shape;
using aten::Value;

namespace {

// torch's dtypes by element type, and the other way. Never freed: Python may end before this module does.
struct TorchTypes {
  std::array<nb::object, graph::kElementTypeCount> dtypes;
  std::unordered_map<PyObject*, ElementType> elements;
};

TorchTypes& torch_types() {
  static auto* known = new TorchTypes;
  return *known;
}

struct TorchType {
  ElementType element;
};

}  // namespace

}  // namespace opentrn::python

namespace nanobind::detail {

template <>
struct type_caster<opentrn::python::TorchType> {
  NB_TYPE_CASTER(opentrn::python::TorchType, const_name("torch.dtype"))

  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    const auto& known = opentrn::python::torch_types().elements;
    const auto found = known.find(source.ptr());
    if (found == known.end()) return false;
    value = {found->second};
    return true;
  }
  static handle from_cpp(opentrn::python::TorchType source, rv_policy, cleanup_list*) noexcept {
    return opentrn::python::torch_types().dtypes[static_cast<size_t>(source.element)].inc_ref();
  }
};

}  // namespace nanobind::detail

namespace opentrn::python {

namespace {

nb::tuple tuple_of(const Shape& shape) {
  nb::list sizes;
  for (const int64_t size : shape) sizes.append(size);
  return nb::tuple(sizes);
}

using PyKind = std::pair<Shape, TorchType>;

std::vector<aten::Kind> kinds_of(const std::vector<PyKind>& given) {
  std::vector<aten::Kind> kinds;
  for (const auto& [shape, dtype] : given) kinds.emplace_back(shape, dtype.element);
  return kinds;
}

// A function of Python's that writes a region.
Body::Build built_by(const nb::callable& build) {
  return [build](Body& inner, const std::vector<Value>& given) {
    nb::list arguments;
    arguments.append(nb::cast(&inner, nb::rv_policy::reference));
    for (const Value& value : given) arguments.append(value);
    return nb::cast<std::vector<Value>>(nb::list(build(*nb::tuple(arguments))));
  };
}

aten::Number number_of(nb::handle given) {
  if (nb::isinstance<nb::bool_>(given)) return nb::cast<bool>(given);
  if (PyLong_Check(given.ptr())) {
    int overflow = 0;
    const int64_t whole = PyLong_AsLongLongAndOverflow(given.ptr(), &overflow);
    return overflow ? aten::Number(PyLong_AsDouble(given.ptr())) : aten::Number(whole);
  }
  if (PyComplex_Check(given.ptr())) return nb::cast<std::complex<double>>(given);
  return nb::cast<double>(nb::float_(given));
}

// A size that torch keeps symbolic is what the emitter says it is.
Arg argument_of(nb::handle given, nb::handle emitter) {
  PyObject* object = given.ptr();
  if (given.is_none()) return {};
  if (nb::isinstance<Value>(given)) return {nb::cast<Value>(given)};
  if (PyLong_Check(object) || PyFloat_Check(object) || PyComplex_Check(object)) return {number_of(given)};
  if (PyUnicode_Check(object)) return {nb::cast<std::string>(given)};
  if (PyTuple_Check(object) || PyList_Check(object)) {
    std::vector<Arg> parts;
    for (const nb::handle part : given) parts.push_back(argument_of(part, emitter));
    return {std::move(parts)};
  }
  const auto& known = torch_types().elements;
  if (const auto found = known.find(object); found != known.end()) return {found->second};
  if (nb::hasattr(given, "node")) return {number_of(emitter.attr("concrete")(given))};
  return {};  // a device, a layout, a generator: nothing that a value depends on
}

aten::Spec spec_of(nb::handle given) {
  aten::Spec spec;
  spec.shape = nb::cast<Shape>(given.attr("shape"));
  spec.dtype = nb::cast<TorchType>(given.attr("dtype")).element;
  spec.stride = nb::cast<Shape>(given.attr("stride"));
  return spec;
}

nb::object object_of(const std::optional<Value>& value) { return value ? nb::cast(*value) : nb::none(); }

// A rule for one op, whose schema has these arguments.
class BoundRule {
 public:
  BoundRule(const std::string& name, std::vector<std::string> names, nb::list defaults)
      : rule_(aten::rules().find(name)), names_(std::move(names)), defaults_(std::move(defaults)) {
    OPENTRN_CHECK(rule_ != aten::rules().end(), "no rule {}", name);
  }

  nb::object operator()(nb::handle body, nb::handle out, const nb::args& positional,
                        const nb::kwargs& keywords) const {
    aten::Call call{nb::cast<Body&>(body), {}, names_, {}};
    const bool is_one = nb::hasattr(out, "dtype");
    if (is_one)
      call.outs.push_back(spec_of(out));
    else if (!out.is_none())
      for (const nb::handle each : out) call.outs.push_back(each.is_none() ? aten::Spec{} : spec_of(each));
    for (size_t i = 0; i < names_.size(); ++i) {
      nb::object given = i < positional.size() ? nb::object(positional[i]) : nb::object(defaults_[i]);
      if (keywords.contains(names_[i].c_str())) given = keywords[names_[i].c_str()];
      call.arguments.push_back(argument_of(given, body));
    }
    const auto made = rule_->second(call);
    if (is_one) return object_of(made.at(0));
    nb::list values;
    for (const auto& value : made) values.append(object_of(value));
    return nb::tuple(values);
  }

 private:
  decltype(aten::rules().begin()) rule_;
  std::vector<std::string> names_;
  nb::list defaults_;
};

// [(dtype, MLIR's name)]; how a number becomes a float of one byte; whether float8_e4m3fn saturates.
void know_torch(const std::vector<std::pair<nb::object, std::string>>& rows, const nb::callable& byte_of,
                bool e4m3_saturates) {
  for (const auto& [dtype, name] : rows) {
    const auto element = graph::element_type_from_name(name);
    OPENTRN_CHECK(element, "no element type {}", name);
    torch_types().dtypes[static_cast<size_t>(*element)] = dtype;
    torch_types().elements[dtype.ptr()] = *element;
  }
  auto* kept = new nb::callable(byte_of);  // as long as the process
  aten::torch() = {e4m3_saturates, [kept](double value, ElementType element) {
                     return nb::cast<uint8_t>((*kept)(value, TorchType{element}));
                   }};
}

// torch's tensor, copied to the host and made dense.
Value constant(Body& body, const nb::object& tensor) {
  const auto shape = nb::cast<Shape>(tensor.attr("shape"));
  const ElementType dtype = nb::cast<TorchType>(tensor.attr("dtype")).element;
  if (aten::is_empty(shape)) return body.constant(shape, dtype, {});
  const nb::object dense = tensor.attr("detach")().attr("cpu")().attr("reshape")(-1);
  if (dtype == ElementType::kI1)
    return body.constant(shape, nb::cast<std::vector<bool>>(dense.attr("tolist")()));
  // A copy: torch takes a single element for contiguous, whatever its stride.
  const nb::object bytes = nb::module_::import_("opentrn.torch.types").attr("bytes_of")(dense);
  const auto raw = nb::cast<nb::bytes>(bytes);
  return body.constant(shape, dtype, {raw.c_str(), raw.size()});
}

void bind_values(nb::module_& m) {
  nb::class_<Value>(m, "Value", "A tensor of the program.")
      .def(
          "__init__",
          [](Value* self, std::string name, Shape shape, TorchType dtype) {
            new (self) Value{std::move(name), std::move(shape), dtype.element};
          },
          "name"_a, "shape"_a, "dtype"_a)
      .def_ro("name", &Value::name)
      .def_prop_ro(
          "shape", [](const Value& value) { return tuple_of(value.shape); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro("dtype", [](const Value& value) { return TorchType{value.dtype}; })
      .def_prop_ro("rank", &Value::rank)
      .def_prop_ro("type", &Value::type);
  nb::class_<Body::Check>(m, "Check", "A result that every run looks at.")
      .def_ro("value", &Body::Check::value)
      .def_ro("name", &Body::Check::name)
      .def_ro("is_matrix", &Body::Check::is_matrix)
      .def_ro("is_assertion", &Body::Check::is_assertion);
}

// Writing ops.
void bind_writing(nb::class_<Body>& body) {
  body.def("fresh", &Body::fresh)
      .def(
          "op",
          [](Body& self, const std::string& name, const std::vector<Value>& operands, Shape shape,
             TorchType dtype, const std::string& attributes, const std::string& regions) {
            return self.op(name, operands, std::move(shape), dtype.element, attributes, regions);
          },
          "name"_a, "operands"_a, "shape"_a, "dtype"_a, "attributes"_a = "", "regions"_a = "",
          "One op with one result. A name without a dialect is StableHLO's.")
      .def(
          "ops",
          [](Body& self, const std::string& name, const std::vector<Value>& operands,
             const std::vector<PyKind>& results, const std::string& attributes, const std::string& regions) {
            return self.ops(name, operands, kinds_of(results), attributes, regions);
          },
          "name"_a, "operands"_a, "results"_a, "attributes"_a = "", "regions"_a = "",
          "One op with any number of results.")
      .def(
          "region",
          [](Body& self, const std::vector<TorchType>& arguments, const nb::callable& build) {
            std::vector<ElementType> elements;
            for (const TorchType dtype : arguments) elements.push_back(dtype.element);
            return self.region(elements, built_by(build));
          },
          "arguments"_a, "build"_a, "A region over numbers; build(body, *arguments) gives its results.")
      .def(
          "block",
          [](Body& self, const std::vector<PyKind>& arguments, const nb::callable& build) {
            return self.block(kinds_of(arguments), built_by(build));
          },
          "arguments"_a, "build"_a, "A region over tensors; it may read values of this body too.")
      .def(
          "open_block",
          [](Body& self, const std::vector<PyKind>& arguments) {
            return self.open_block(kinds_of(arguments));
          },
          "arguments"_a, "What this body writes until close_block() is a region's.")
      .def("close_block", &Body::close_block, "results"_a, "The region's text.");
}

// Constants and shapes.
void bind_shapes(nb::class_<Body>& body) {
  body.def(
          "splat",
          [](Body& self, nb::handle value, TorchType dtype, const Shape& shape) {
            return self.splat(number_of(value), dtype.element, shape);
          },
          "value"_a, "dtype"_a, "shape"_a = Shape{}, "A constant of one value.")
      .def(
          "like",
          [](Body& self, nb::handle number, const Value& value) {
            return self.like(number_of(number), value);
          },
          "number"_a, "value"_a, "A constant of a value's shape and type.")
      .def("constant", constant, "tensor"_a, "A tensor's values in the program.")
      .def(
          "iota",
          [](Body& self, const Shape& shape, int64_t dimension, TorchType dtype) {
            return self.iota(shape, dimension, dtype.element);
          },
          "shape"_a, "dimension"_a, "dtype"_a)
      .def(
          "tensor",
          [](Body& self, nb::handle value, TorchType dtype, const Shape& shape) {
            return self.tensor(argument_of(value, nb::none()), dtype.element, shape);
          },
          "value"_a, "dtype"_a, "shape"_a, "A Value or a number, in that type and broadcast to that shape.")
      .def(
          "convert",
          [](Body& self, const Value& value, TorchType dtype) { return self.convert(value, dtype.element); },
          "value"_a, "dtype"_a)
      .def("reshape", &Body::reshape, "value"_a, "shape"_a)
      .def("transpose", &Body::transpose, "value"_a, "permutation"_a)
      .def("broadcast_in_dim", &Body::broadcast_in_dim, "value"_a, "shape"_a, "dimensions"_a)
      .def("broadcast", &Body::broadcast, "value"_a, "shape"_a)
      .def("slice_axis", &Body::slice_axis, "value"_a, "axis"_a, "start"_a, "limit"_a, "step"_a = 1)
      .def(
          "pad",
          [](Body& self, const Value& value, const Shape& low, const Shape& high) {
            return self.pad(value, low, high);
          },
          "value"_a, "low"_a, "high"_a, "With zeros; negative amounts cut.")
      .def("concatenate", &Body::concatenate, "values"_a, "axis"_a);
}

// Elements, and what goes over dimensions.
void bind_elements(nb::class_<Body>& body) {
  body.def("unary", &Body::unary, "name"_a, "value"_a)
      .def("binary", &Body::binary, "name"_a, "left"_a, "right"_a)
      .def("add", &Body::add, "left"_a, "right"_a)
      .def("subtract", &Body::subtract, "left"_a, "right"_a)
      .def("multiply", &Body::multiply, "left"_a, "right"_a)
      .def("divide", &Body::divide, "left"_a, "right"_a)
      .def("compare", &Body::compare, "direction"_a, "left"_a, "right"_a)
      .def("select", &Body::select, "condition"_a, "left"_a, "right"_a)
      .def(
          "reduce",
          [](Body& self, const std::string& combiner, const Value& value, const Shape& axes,
             nb::handle initial) { return self.reduce(combiner, value, axes, number_of(initial)); },
          "combiner"_a, "value"_a, "axes"_a, "initial"_a)
      .def(
          "dot",
          [](Body& self, const Value& left, const Value& right, const std::pair<Shape, Shape>& contract,
             const std::pair<Shape, Shape>& batch, std::optional<TorchType> dtype) {
            return self.dot(left, right, contract, batch,
                            dtype ? std::optional(dtype->element) : std::optional<ElementType>());
          },
          "left"_a, "right"_a, "contract"_a, "batch"_a = std::pair<Shape, Shape>{}, "dtype"_a = nb::none());
}

void bind_body(nb::module_& m) {
  nb::class_<Body> body(m, "Body", "A function or region being written as StableHLO text.",
                        nb::dynamic_attr());
  body.def(nb::init<>())
      .def_prop_ro("lines", &Body::lines)
      .def_prop_ro("depth", &Body::depth)
      .def_prop_ro("draws", &Body::draws)
      .def_prop_ro("state", &Body::state)
      .def_prop_ro("checks", &Body::checks)
      .def_rw("holds_masks", &Body::holds_masks)
      .def_rw("location", &Body::location)
      .def_rw("read", &Body::read, "value"_a.none())
      .def("is_read", &Body::is_read, "number"_a)
      .def("saved_state", &Body::saved_state, "count"_a)
      .def("draw_from", &Body::draw_from, "saved"_a)
      .def("resume_draws", &Body::resume_draws)
      .def("check_info", &Body::check_info, "info"_a, "name"_a, "is_matrix"_a)
      .def("check_that", &Body::check_that, "condition"_a, "message"_a);
  bind_writing(body);
  bind_shapes(body);
  bind_elements(body);
}

}  // namespace

void bind_aten(nb::module_& m) {
  bind_values(m);
  bind_body(m);
  nb::class_<BoundRule>(m, "Rule", "Writes one op: rule(body, out, *arguments, **keywords).")
      .def(nb::init<const std::string&, std::vector<std::string>, nb::list>(), "name"_a, "names"_a,
           "defaults"_a)
      .def("__call__", &BoundRule::operator(), "body"_a, "out"_a.none(), "args"_a, "kwargs"_a);
  m.def("know_torch", know_torch, "types"_a, "byte_of"_a, "e4m3_saturates"_a);
  m.def(
      "rules",
      [] {
        std::vector<std::string> names;
        for (const auto& [name, _] : aten::rules()) names.push_back(name);
        return names;
      },
      "What C++ has rules for, by the ops' names.");
  m.def(
      "integer_range", [](TorchType dtype) { return aten::integer_range(dtype.element); }, "dtype"_a,
      "The lowest and the highest whole number that a device holds of a type.");
  m.def("numbers", aten::numbers, "values"_a, "array<i64: 1, 2>");
  m.def(
      "type_text", [](const Shape& shape, TorchType dtype) { return aten::type_text(shape, dtype.element); },
      "shape"_a, "dtype"_a, "tensor<2x3xf32>");
}

}  // namespace opentrn::python
