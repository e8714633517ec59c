// opentrn._core: from recorded programs to a predicted time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "arch/arch.h"
#include "isa/origin.h"
#include "isa/program.h"

namespace opentrn::python {

void bind_timing(nanobind::module_& module);
// The Timing of one core's program, as a Python object; with the model's layers when `origin` says what they
// are.
nanobind::object time_program(std::shared_ptr<const isa::Program> program, arch::Generation generation,
                              const std::vector<std::string>& settings, const isa::Origin& origin);

}  // namespace opentrn::python
