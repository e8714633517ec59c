#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

// Ranks of a launch and their collectives, and their time on one clock.
void bind_collectives(nanobind::module_& module);
void bind_ranks(nanobind::module_& module);

}  // namespace opentrn::python
