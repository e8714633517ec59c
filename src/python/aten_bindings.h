// The rules that write torch's graphs as StableHLO text.
#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

void bind_aten(nanobind::module_& module);

}  // namespace opentrn::python
