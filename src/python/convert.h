// What Python hands us, as what the machine takes; and the other way round.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "nki/machine.h"

namespace opentrn::python {

namespace nb = nanobind;

// Objects of the Python layer that the bindings create or recognise; set once by configure().
struct PythonTypes {
  nb::object dtype_of;       // callable: anything -> DType
  nb::object op_name;        // callable: operator object -> name
  nb::object memory_region;  // enum class
  // Classes of opentrn.errors, which the first fault imports.
  nb::object validation_error, capacity_exceeded, undefined_behavior, not_modelled, out_of_bounds,
      argument_error, input_error, internal_error, source_location;
};
PythonTypes& types();

// A scalar register as a kernel sees it. Known values (constants, counters of loops that Python repeats) need
// no machine. Inside a device loop what was known before it may change in an iteration, so it counts no more.
struct VirtualRegister {
  std::shared_ptr<nki::Machine> machine;
  isa::RegisterId id = 0;
  std::optional<int64_t> known;
  bool frozen = false;
  size_t depth = 0;  // device loops around the place where the register was made

  // The value while the kernel is recorded, where that is certain.
  std::optional<int64_t> constant() const;
  int64_t value();
  // The hardware register, made on first use.
  isa::RegisterId allocate();
};

DType to_dtype(nb::handle value);
nb::object from_dtype(DType dtype);
isa::MemorySpace to_memory_space(nb::handle value);
nb::object from_memory_space(isa::MemorySpace space);
AluOp to_alu_op(nb::handle value);
ActivationFunction to_activation(nb::handle value);
// The number behind an enum member, a name of one, or an int. `names` lists the members in value order.
int64_t to_enum(nb::handle value, std::span<const std::string_view> names, std::string_view what);
int64_t to_int(nb::handle value);  // ints, numpy ints, registers with their value
std::vector<int64_t> to_ints(nb::handle sequence);

// Null when the object is not of that type.
nki::TensorView* as_tensor(nb::handle value);
VirtualRegister* as_register(nb::handle value);
std::shared_ptr<const nki::TensorView> share(const nki::TensorView& view);

// The machine that the calling thread activated last, or null.
nki::Machine* current_machine();
nki::Machine& require_machine();

// Runs pending instructions with the interpreter lock released.
void flush_unlocked(nki::Machine& machine);
void start_flush_unlocked(nki::Machine& machine);

void bind_tensor(nb::module_& module);
void bind_machine(nb::module_& module);
void bind_instructions(nb::module_& module);
std::vector<std::string> instruction_names();  // of the calls of nki.isa
void bind_custom_ops(nb::module_& module);

// The label of calls whose arguments are not those of the function, or not of a kind that it takes. They are
// TypeErrors too.
inline constexpr std::string_view kArgumentsLabel = "nki.arguments";

// A Fault as a Python exception; its fields are those of opentrn.errors.Refusal.
nb::object exception_of(const Fault& fault);
// Faults and interruptions of C++ become exceptions of Python.
void bind_errors();
// Sets the Python exception of a Fault.
void raise_fault(const Fault& fault);

}  // namespace opentrn::python
