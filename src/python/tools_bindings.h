// AWS's tools around the device: neuron-ls.
#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

void bind_tools(nanobind::module_& module);

}  // namespace opentrn::python
