// The commands of C++.
#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

void bind_cli(nanobind::module_& module);

}  // namespace opentrn::python
