// opentrn._core: from recorded programs to a predicted time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "arch/arch.h"
#include "isa/origin.h"
#include "isa/program.h"
#include "runtime/model.h"

namespace opentrn::python {

void bind_timing(nanobind::module_& module);
// The Timing of one core's program, as a Python object; with the model's layers when `origin` says what they
// are. Loops whose bounds depend on values run as often as they did in `trips`, where it is given, else
// `loop_iterations` times; with neither they are an input fault. `language`: a step of a language model,
// whose errors are those of its own kind (arch::TimedKind).
nanobind::object time_program(std::shared_ptr<const isa::Program> program, Generation generation,
                              const std::vector<std::string>& settings, const isa::Origin& origin,
                              const runtime::LoopTrips* trips, std::optional<int64_t> loop_iterations,
                              bool language = false);

}  // namespace opentrn::python
