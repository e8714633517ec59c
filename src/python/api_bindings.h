#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

// What clients of a language model's server ask and are told (server/api).
void bind_api(nanobind::module_& module);

}  // namespace opentrn::python
