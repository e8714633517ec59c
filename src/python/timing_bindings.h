// opentrn._core: from recorded programs to a predicted time.
#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

void bind_timing(nanobind::module_& module);

}  // namespace opentrn::python
