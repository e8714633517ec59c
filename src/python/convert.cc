#include "python/convert.h"

#include <array>
#include <unordered_map>

#include <fmt/ranges.h>

#include "arch/closest.h"
#include "base/interrupt.h"
#include "python/call_site.h"
#include "python/unlocked.h"

namespace opentrn::python {

namespace {

// Conversions of long-lived objects (enum members, operator functions, dtypes) are remembered by
// identity; the objects are kept alive so that an address never changes its meaning.
class IdentityCache {
 public:
  template <typename Convert>
  int64_t get(nb::handle key, Convert&& convert) {
    const auto it = values_.find(key.ptr());
    if (it != values_.end()) return it->second;
    const int64_t value = convert();
    Py_INCREF(key.ptr());
    values_.emplace(key.ptr(), value);
    return value;
  }

 private:
  std::unordered_map<PyObject*, int64_t> values_;
};

std::string text_of(nb::handle value) { return nb::cast<std::string>(nb::str(value)); }

[[noreturn]] void type_error(std::string message, std::string hint = {}) {
  throw Fault(FaultKind::kProgram, std::string(kArgumentsLabel), std::move(message), std::move(hint));
}

// "a, b or c"; the nearest to `name` first, where something is near.
std::string choices(std::string_view name, std::vector<std::string> known) {
  const std::vector<std::string> near = arch::closest(std::string(name), known);
  const std::string first = near.empty() ? "" : fmt::format("{}; ", near.front());
  return fmt::format("{}there are {}", first, fmt::join(known, ", "));
}

template <typename Enum, typename Known>
std::vector<std::string> names_where(int count, Known&& known) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i)
    if (known(static_cast<Enum>(i))) names.emplace_back(name(static_cast<Enum>(i)));
  return names;
}

std::string operator_name(nb::handle value) { return text_of(types().op_name(value)); }

}  // namespace

PythonTypes& types() {
  static auto* instance = new PythonTypes;
  return *instance;
}

std::optional<int64_t> VirtualRegister::constant() const {
  const nki::Machine* active = current_machine();
  return active == nullptr || active->open_loops() <= depth ? known : std::nullopt;
}

int64_t VirtualRegister::value() {
  if (const auto certain = constant()) return *certain;
  if (!machine) {
    PyErr_SetString(types().undefined_behavior.ptr(),
                    "a register was read before register_move or register_load wrote it");
    throw nb::python_error();
  }
  flush_unlocked(*machine);  // refuses inside a device loop
  try {
    return machine->register_value(id);
  } catch (Fault& fault) {
    fault.set_location(machine->program()->location(call_site(*machine)));
    throw;
  }
}

isa::RegisterId VirtualRegister::allocate() {
  if (machine) return id;
  machine = require_machine().shared_from_this();
  id = machine->new_register();
  if (known) {
    const isa::Operand operands[] = {isa::Operand::reg(id), isa::Operand::imm(static_cast<double>(*known))};
    machine->emit(isa::Opcode::kRegisterMove, isa::Engine::kUnknown, operands, {}, call_site(*machine));
  }
  return id;
}

DType to_dtype(nb::handle value) {
  static auto* cache = new IdentityCache;
  const auto convert = [&]() -> int64_t {
    std::string name = text_of(types().dtype_of(value));
    if (name == "bool_") name = "bool";
    const auto dtype = dtype_from_name(name);
    if (!dtype) type_error(fmt::format("unknown dtype {}", name));
    return static_cast<int64_t>(*dtype);
  };
  // Strings made at run time would pile up; dtype objects and types are few.
  if (PyUnicode_CheckExact(value.ptr())) return static_cast<DType>(convert());
  return static_cast<DType>(cache->get(value, convert));
}

nb::object from_dtype(DType dtype) {
  static auto* objects = new std::array<nb::object, kDTypeCount>;
  nb::object& object = (*objects)[static_cast<size_t>(dtype)];
  if (!object.is_valid()) {
    const std::string_view text = name(dtype);
    object = types().dtype_of(nb::str(text.data(), text.size()));
  }
  return object;
}

isa::MemorySpace to_memory_space(nb::handle value) {
  static auto* cache = new IdentityCache;
  const auto convert = [&]() -> int64_t {
    const nb::object region = types().memory_region(value);
    const std::string name = nb::cast<std::string>(region.attr("value"));
    const auto space = isa::memory_space_from_name(name);
    if (!space) type_error(fmt::format("unknown buffer {}", name));
    return static_cast<int64_t>(*space);
  };
  if (PyUnicode_CheckExact(value.ptr())) return static_cast<isa::MemorySpace>(convert());
  return static_cast<isa::MemorySpace>(cache->get(value, convert));
}

nb::object from_memory_space(isa::MemorySpace space) {
  static auto* objects = new std::array<nb::object, isa::kMemorySpaceCount>;
  nb::object& object = (*objects)[static_cast<size_t>(space)];
  if (!object.is_valid()) {
    const std::string_view text = isa::name(space);
    object = types().memory_region(nb::str(text.data(), text.size()));
  }
  return object;
}

AluOp to_alu_op(nb::handle value) {
  static auto* cache = new IdentityCache;
  return static_cast<AluOp>(cache->get(value, [&]() -> int64_t {
    const std::string name = operator_name(value);
    const auto op = alu_op_from_name(name);
    if (!op)
      type_error(fmt::format("{} is not an operator of the Vector and GpSimd engines", name),
                 choices(name, names_where<AluOp>(kAluOpCount, [](AluOp) { return true; })));
    return static_cast<int64_t>(*op);
  }));
}

ActivationFunction to_activation(nb::handle value) {
  static auto* cache = new IdentityCache;
  return static_cast<ActivationFunction>(cache->get(value, [&]() -> int64_t {
    const std::string name = operator_name(value);
    const auto function = activation_from_name(name);
    if (!function)
      type_error(fmt::format("{} is not an activation function of the Scalar engine", name),
                 choices(name, names_where<ActivationFunction>(kActivationFunctionCount,
                                                               [](ActivationFunction) { return true; })));
    return static_cast<int64_t>(*function);
  }));
}

int64_t to_enum(nb::handle value, std::span<const std::string_view> names, std::string_view what) {
  static auto* cache = new IdentityCache;
  const auto by_name = [&](std::string_view text) -> int64_t {
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == text) return static_cast<int64_t>(i);
    type_error(fmt::format("{} is not a {}", text, what), choices(text, {names.begin(), names.end()}));
  };
  if (PyLong_CheckExact(value.ptr())) return to_int(value);
  if (PyUnicode_CheckExact(value.ptr())) return by_name(text_of(value));
  return cache->get(value, [&]() -> int64_t {
    if (!nb::hasattr(value, "value"))
      type_error(fmt::format("{} is not a {}", text_of(nb::repr(value)), what),
                 choices(text_of(nb::repr(value)), {names.begin(), names.end()}));
    const nb::object member = value.attr("value");
    return nb::isinstance<nb::str>(member) ? by_name(nb::cast<std::string>(member)) : to_int(member);
  });
}

int64_t to_int(nb::handle value) {
  if (PyLong_Check(value.ptr())) {
    const long long result = PyLong_AsLongLong(value.ptr());
    if (result == -1 && PyErr_Occurred()) throw nb::python_error();
    return result;
  }
  if (VirtualRegister* reg = as_register(value)) return reg->value();
  PyObject* index = PyNumber_Index(value.ptr());
  if (!index) throw nb::python_error();
  const long long result = PyLong_AsLongLong(index);
  Py_DECREF(index);
  if (result == -1 && PyErr_Occurred()) throw nb::python_error();
  return result;
}

std::vector<int64_t> to_ints(nb::handle sequence) {
  std::vector<int64_t> values;
  if (PyLong_Check(sequence.ptr())) return {to_int(sequence)};
  for (nb::handle item : sequence) values.push_back(to_int(item));
  return values;
}

nki::TensorView* as_tensor(nb::handle value) {
  return nb::isinstance<nki::TensorView>(value) ? nb::inst_ptr<nki::TensorView>(value) : nullptr;
}

VirtualRegister* as_register(nb::handle value) {
  return nb::isinstance<VirtualRegister>(value) ? nb::inst_ptr<VirtualRegister>(value) : nullptr;
}

std::shared_ptr<const nki::TensorView> share(const nki::TensorView& view) {
  return std::make_shared<const nki::TensorView>(view);
}

namespace {

// A fault can come before anything of the Python layer has been imported.
const PythonTypes& with_error_classes() {
  PythonTypes& t = types();
  if (t.source_location.is_valid()) return t;
  const nb::module_ errors = nb::module_::import_("opentrn.errors");
  t.validation_error = errors.attr("NkiValidationError");
  t.capacity_exceeded = errors.attr("CapacityExceeded");
  t.undefined_behavior = errors.attr("UndefinedBehavior");
  t.not_modelled = errors.attr("NotModelled");
  t.out_of_bounds = errors.attr("OutOfBounds");
  t.input_error = errors.attr("InputError");
  t.internal_error = errors.attr("InternalError");
  t.argument_error = errors.attr("ArgumentError");
  t.source_location = errors.attr("SourceLocation");
  return t;
}

nb::handle exception_type(const Fault& fault) {
  const PythonTypes& t = with_error_classes();
  const bool out_of_bounds = fault.label().find("bounds") != std::string::npos ||
                             fault.label() == "NkiTensor.slice" || fault.label() == "NkiTensor.select";
  switch (fault.kind()) {
    case FaultKind::kProgram:
      return out_of_bounds                      ? t.out_of_bounds
             : fault.label() == kArgumentsLabel ? t.argument_error
                                                : t.validation_error;
    case FaultKind::kCapacity: return t.capacity_exceeded;
    case FaultKind::kUnspecified: return t.undefined_behavior;
    case FaultKind::kNotModelled: return t.not_modelled;
    case FaultKind::kInput: return t.input_error;
    case FaultKind::kInternal: return t.internal_error;
  }
  return t.internal_error;
}

}  // namespace

// The exception's kind is that of its class.
nb::object exception_of(const Fault& fault) {
  const nb::object error = exception_type(fault)(fault.what());
  error.attr("label") = fault.label();
  error.attr("message") = fault.message();
  error.attr("hint") = fault.hint();
  error.attr("notes") = fault.notes();
  const SourceLocation& at = fault.location();
  if (at.known())
    error.attr("location") = with_error_classes().source_location(at.file, at.line, at.function);
  return error;
}

void raise_fault(const Fault& fault) {
  try {
    PyErr_SetObject(exception_type(fault).ptr(), exception_of(fault).ptr());
  } catch (nb::python_error& failed) {  // callers are C functions, which nothing may leave
    failed.restore();
  }
}

void bind_errors() {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const Fault& fault) {
      raise_fault(fault);
    } catch (const Interrupted& stop) {
      raise_interrupted(stop);
    } catch (const std::bad_alloc&) {
      raise_fault(Fault(FaultKind::kCapacity, "host_memory", "this process was given no more memory",
                        "smaller dimensions, or a higher limit of the process (ulimit -v, its container's)"));
    }
  });
}

void flush_unlocked(nki::Machine& machine) {
  const Unlocked unlocked;
  machine.flush();
}

void start_flush_unlocked(nki::Machine& machine) {
  const Unlocked unlocked;
  machine.start_flush();
}

}  // namespace opentrn::python
