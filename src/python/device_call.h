// Memory of PyTorch's tensors for the tools that list this process: runtime/program_call.h on src/device.
#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

void bind_device_call(nanobind::module_& module);
// What every module of this library has: leave_machine() and is_model_file().
void bind_process(nanobind::module_& module);

}  // namespace opentrn::python
