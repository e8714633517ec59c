// The commands of C++, and what every module of this library begins with.
#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

// Faults and interruptions of C++ become exceptions of Python.
void bind_errors();
void bind_cli(nanobind::module_& module);

}  // namespace opentrn::python
