// opentrn._core.Server: the engine of `opentrn serve`.
#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

void bind_server(nanobind::module_& module);

}  // namespace opentrn::python
