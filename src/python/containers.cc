#include "python/containers.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

bool is_sequence(nb::handle value, bool exact) {
  if (exact)
    return PyTuple_CheckExact(value.ptr()) || PyList_CheckExact(value.ptr()) || nb::hasattr(value, "_fields");
  return PyTuple_Check(value.ptr()) || PyList_Check(value.ptr());
}

bool has_names(nb::handle value) { return PyTuple_Check(value.ptr()) && nb::hasattr(value, "_fields"); }

}  // namespace

nb::object map_leaves(nb::handle value, const nb::callable& replace, bool exact) {
  if (PyDict_Check(value.ptr())) {
    nb::dict made;
    for (const auto& [key, item] : nb::borrow<nb::dict>(value)) made[key] = map_leaves(item, replace, exact);
    return made;
  }
  const bool sequence = PyTuple_Check(value.ptr()) || PyList_Check(value.ptr());
  if (!sequence || !is_sequence(value, exact)) return replace(value);
  nb::list items;
  for (const nb::handle item : value) items.append(map_leaves(item, replace, exact));
  const nb::object type = nb::borrow(value.type());
  return has_names(value) ? type(*items) : type(items);
}

nb::list leaves_of(nb::handle value) {
  nb::list leaves;
  if (PyDict_Check(value.ptr())) {
    for (const auto& [key, item] : nb::borrow<nb::dict>(value)) leaves.extend(leaves_of(item));
  } else if (is_sequence(value, false)) {
    for (const nb::handle item : value) leaves.extend(leaves_of(item));
  } else if (!value.is_none()) {
    leaves.append(value);
  }
  return leaves;
}

void bind_containers(nb::module_& module) {
  module.def(
      "map_leaves", &map_leaves, "value"_a.none(), "replace"_a, "exact"_a = false,
      "The value with replace(leaf) in the place of whatever is no tuple, list or dict, at any depth. exact: "
      "objects of classes derived from tuple and list are leaves too, but for tuples with names.");
  module.def("leaves_of", &leaves_of, "value"_a.none(), "What is no tuple, list, dict or None, in order.");
}

}  // namespace opentrn::python
