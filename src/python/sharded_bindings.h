// opentrn._core: models on several simulated NeuronCores. opentrn/model/sharded.py is how users reach them.
#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

void bind_sharded_models(nanobind::module_& module);

}  // namespace opentrn::python
