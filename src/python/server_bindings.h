// opentrn._core.Server: the engine of `opentrn serve`.
#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

void bind_server(nanobind::module_& module);
// Texts of answers and sizes of programs: what generate and serve are made of.
// Configurations of AWS's vLLM plugins.
void bind_neuron_config(nanobind::module_& module);
void bind_answers(nanobind::module_& module);
// ForeignSteps: what the vLLM plug-in runs.
void bind_foreign_steps(nanobind::module_& module);

}  // namespace opentrn::python
