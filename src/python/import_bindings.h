#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

// Into the module that bind_graph fills: its results are graph modules.
void bind_import(nanobind::module_& module);

}  // namespace opentrn::python
