// In the place of rest.cc and of the commands, where a build leaves them out (parts.h).
#include <string>

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include "base/fault.h"
#include "python/convert.h"
#include "python/device_call.h"
#include "python/parts.h"
#include "python/unlocked.h"

namespace opentrn::python {

namespace {

constexpr const char* kWhy = "./dev demo built kernels and models in StableHLO text on one core alone";
constexpr const char* kHint = "./dev build opentrn_python builds the rest";

[[noreturn]] void refuse(const std::string& what) {
  throw Fault(FaultKind::kInput, "build.part", fmt::format("{} is not in this build: {}", what, kWhy), kHint);
}

}  // namespace

void bind_rest(nb::module_& module) {
  module.def("cli_commands", [] { refuse("the command line"); });
  module.def("run_cli", [](const nb::object&) { refuse("the command line"); });
  for (const char* name : {"collective", "processing_rank"})
    module.def(name, [](const nb::args&, const nb::kwargs&) { refuse("a collective of ranks"); });
  // Python asks a module for it where the module has no such name (PEP 562).
  module.def("__getattr__", [](const std::string& name) -> nb::object {
    if (name.starts_with("__"))
      throw nb::attribute_error(name.c_str());  // Python's own, which may be missing
    const std::string message = fmt::format("this build has no '{}': {}; {}", name, kWhy, kHint);
    throw nb::attribute_error(message.c_str());
  });
}

}  // namespace opentrn::python

NB_MODULE(_cli, module) {
  opentrn::python::bind_errors();
  opentrn::python::bind_interrupt(module);
  opentrn::python::bind_process(module);
  opentrn::python::bind_rest(module);
}
