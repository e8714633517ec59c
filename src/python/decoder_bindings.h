// opentrn._core: weight files and decoders.
#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

void bind_decoder(nanobind::module_& module);

}  // namespace opentrn::python
