// Values in Python's containers: what kernels take and return.
#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

// `value` with replace(leaf) in the place of whatever is no tuple, list or dict, at any depth; tuples with
// names keep them. `exact`: objects of classes derived from tuple and list are leaves too.
nanobind::object map_leaves(nanobind::handle value, const nanobind::callable& replace, bool exact);
// The leaves, in order.
nanobind::list leaves_of(nanobind::handle value);

void bind_containers(nanobind::module_& module);

}  // namespace opentrn::python
