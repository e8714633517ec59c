// Custom operators from Python: opentrn/custom_op.py is how users reach them.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "isa/custom_ops.h"
#include "python/call_site.h"
#include "python/convert.h"
#include "sim/functional/custom_op.h"

namespace opentrn::python {

using namespace nb::literals;

namespace {

// (bytes, dtype name, shape); the bytes are the simulator's own and live only during the call.
nb::tuple describe(const sim::CustomOpTensor& tensor) {
  const auto bytes = static_cast<size_t>(tensor.element_count() * size_bytes(tensor.dtype));
  nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>> view(reinterpret_cast<uint8_t*>(tensor.data), {bytes},
                                                    nb::none());
  nb::list shape;
  for (int64_t extent : tensor.shape) shape.append(extent);
  return nb::make_tuple(view, nb::str(name(tensor.dtype).data(), name(tensor.dtype).size()), shape);
}

template <typename Tensors>
nb::list describe_all(const Tensors& tensors) {
  nb::list result;
  for (const sim::CustomOpTensor& tensor : tensors) result.append(describe(tensor));
  return result;
}

void register_function(const std::string& name, nb::object function) {
  auto* owner = new nb::object(std::move(function));
  std::shared_ptr<nb::object> shared(owner, [](nb::object* object) {
    nb::gil_scoped_acquire locked;
    delete object;
  });
  sim::register_custom_op(name, [shared, name](std::span<sim::CustomOpTensor> outputs,
                                               std::span<const sim::CustomOpTensor> inputs) {
    nb::gil_scoped_acquire locked;
    try {
      (*shared)(describe_all(outputs), describe_all(inputs));
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_Exception)) throw;  // KeyboardInterrupt, SystemExit: not the operator's
      const auto kind = nb::cast<std::string>(error.type().attr("__name__"));
      const auto text = nb::cast<std::string>(nb::str(error.value()));
      throw Fault(FaultKind::kProgram, "custom_op.raised", fmt::format("{} raised {}: {}", name, kind, text));
    }
  });
}

void emit_custom_op(const std::string& name, nb::sequence outputs, nb::sequence inputs) {
  nki::Machine& machine = require_machine();
  const isa::CustomOpTime time = isa::custom_op_time(name);
  std::vector<isa::Operand> operands;
  for (nb::handle output : outputs) {
    const nki::TensorView* tensor = as_tensor(output);
    if (tensor == nullptr) throw nb::type_error("an output of a custom operator is a tensor");
    operands.push_back(machine.operand(*tensor));
  }
  const isa::AttributeWord attributes[] = {{.integer = machine.program()->intern_string(name)},
                                           {.integer = static_cast<int64_t>(operands.size())},
                                           {.real = time.ns},
                                           {.real = time.cycles_per_element}};
  for (nb::handle input : inputs) {
    const nki::TensorView* tensor = as_tensor(input);
    operands.push_back(tensor ? machine.operand(*tensor) : isa::Operand::imm(nb::cast<double>(input)));
  }
  machine.emit(isa::Opcode::kCustomOp, isa::Engine::kGpSimd, operands, attributes, call_site(machine));
  if (machine.wants_flush()) flush_unlocked(machine);
}

}  // namespace

void bind_custom_ops(nb::module_& module) {
  module.def("register_custom_op", &register_function, "name"_a, "function"_a);
  module.def("load_custom_op_library", &sim::load_custom_op_library, "path"_a);
  module.def("custom_op", &emit_custom_op, "name"_a, "outputs"_a, "inputs"_a);
  module.def("custom_op_times", [] {
    nb::dict rows;
    for (const auto& [name, time] : isa::custom_op_times())
      rows[name.c_str()] = nb::make_tuple(time.ns, time.cycles_per_element);
    return rows;
  });
  module.def("has_custom_op", &isa::has_custom_op, "name"_a);
  module.def("load_custom_ops_of_environment", &sim::load_custom_ops_of_environment);
  module.def(
      "set_custom_op_time",
      [](const std::string& name, double ns, double cycles_per_element) {
        isa::state_custom_op_time(name, {ns, cycles_per_element});
      },
      "name"_a, "ns"_a, "cycles_per_element"_a);
}

}  // namespace opentrn::python
