#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

void bind_nccom(nanobind::module_& module);

}  // namespace opentrn::python
