#pragma once

#include <string_view>

#include <nanobind/nanobind.h>

#include "graph/literal.h"

namespace opentrn::python {

void bind_graph(nanobind::module_& module);
// Input fault for a name that is none.
graph::ElementType element_named(std::string_view name);
// Of (element, shape, bytes).
graph::Literal literal_of(nanobind::handle object);

}  // namespace opentrn::python
