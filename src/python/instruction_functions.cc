// nki.isa functions: one callable per row of the instruction table that has a signature, all with the same
// body.
//
// A call matches its arguments to the row's parameters, converts each by what its slot accepts, and
// hands the instruction to the current machine. The callables are bare vectorcall objects because
// these calls sit on the path of every instruction: a general-purpose binding costs several times as much.
#include <array>
#include <charconv>
#include <set>
#include <string>

#include "arch/closest.h"
#include "isa/constraints.h"
#include "isa/definitions.h"
#include "numerics/ops.h"
#include "python/call_site.h"
#include "python/convert.h"
#include "python/unlocked.h"

namespace opentrn::python {

using isa::AttributeKind;
using isa::AttributeWord;
using isa::Opcode;
using isa::Operand;
using isa::Parameter;
using isa::ParameterRole;
using nki::Machine;
using nki::TensorView;

namespace {

constexpr size_t kParametersMax = 20;
constexpr size_t kOperandsMax = 24;  // dma_compute: a destination and up to 16 sources

constexpr std::array<std::string_view, 7> kEngines = {"unknown", "tensor", "scalar", "gpsimd",
                                                      "dma",     "vector", "sync"};
constexpr std::array<std::string_view, 5> kReduceCmds = {"idle", "reset", "reduce", "reset_reduce",
                                                         "load_reduce"};
constexpr std::array<std::string_view, 4> kDgeModes = {"unknown", "swdge", "hwdge", "none"};
constexpr std::array<std::string_view, 2> kOobModes = {"error", "skip"};
constexpr std::array<std::string_view, 3> kDmaEngines = {"unknown", "dma", "gpsimd_dma"};
constexpr std::array<std::string_view, 2> kPerfModes = {"none", "double_row"};

struct InstructionFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  const isa::InstructionDefinition* definition;
  std::array<PyObject*, kParametersMax> names;  // interned
};

// What instructions return: a handle for scheduling edges.
struct InstructionHandle {
  std::shared_ptr<Machine> machine;
  isa::InstructionIndex index;
};

struct Call {
  const InstructionFunction& function;
  Machine& machine;
  std::array<PyObject*, kParametersMax> arguments{};
  std::array<Operand, kOperandsMax> operands{};
  size_t operand_count;
  std::array<AttributeWord, 12> attributes{};
  isa::Engine engine;
  uint32_t name = 0;

  std::string_view function_name() const { return function.definition->name; }
  PyObject* argument(std::string_view parameter) const {
    const auto& parameters = function.definition->signature.parameters;
    for (size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].name == parameter) return arguments[i];
    return nullptr;
  }
};

[[noreturn]] void argument_error(const Call& call, std::string_view parameter, std::string message,
                                 std::string hint = {}) {
  throw Fault(FaultKind::kProgram, std::string(call.function_name()),
              fmt::format("argument {}: {}", parameter, message), std::move(hint));
}

std::string argument_list(const InstructionFunction& f) {
  std::string list;
  for (const Parameter& parameter : f.definition->signature.parameters)
    list += fmt::format("{}{}", list.empty() ? "" : ", ", parameter.name);
  return list;
}

// The call as such cannot be: the arguments are not those of the function.
[[noreturn]] void call_error(const InstructionFunction& f, std::string message, std::string hint = {}) {
  throw Fault(FaultKind::kProgram, std::string(kArgumentsLabel),
              fmt::format("{}() {}", f.definition->name, message),
              fmt::format("{}its arguments are {}", hint.empty() ? "" : hint + "; ", argument_list(f)));
}

[[noreturn]] void unknown_argument(const InstructionFunction& f, PyObject* name) {
  std::vector<std::string> known;
  for (const Parameter& parameter : f.definition->signature.parameters) known.emplace_back(parameter.name);
  const std::string given = PyUnicode_AsUTF8(name);
  const std::vector<std::string> near = arch::closest(given, known);
  call_error(f, fmt::format("got an unexpected argument '{}'", given), near.empty() ? "" : near.front());
}

void match_arguments(Call& call, PyObject* const* args, size_t positional, PyObject* keywords) {
  const InstructionFunction& f = call.function;
  const size_t count = f.definition->signature.parameters.size();
  if (positional > count)
    call_error(f, fmt::format("takes at most {} arguments, {} were given", count, positional));
  for (size_t i = 0; i < positional; ++i) call.arguments[i] = args[i];
  const Py_ssize_t keyword_count = keywords ? PyTuple_GET_SIZE(keywords) : 0;
  for (Py_ssize_t k = 0; k < keyword_count; ++k) {
    PyObject* const name = PyTuple_GET_ITEM(keywords, k);
    size_t i = 0;
    while (i < count && f.names[i] != name) ++i;
    if (i == count)  // not the interned object: compare by value
      for (i = 0; i < count && PyUnicode_Compare(f.names[i], name) != 0; ++i) {
      }
    if (i == count) unknown_argument(f, name);
    if (call.arguments[i])
      call_error(f, fmt::format("got two values for '{}'", f.definition->signature.parameters[i].name));
    call.arguments[i] = args[positional + static_cast<size_t>(k)];
  }
  for (size_t i = 0; i < count; ++i)
    if (!call.arguments[i] && f.definition->signature.parameters[i].required)
      call_error(f, fmt::format("needs '{}'", f.definition->signature.parameters[i].name));
}

// An array with dimensions, which NumPy also counts among the numbers.
bool has_elements(nb::handle value) {
  return nb::hasattr(value, "shape") && nb::hasattr(value, "dtype") &&
         nb::len(nb::object(value.attr("shape"))) > 0;
}

Operand to_operand(Call& call, const Parameter& parameter, nb::handle value) {
  if (const TensorView* tensor = as_tensor(value)) return call.machine.operand(*tensor);
  if (PyFloat_Check(value.ptr())) return Operand::imm(PyFloat_AS_DOUBLE(value.ptr()));
  if (value.is_none()) return Operand::none();
  if (VirtualRegister* reg = as_register(value)) return Operand::imm(static_cast<double>(reg->value()));
  if (PyNumber_Check(value.ptr()) && !has_elements(value)) {
    const double number = PyFloat_AsDouble(value.ptr());
    if (number == -1.0 && PyErr_Occurred()) throw nb::python_error();
    return Operand::imm(number);
  }
  if (has_elements(value))
    argument_error(call, parameter.name, "an array of the host is no tensor of this kernel",
                   "pass it to the kernel as an argument, or make it with nl.shared_constant");
  argument_error(call, parameter.name,
                 fmt::format("{} is neither a tensor of this kernel nor a number",
                             nb::cast<std::string>(nb::repr(value))));
}

void flatten(nb::handle value, std::vector<int64_t>& list) {
  // The items of a string are strings, and a list may hold itself: neither ends in numbers.
  if (PyLong_Check(value.ptr()) || as_register(value) || PyIndex_Check(value.ptr()) ||
      PyUnicode_Check(value.ptr())) {
    list.push_back(to_int(value));
    return;
  }
  if (Py_EnterRecursiveCall(" while a list of numbers was read") != 0) throw nb::python_error();
  struct Leave {
    ~Leave() { Py_LeaveRecursiveCall(); }
  } leave;
  if (PyList_CheckExact(value.ptr()) || PyTuple_CheckExact(value.ptr())) {  // without Python's iterators
    list.reserve(list.size() + static_cast<size_t>(PySequence_Fast_GET_SIZE(value.ptr())));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value.ptr()); ++i)
      flatten(PySequence_Fast_GET_ITEM(value.ptr(), i), list);
    return;
  }
  for (nb::handle item : value) flatten(item, list);
}

AttributeWord to_attribute(Call& call, const Parameter& parameter, AttributeKind kind, nb::handle value) {
  AttributeWord word;
  switch (kind) {
    case AttributeKind::kInt:
      word.integer = value.is_none()           ? static_cast<int64_t>(parameter.default_value)
                     : value.ptr() == Py_True  ? 1
                     : value.ptr() == Py_False ? 0
                                               : to_int(value);
      return word;
    case AttributeKind::kBool: word.integer = PyObject_IsTrue(value.ptr()) == 1; return word;
    case AttributeKind::kReal:
      if (value.ptr() == Py_Ellipsis)
        word.real = parameter.default_value;
      else
        word.real = PyFloat_AsDouble(value.ptr());
      if (PyErr_Occurred()) throw nb::python_error();
      return word;
    case AttributeKind::kAluOp: word.integer = static_cast<int64_t>(to_alu_op(value)); return word;
    case AttributeKind::kOptionalAluOp:
      word.integer = value.is_none() ? -1 : static_cast<int64_t>(to_alu_op(value));
      return word;
    case AttributeKind::kActivation: word.integer = static_cast<int64_t>(to_activation(value)); return word;
    case AttributeKind::kIntList: {
      std::vector<int64_t> list;
      flatten(value, list);
      word.integer = call.machine.program()->intern_list(list);
      return word;
    }
    case AttributeKind::kReduceCmd: word.integer = to_enum(value, kReduceCmds, "reduce_cmd"); return word;
    case AttributeKind::kDgeMode: word.integer = to_enum(value, kDgeModes, "dge_mode"); return word;
    case AttributeKind::kOobMode: word.integer = to_enum(value, kOobModes, "oob_mode"); return word;
    case AttributeKind::kDmaEngine: word.integer = to_enum(value, kDmaEngines, "dma_engine"); return word;
    case AttributeKind::kPerfMode: word.integer = to_enum(value, kPerfModes, "perf_mode"); return word;
    case AttributeKind::kMxScaleRule:
    case AttributeKind::kString: break;
  }
  OPENTRN_CHECK(false, "attribute {} of {} has no Python form", parameter.name, call.function_name());
}

void set_tile_position(Call& call, const Parameter& parameter, nb::handle value) {
  call.attributes[parameter.slot].integer = call.attributes[parameter.slot + 1].integer = 0;
  if (!value.is_valid() || value.is_none()) return;
  const std::vector<int64_t> pair = to_ints(value);
  if (pair.empty()) return;
  if (pair.size() != 2) argument_error(call, parameter.name, "a tuple (row, column) is needed");
  call.attributes[parameter.slot].integer = pair[0];
  call.attributes[parameter.slot + 1].integer = pair[1];
}

// axis -> how many trailing dimensions; they must be the last ones, in any order, and not the partition.
void set_reduced_axes(Call& call, const Parameter& parameter, nb::handle value) {
  const TensorView* data = as_tensor(call.argument("data"));
  if (!data) argument_error(call, "data", "a tensor is needed");
  std::vector<int64_t> axes = to_ints(value);
  for (int64_t& axis : axes)
    if (axis < 0) axis += data->rank();
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  const int64_t first = data->rank() - static_cast<int64_t>(axes.size());
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != first + static_cast<int64_t>(i) || axes[i] == 0)
      throw Fault(
          FaultKind::kProgram, "tensor_reduce.C1",
          "the reduced axes must be the last contiguous free dimensions, and never the partition dimension",
          "permute the tile, or reduce in steps");
  if (axes.empty()) argument_error(call, parameter.name, "no axis is given");
  call.attributes[parameter.slot].integer = static_cast<int64_t>(axes.size());
}

void set_transpose_axes(Call& call, const Parameter& parameter, nb::handle value) {
  const TensorView* src = as_tensor(call.argument("src"));
  if (!src) argument_error(call, "src", "a tensor is needed");
  std::vector<int64_t> axes;
  if (value.is_valid() && !value.is_none())
    axes = to_ints(value);
  else if (src->rank() == 4)
    axes = {3, 1, 2, 0};
  else
    for (int i = src->rank(); i-- > 0;) axes.push_back(i);
  call.attributes[parameter.slot].integer = call.machine.program()->intern_list(axes);
}

void set_sources(Call& call, const Parameter& parameter, nb::handle value) {
  call.operand_count = static_cast<size_t>(parameter.slot);
  if (as_tensor(value)) argument_error(call, parameter.name, "a list of tensors is needed, not a tensor");
  for (nb::handle item : value) {
    const TensorView* tensor = as_tensor(item);
    if (!tensor) argument_error(call, parameter.name, "every source must be a tensor");
    if (call.operand_count == kOperandsMax)
      argument_error(call, parameter.name, "too many sources; at most 16 are possible");
    call.operands[call.operand_count++] = call.machine.operand(*tensor);
  }
}

void check_scales(Call& call, const Parameter& parameter, nb::handle value) {
  if (!value.is_valid() || value.is_none()) return;
  for (nb::handle item : value)
    if (PyFloat_AsDouble(item.ptr()) != 1.0) argument_error(call, parameter.name, "all scales must be 1.0");
}

void check_result_type(Call& call, const Parameter& parameter, nb::handle value) {
  if (!value.is_valid() || value.is_none()) return;
  const TensorView* dst = as_tensor(call.argument("dst"));
  const DType given = to_dtype(value);
  if (dst && dst->dtype != given)
    argument_error(
        call, parameter.name,
        fmt::format("is {} where dst holds {}: results have dst's type", name(given), name(dst->dtype)));
}

void convert_argument(Call& call, const Parameter& parameter, nb::handle value) {
  const bool given = value.is_valid();
  switch (parameter.role) {
    case ParameterRole::kOperand:
      if (given)
        call.operands[parameter.slot] = to_operand(call, parameter, value);
      else if (!parameter.default_is_none)
        call.operands[parameter.slot] = Operand::imm(parameter.default_value);
      return;
    case ParameterRole::kAttribute: {
      const AttributeKind kind = call.function.definition->attributes[parameter.slot].kind;
      if (given)
        call.attributes[parameter.slot] = to_attribute(call, parameter, kind, value);
      else if (kind == AttributeKind::kReal)
        call.attributes[parameter.slot].real = parameter.default_value;
      else
        call.attributes[parameter.slot].integer = static_cast<int64_t>(parameter.default_value);
      return;
    }
    case ParameterRole::kEngine:
      if (given && !value.is_none()) {
        const auto engine = static_cast<isa::Engine>(to_enum(value, kEngines, "engine"));
        if (engine != isa::Engine::kUnknown) call.engine = engine;
      }
      return;
    case ParameterRole::kName:
      if (given && !value.is_none())
        call.name = call.machine.program()->intern_string(nb::cast<std::string>(nb::str(value)));
      return;
    case ParameterRole::kTilePosition: return set_tile_position(call, parameter, value);
    case ParameterRole::kAxis: return set_reduced_axes(call, parameter, value);
    case ParameterRole::kAxes: return set_transpose_axes(call, parameter, value);
    case ParameterRole::kSources: return set_sources(call, parameter, value);
    case ParameterRole::kScales: return check_scales(call, parameter, value);
    case ParameterRole::kResultType: return check_result_type(call, parameter, value);
    case ParameterRole::kGpSimdDma:
      if (given && PyObject_IsTrue(value.ptr()) == 1)
        call.attributes[parameter.slot].integer = static_cast<int64_t>(isa::DmaEngine::kGpSimdDma);
      return;
    case ParameterRole::kIgnored: return;
  }
}

// What a given argument does not change, empty where it acts.
std::string_view without_effect(const isa::Parameter& parameter, nb::handle value) {
  if (!value.is_valid() || value.is_none() || value.is(nb::handle(Py_False))) return "";
  if (parameter.untimed) return "has no effect on the predicted time";
  if (parameter.role == ParameterRole::kIgnored) return "has no effect: the result has the shape of dst";
  return "";
}

// Says once per process of an argument that was given that it has no effect, or none on the predicted time.
void tell_without_effect(const Call& call) {
  static auto* told = new std::set<std::string>;
  const auto& parameters = call.function.definition->signature.parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string_view what = without_effect(parameters[i], nb::handle(call.arguments[i]));
    if (what.empty()) continue;
    const std::string name = fmt::format("{}({}=)", call.function_name(), parameters[i].name);
    if (!told->insert(name).second) continue;
    const std::string text = fmt::format("{} {}", name, what);
    if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) != 0) throw nb::python_error();
  }
}

void convert_arguments(Call& call) {
  const auto& parameters = call.function.definition->signature.parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    try {
      convert_argument(call, parameters[i], nb::handle(call.arguments[i]));
    } catch (nb::python_error& error) {
      if (error.matches(PyExc_OverflowError))
        argument_error(call, parameters[i].name, "a number is beyond what 64 bits hold",
                       "give a number that the operand's type can hold");
      // What Python says of a value that is no number, with the argument and the kernel's line. An error of
      // ours has a label and names them itself.
      const bool plain = error.matches(PyExc_TypeError) || error.matches(PyExc_ValueError);
      if (!plain || nb::hasattr(error.value(), "label")) throw;
      argument_error(call, parameters[i].name, nb::cast<std::string>(nb::str(error.value())));
    }
  }
}

// Attributes that no argument says: what the launch decides.
void fill_from_launch(Call& call) {
  if (call.function.definition->opcode == Opcode::kQuantizeMx)
    call.attributes[isa::slot::quantize_mx::kAScaleRule].integer =
        static_cast<int64_t>(call.machine.mx_scale_rule());
}

nb::object run_call(const InstructionFunction& function, PyObject* const* args, size_t positional,
                    PyObject* keywords) {
  Machine& machine = require_machine();
  Call call{function,
            machine,
            {},
            {},
            function.definition->operands.size(),
            {},
            function.definition->signature.default_engine,
            0};
  const isa::LocationId location = call_site(machine);
  try {
    match_arguments(call, args, positional, keywords);
    convert_arguments(call);
    fill_from_launch(call);
    const isa::InstructionIndex index =
        machine.emit(function.definition->opcode, call.engine, {call.operands.data(), call.operand_count},
                     {call.attributes.data(), function.definition->attributes.size()}, location, call.name);
    if (machine.wants_flush()) start_flush_unlocked(machine);
    tell_without_effect(call);
    return nb::cast(InstructionHandle{machine.shared_from_this(), index});
  } catch (Fault& fault) {
    fault.set_location(machine.program()->location(location));
    throw;
  }
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* keywords) {
  try {
    return run_call(*reinterpret_cast<InstructionFunction*>(self), args, PyVectorcall_NARGS(nargsf), keywords)
        .release()
        .ptr();
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const nb::builtin_exception& error) {
    PyErr_SetString(error.type() == nb::exception_type::type_error ? PyExc_TypeError : PyExc_ValueError,
                    error.what());
  } catch (const Fault& fault) {
    raise_fault(fault);
  } catch (const Interrupted& stop) {
    raise_interrupted(stop);
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyObject* get_name(PyObject* self, void*) {
  const std::string_view name = reinterpret_cast<InstructionFunction*>(self)->definition->name;
  return PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
}

PyObject* get_summary(PyObject* self, void*) {
  const std::string_view summary = reinterpret_cast<InstructionFunction*>(self)->definition->summary;
  return PyUnicode_FromStringAndSize(summary.data(), static_cast<Py_ssize_t>(summary.size()));
}

PyObject* get_parameters(PyObject* self, void*) {
  const auto* f = reinterpret_cast<InstructionFunction*>(self);
  const size_t count = f->definition->signature.parameters.size();
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(count));
  for (size_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), Py_NewRef(f->names[i]));
  return tuple;
}

template <size_t kCount>
nb::object named(const char* enumeration, const std::array<std::string_view, kCount>& names, double value) {
  const std::string_view name = names.at(static_cast<size_t>(value));
  return nb::make_tuple(enumeration, nb::str(name.data(), name.size()));
}

// The default of an attribute as Python says it: a number, a truth, None, or (enumeration, name).
nb::object attribute_default(AttributeKind kind, double value) {
  switch (kind) {
    case AttributeKind::kBool: return nb::bool_(value != 0);
    case AttributeKind::kReal: return nb::float_(value);
    case AttributeKind::kAluOp:
    case AttributeKind::kOptionalAluOp: {
      const std::string_view op = opentrn::name(static_cast<AluOp>(static_cast<int>(value)));
      return nb::make_tuple("op", nb::str(op.data(), op.size()));
    }
    case AttributeKind::kReduceCmd: return named("reduce_cmd", kReduceCmds, value);
    case AttributeKind::kDgeMode: return named("dge_mode", kDgeModes, value);
    case AttributeKind::kOobMode: return named("oob_mode", kOobModes, value);
    case AttributeKind::kDmaEngine: return named("dma_engine", kDmaEngines, value);
    case AttributeKind::kPerfMode: return named("matmul_perf_mode", kPerfModes, value);
    default: return nb::int_(static_cast<int64_t>(value));
  }
}

nb::object default_of(const InstructionFunction& function, const Parameter& parameter) {
  if (parameter.required) return nb::borrow(Py_Ellipsis);
  if (parameter.role == ParameterRole::kEngine)
    return named("engine", kEngines, static_cast<double>(function.definition->signature.default_engine));
  if (parameter.default_is_none) return nb::none();
  switch (parameter.role) {
    case ParameterRole::kTilePosition: return nb::make_tuple();
    case ParameterRole::kGpSimdDma:
    case ParameterRole::kIgnored: return nb::bool_(false);
    case ParameterRole::kOperand: return nb::float_(parameter.default_value);
    default:
      return attribute_default(function.definition->attributes[parameter.slot].kind, parameter.default_value);
  }
}

PyObject* get_defaults(PyObject* self, void*) {
  const auto* f = reinterpret_cast<InstructionFunction*>(self);
  nb::list defaults;
  for (const Parameter& parameter : f->definition->signature.parameters)
    defaults.append(default_of(*f, parameter));
  return nb::tuple(defaults).release().ptr();
}

PyObject* get_engines(PyObject* self, void*) {
  const auto* f = reinterpret_cast<InstructionFunction*>(self);
  nb::list engines;
  for (size_t i = 0; i < kEngines.size(); ++i)
    if (f->definition->engines & isa::mask(static_cast<isa::Engine>(i)))
      engines.append(nb::str(kEngines[i].data(), kEngines[i].size()));
  return nb::tuple(engines).release().ptr();
}

PyObject* get_first_generation(PyObject* self, void*) {
  return PyLong_FromLong(version(reinterpret_cast<InstructionFunction*>(self)->definition->first_generation));
}

// (label, rule) of what holds for this instruction and not for all.
PyObject* get_rules(PyObject* self, void*) {
  nb::list rules;
  for (const isa::Constraint& constraint :
       reinterpret_cast<InstructionFunction*>(self)->definition->constraints)
    rules.append(nb::make_tuple(nb::str(constraint.label.data(), constraint.label.size()),
                                nb::str(constraint.rule.data(), constraint.rule.size())));
  return nb::tuple(rules).release().ptr();
}

// Made by opentrn/kernel/instruction_help.py when somebody looks.
PyObject* from_help(PyObject* self, void* what) {
  PyObject* help = PyImport_ImportModule("opentrn.kernel.instruction_help");
  if (!help) return nullptr;
  PyObject* made = PyObject_CallMethod(help, static_cast<const char*>(what), "O", self);
  Py_DECREF(help);
  return made;
}

PyObject* get_module(PyObject*, void*) { return PyUnicode_FromString("opentrn.nki.isa"); }

// In a class body it stays itself. That it has a __get__ at all makes help() take it for the function it is.
PyObject* descriptor_get(PyObject* self, PyObject*, PyObject*) { return Py_NewRef(self); }

char kDocOfHelp[] = "doc", kSignatureOfHelp[] = "signature";

PyGetSetDef kProperties[] = {
    {"__name__", get_name, nullptr, nullptr, nullptr},
    {"__qualname__", get_name, nullptr, nullptr, nullptr},
    {"__module__", get_module, nullptr, nullptr, nullptr},
    {"__doc__", from_help, nullptr, nullptr, kDocOfHelp},
    {"__signature__", from_help, nullptr, nullptr, kSignatureOfHelp},
    {"summary", get_summary, nullptr, "what it computes; paragraphs are separated by an empty line", nullptr},
    {"parameters", get_parameters, nullptr, "names of the parameters, in order", nullptr},
    {"defaults", get_defaults, nullptr, "of the parameters; ... without one, (enumeration, name)", nullptr},
    {"engines", get_engines, nullptr, "that run it on some generation", nullptr},
    {"first_generation", get_first_generation, nullptr, "version of the NeuronCore", nullptr},
    {"rules", get_rules, nullptr, "(label, rule) of its own rules", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyTypeObject* function_type() {
  static PyTypeObject type = [] {
    PyTypeObject t{};
    t.ob_base = PyVarObject{PyObject_HEAD_INIT(nullptr) 0};
    t.tp_name = "opentrn._core.InstructionFunction";
    t.tp_basicsize = sizeof(InstructionFunction);
    t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
    t.tp_vectorcall_offset = offsetof(InstructionFunction, vectorcall);
    t.tp_call = PyVectorcall_Call;
    t.tp_getset = kProperties;
    t.tp_descr_get = descriptor_get;
    t.tp_new = nullptr;
    return t;
  }();
  return &type;
}

}  // namespace

std::vector<std::string> instruction_names() {
  std::vector<std::string> names;
  for (const isa::InstructionDefinition& definition : isa::definitions())
    if (!definition.signature.parameters.empty() && definition.signature.in_nki)
      names.emplace_back(definition.name);
  return names;
}

void bind_instructions(nb::module_& module) {
  nb::class_<InstructionHandle>(module, "NkiInstruction", nb::dynamic_attr())
      .def_ro("index", &InstructionHandle::index)
      .def("depends_on", [](nb::object self, nb::args producers) {
        auto* consumer = nb::inst_ptr<InstructionHandle>(self);
        for (nb::handle producer : producers)
          consumer->machine->program()->add_edge(
              {consumer->index, nb::cast<InstructionHandle&>(producer).index});
        return self;
      });
  if (PyType_Ready(function_type()) < 0) throw nb::python_error();
  for (const isa::InstructionDefinition& definition : isa::definitions()) {
    const isa::Signature& signature = definition.signature;
    if (signature.parameters.empty()) continue;
    OPENTRN_CHECK(signature.parameters.size() <= kParametersMax, "too many parameters");
    auto* function = PyObject_New(InstructionFunction, function_type());
    function->vectorcall = vectorcall;
    function->definition = &definition;
    for (size_t i = 0; i < signature.parameters.size(); ++i) {
      const std::string_view name = signature.parameters[i].name;
      PyObject* text = PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
      PyUnicode_InternInPlace(&text);
      function->names[i] = text;
    }
    const std::string name(function->definition->name);
    if (PyModule_AddObject(module.ptr(), name.c_str(), reinterpret_cast<PyObject*>(function)) < 0)
      throw nb::python_error();
  }
}

}  // namespace opentrn::python
