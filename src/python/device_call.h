// Memory of PyTorch's tensors for the tools that list this process: runtime/program_call.h on src/device.
#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

void bind_device_call(nanobind::module_& module);

}  // namespace opentrn::python
