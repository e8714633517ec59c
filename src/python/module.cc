// opentrn._core: the C++ machine for Python. opentrn/kernel/machine.py turns it into the interface that the
// NKI front end expects of a backend.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/containers.h"
#include "python/convert.h"
#include "python/device_call.h"
#include "python/graph_bindings.h"
#include "python/kernel_bindings.h"
#include "python/model_bindings.h"
#include "python/parts.h"
#include "python/tile_objects.h"
#include "python/timing_bindings.h"
#include "python/unlocked.h"

NB_MODULE(_core, module) {
  using namespace opentrn::python;
  nb::set_leak_warnings(false);  // kernels keep tensors in globals; that is not an error
  bind_errors();
  bind_interrupt(module);
  module.def("configure", [](nb::object dtype_of, nb::object op_name, nb::object memory_region) {
    PythonTypes& t = types();
    t.dtype_of = dtype_of;
    t.op_name = op_name;
    t.memory_region = memory_region;
  });
  bind_containers(module);
  bind_tensor(module);
  bind_process(module);
  bind_device_call(module);
  bind_machine(module);
  bind_timing(module);
  bind_custom_ops(module);
  bind_tiles(module);
  nb::module_ graph = module.def_submodule("graph", "Graph modules and their evaluation.");
  bind_graph(graph);
  bind_models(module);
  bind_buckets(module);
  bind_cache(module);
  bind_diff(module);
  bind_stages(module);
  bind_reports(module);
  bind_staged_timing(module);
  bind_comparison(module);
  bind_kernels(module);
  bind_source_checks(module);
  nb::module_ isa = module.def_submodule("isa", "One function per nki.isa instruction.");
  bind_instructions(isa);
  module.def("instruction_names", &instruction_names,
             "Of the calls of nki.isa that make one instruction, in the order of the instruction table.");
  bind_rest(module);
}
