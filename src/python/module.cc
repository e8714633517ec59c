// opentrn._core: the C++ machine for Python. opentrn/core.py turns it into the interface that the NKI
// front end expects of a backend.
#include <nanobind/nanobind.h>

#include "python/convert.h"
#include "python/graph_bindings.h"
#include "python/import_bindings.h"
#include "python/kernel_bindings.h"
#include "python/model_bindings.h"
#include "python/tile_objects.h"
#include "python/timing_bindings.h"

NB_MODULE(_core, module) {
  using namespace opentrn::python;
  nb::set_leak_warnings(false);  // kernels keep tensors in globals; that is not an error
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const opentrn::Fault& fault) {
      raise_fault(fault);
    }
  });
  module.def("configure",
             [](nb::object dtype_of, nb::object op_name, nb::object memory_region, nb::object errors) {
               PythonTypes& t = types();
               t.dtype_of = dtype_of;
               t.op_name = op_name;
               t.memory_region = memory_region;
               t.validation_error = errors.attr("NkiValidationError");
               t.capacity_exceeded = errors.attr("CapacityExceeded");
               t.undefined_behavior = errors.attr("UndefinedBehavior");
               t.not_modelled = errors.attr("NotModelled");
               t.out_of_bounds = errors.attr("OutOfBounds");
             });
  bind_tensor(module);
  bind_machine(module);
  bind_timing(module);
  bind_custom_ops(module);
  bind_tiles(module);
  nb::module_ graph = module.def_submodule("graph", "Graph modules and their evaluation.");
  bind_graph(graph);
  bind_import(graph);
  bind_models(module);
  bind_kernels(module);
  nb::module_ isa = module.def_submodule("isa", "One function per nki.isa instruction.");
  bind_instructions(isa);
}
