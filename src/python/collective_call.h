// Collectives for the process group of PyTorch (src/torch): runtime/collective_call.h on src/collectives.
#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

void bind_collective_call(nanobind::module_& module);

}  // namespace opentrn::python
