// The part of opentrn._core that a build may leave out: commands, language models, servers, models on several
// cores and the tools. `./dev demo` runs without it, and is built in two thirds of the time (decision 0298).
#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

// In rest.cc. In absent.cc, which stands in its place: what is missing says so when it is asked for.
void bind_rest(nanobind::module_& module);

}  // namespace opentrn::python
