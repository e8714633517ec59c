// opentrn._core: models compiled from graphs. opentrn/model/ is how users reach them.
#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

void bind_models(nanobind::module_& module);

}  // namespace opentrn::python
