// Machine, Launch, registers: opentrn._core as opentrn/kernel/machine.py uses it.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "isa/definitions.h"
#include "isa/roles.h"
#include "isa/text.h"
#include "nki/nan_search.h"
#include "nki/overlapping_copies.h"
#include "nki/unwritten_elements.h"
#include "python/call_site.h"
#include "python/convert.h"
#include "python/unlocked.h"

namespace opentrn::python {

using namespace nb::literals;
using nki::Execute;
using nki::Launch;
using nki::Machine;
using nki::MachineOptions;

namespace {

thread_local std::vector<std::shared_ptr<Machine>> active_machines;

Generation generation_of(int version) {
  if (const auto found = generation_of_version(version)) return *found;
  throw Fault(FaultKind::kInput, "isa.generation",
              fmt::format("no limits are known for NeuronCore-v{}", version),
              "NKI programs need NeuronCore-v2, v3 or v4");
}

MachineOptions options_of(int version, int core_id, const std::string& execute) {
  MachineOptions options;
  options.generation = generation_of(version);
  options.core_id = core_id;
  if (execute == "eager")
    options.execute = Execute::kEager;
  else if (execute == "never")
    options.execute = Execute::kNever;
  else if (execute != "batched")
    throw nb::value_error("execute is one of 'batched', 'eager', 'never'");
  return options;
}

using Bytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using BytesOut = nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>;

nki::TensorView from_bytes(Bytes bytes, const std::vector<int64_t>& shape, nb::handle dtype,
                           nb::handle buffer, const std::string& name) {
  auto* owner = new Bytes(bytes);
  // The array's reference is dropped wherever the last view dies, which may be on a thread without the lock.
  std::shared_ptr<void> keep(owner, [](void* array) {
    nb::gil_scoped_acquire locked;
    delete static_cast<Bytes*>(array);
  });
  auto storage = sim::Buffer::wrap(bytes.data(), static_cast<int64_t>(bytes.size()), std::move(keep));
  return Machine::host_tensor(shape, to_dtype(dtype), to_memory_space(buffer), std::move(storage), name);
}

// All bytes of the tensor behind a view, sharing memory. Bytes never written read as 0xFF: NaN, or -1; in a
// launch that fills fresh memory they keep what it was filled with.
BytesOut storage_bytes(const nki::TensorView& view) {
  std::shared_ptr<sim::Buffer> buffer = view.storage->host_bytes;
  bool filled = false;
  if (Machine* machine = view.storage->machine ? view.storage->machine.get() : current_machine()) {
    const Unlocked unlocked;
    buffer = machine->value(view);
    filled = view.storage->machine && machine->fills_fresh_memory();
  }
  sim::ByteMask& initialised = buffer->initialised();
  if (!filled && !initialised.all() && buffer->writable())
    for (int64_t i = 0; i < buffer->bytes(); ++i)
      if (initialised.test_none(i, 1)) buffer->data()[i] = std::byte{0xFF};
  auto* owner = new std::shared_ptr<sim::Buffer>(buffer);
  nb::capsule capsule(owner, [](void* p) noexcept { delete static_cast<std::shared_ptr<sim::Buffer>*>(p); });
  return BytesOut(buffer->data(), {static_cast<size_t>(buffer->bytes())}, capsule);
}

nki::TensorView ndarray(Machine& machine, nb::handle shape, nb::handle dtype, nb::handle buffer,
                        nb::handle name, nb::handle address) {
  const std::vector<int64_t> sizes = to_ints(shape);
  std::optional<isa::Address> place;
  if (!address.is_none()) {
    const std::vector<int64_t> parts = to_ints(address);
    if (parts.size() != 2) throw nb::value_error("address is (partition, byte offset)");
    place = isa::Address{static_cast<int32_t>(parts[0]), parts[1]};
  }
  return machine.ndarray(sizes, to_dtype(dtype), to_memory_space(buffer),
                         name.is_none() ? std::string() : nb::cast<std::string>(nb::str(name)), place,
                         call_site(machine));
}

nki::TensorView spread_row(Machine& machine, const nki::TensorView& row, int64_t count) {
  const isa::LocationId location = call_site(machine);
  try {
    nki::TensorView tile = machine.spread_row(row, count, location);
    if (machine.wants_flush()) start_flush_unlocked(machine);
    return tile;
  } catch (Fault& fault) {
    fault.set_location(machine.program()->location(location));
    throw;
  }
}

void emit_register(Machine& machine, isa::Opcode opcode, isa::Operand dst, isa::Operand src) {
  const isa::Operand operands[] = {dst, src};
  machine.emit(opcode, isa::Engine::kUnknown, operands, {}, call_site(machine));
}

void check_writable(const VirtualRegister& reg) {
  if (reg.frozen) throw Fault(FaultKind::kProgram, "register.frozen", "a loop variable is read-only");
}

void register_move(VirtualRegister& dst, nb::handle src) {
  check_writable(dst);
  if (VirtualRegister* other = as_register(src); other && !other->constant()) {
    dst.known.reset();
    emit_register(require_machine(), isa::Opcode::kRegisterMove, isa::Operand::reg(dst.allocate()),
                  isa::Operand::reg(other->allocate()));
    return;
  }
  const int64_t value = static_cast<int32_t>(to_int(src));
  dst.known = value;
  if (const Machine* active = current_machine(); active && active->open_loops() > dst.depth)
    dst.known.reset();
  if (dst.machine)
    emit_register(*dst.machine, isa::Opcode::kRegisterMove, isa::Operand::reg(dst.id),
                  isa::Operand::imm(static_cast<double>(value)));
}

void register_load(VirtualRegister& dst, const nki::TensorView& src) {
  check_writable(dst);
  dst.known.reset();
  Machine& machine = require_machine();
  emit_register(machine, isa::Opcode::kRegisterLoad, isa::Operand::reg(dst.allocate()), machine.operand(src));
}

void register_store(const nki::TensorView& dst, VirtualRegister& src) {
  Machine& machine = require_machine();
  emit_register(machine, isa::Opcode::kRegisterStore, machine.operand(dst),
                isa::Operand::reg(src.allocate()));
}

VirtualRegister register_alloc(nb::handle value) {
  VirtualRegister reg;
  if (const Machine* active = current_machine()) reg.depth = active->open_loops();
  if (const nki::TensorView* tensor = as_tensor(value))
    register_load(reg, *tensor);
  else if (!value.is_none())
    register_move(reg, value);
  // Made where it is asked for, not at its first use, which may be inside a loop.
  if (current_machine()) reg.allocate();
  return reg;
}

isa::Operand loop_bound(nb::handle value) {
  VirtualRegister* reg = as_register(value);
  if (reg && !reg->constant()) return isa::Operand::reg(reg->allocate());
  return isa::Operand::imm(static_cast<double>(to_int(value)));
}

VirtualRegister begin_loop(Machine& machine, nb::handle lower, nb::handle upper, int64_t step) {
  const isa::Operand from = loop_bound(lower), to = loop_bound(upper);
  const isa::RegisterId counter = machine.begin_loop(from, to, step, call_site(machine));
  return {machine.shared_from_this(), counter, std::nullopt, true, machine.open_loops()};
}

void begin_while(Machine& machine, VirtualRegister& condition) {
  machine.begin_while(condition.allocate(), call_site(machine));
}

// A new register with `a op b`, computed where the program runs.
VirtualRegister register_alu(nb::handle op, nb::handle a, nb::handle b) {
  Machine& machine = require_machine();
  const isa::Operand left = loop_bound(a), right = loop_bound(b);
  VirtualRegister result{machine.shared_from_this(), machine.new_register(), std::nullopt, false,
                         machine.open_loops()};
  const isa::Operand operands[] = {isa::Operand::reg(result.id), left, right};
  const isa::AttributeWord attributes[] = {{static_cast<int64_t>(to_alu_op(op))}};
  machine.emit(isa::Opcode::kRegisterAlu, isa::Engine::kUnknown, operands, attributes, call_site(machine));
  return result;
}

// -- Python's operators on registers
//
// Outside of device loops a register has a value whenever it is looked at, so arithmetic gives plain ints.
// Inside, where the body is recorded once, it gives a register that the device computes, for the operators
// that a sequencer has; where Python repeats the body, a register too, so that what takes a register takes it
// either way.

int64_t register_or_number(nb::handle value) {
  if (VirtualRegister* reg = as_register(value)) return reg->value();
  const nb::object number = nb::steal(PyNumber_Long(value.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  return nb::cast<int64_t>(number);
}

enum class RegisterOperator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kFloorDivide,
  kModulo,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kEqual
};

// As ALU operators are called; nothing for those that a sequencer has not.
const char* alu_name(RegisterOperator op) {
  constexpr const char* kNames[] = {"add",  "subtract",   "multiply", nullptr,         nullptr,
                                    "less", "less_equal", "greater",  "greater_equal", "equal"};
  return kNames[static_cast<size_t>(op)];
}

nb::object computed(RegisterOperator op, int64_t a, int64_t b) {
  const auto divided = [&](auto function) {  // as Python rounds
    const nb::object made = nb::steal(function(nb::int_(a).ptr(), nb::int_(b).ptr()));
    if (!made.is_valid()) throw nb::python_error();
    return made;
  };
  switch (op) {
    case RegisterOperator::kAdd: return nb::int_(a + b);
    case RegisterOperator::kSubtract: return nb::int_(a - b);
    case RegisterOperator::kMultiply: return nb::int_(a * b);
    case RegisterOperator::kFloorDivide: return divided(PyNumber_FloorDivide);
    case RegisterOperator::kModulo: return divided(PyNumber_Remainder);
    case RegisterOperator::kLess: return nb::bool_(a < b);
    case RegisterOperator::kLessEqual: return nb::bool_(a <= b);
    case RegisterOperator::kGreater: return nb::bool_(a > b);
    case RegisterOperator::kGreaterEqual: return nb::bool_(a >= b);
    case RegisterOperator::kEqual: return nb::bool_(a == b);
  }
  return nb::none();
}

// Whether the active machine is in a loop whose body Python repeats (nki/language/_control.py).
bool repeats_loops() {
  Machine* machine = current_machine();
  if (!machine) return false;
  const nb::object repeated =
      nb::getattr(nb::cast(machine->shared_from_this()), "repeated_loops", nb::int_(0));
  return nb::cast<int64_t>(repeated) > 0;
}

template <RegisterOperator op, bool swapped>
nb::object on_registers(nb::handle self, nb::handle other) {
  const nb::handle left = swapped ? other : self, right = swapped ? self : other;
  const Machine* machine = current_machine();
  const char* device_name = alu_name(op);
  if (device_name && machine && machine->open_loops() > 0)
    return nb::cast(register_alu(nb::str(device_name), left, right));
  nb::object value = computed(op, register_or_number(left), register_or_number(right));
  if (!device_name || !repeats_loops()) return value;
  VirtualRegister reg;
  reg.known = nb::cast<int64_t>(nb::int_(value));
  reg.depth = machine->open_loops();
  return nb::cast(std::move(reg));
}

template <RegisterOperator op>
void bind_operator(nb::class_<VirtualRegister>& type, const char* name, const char* reverse = nullptr) {
  type.def(name, &on_registers<op, false>);
  if (reverse) type.def(reverse, &on_registers<op, true>);
}

void bind_operators(nb::class_<VirtualRegister>& type) {
  using enum RegisterOperator;
  bind_operator<kAdd>(type, "__add__", "__radd__");
  bind_operator<kSubtract>(type, "__sub__", "__rsub__");
  bind_operator<kMultiply>(type, "__mul__", "__rmul__");
  bind_operator<kFloorDivide>(type, "__floordiv__", "__rfloordiv__");
  bind_operator<kModulo>(type, "__mod__", "__rmod__");
  bind_operator<kLess>(type, "__lt__");
  bind_operator<kLessEqual>(type, "__le__");
  bind_operator<kGreater>(type, "__gt__");
  bind_operator<kGreaterEqual>(type, "__ge__");
  type.def("__eq__", &on_registers<kEqual, false>, nb::sig("def __eq__(self, arg: object, /) -> Any"));
  type.def("__neg__", [](VirtualRegister& self) { return -self.value(); });
}

// The exception of the fault that find_nan_origin() gives, or None.
nb::object nan_origin(const std::vector<std::shared_ptr<Machine>>& machines) {
  std::optional<Fault> origin;
  {
    const Unlocked unlocked;
    origin = nki::find_nan_origin(machines);
  }
  return origin ? exception_of(*origin) : nb::none();
}

// The text of the fault that find_overlapping_copy() gives, or None.
std::optional<std::string> overlapping_copy(const std::vector<std::shared_ptr<Machine>>& machines) {
  const Unlocked unlocked;
  const std::optional<Fault> found = nki::find_overlapping_copy(machines);
  return found ? std::optional<std::string>(found->what()) : std::nullopt;
}

nb::object place(const SourceLocation& where) {
  return where.known() ? nb::object(nb::make_tuple(where.file, where.line, where.function)) : nb::none();
}

// (count, first index, (file, line, function) of the tensor or None, the move they came by), or None.
nb::object unwritten(const nki::TensorView& view) {
  std::optional<nki::UnwrittenElements> found;
  {
    const Unlocked unlocked;
    found = nki::unwritten_elements(view);
  }
  if (!found) return nb::none();
  return nb::make_tuple(found->count, found->first, place(found->made), found->moved);
}

// (file, line, function) where the kernel made the tensor behind `view`; None for an array of the host.
nb::object made_at(const nki::TensorView& view) {
  const nki::Machine* machine = view.storage->machine.get();
  if (machine == nullptr) return nb::none();
  return place(machine->program()->location(machine->program()->tensor(view.storage->id).location));
}

// Of the machines of a launch that returned nothing: where its last instruction stands, if no instruction
// writes an array of the caller or shows anything, so that nothing is left of what it computed; else None.
nb::object last_without_effect(const std::vector<std::shared_ptr<Machine>>& machines) {
  SourceLocation last;
  for (const auto& machine : machines) {
    const isa::Program& program = *machine->program();
    const std::vector<bool> written = isa::written_tensors(program);
    for (const auto& [id, buffer] : machine->host_buffers())
      if (written[id]) return nb::none();
    for (const isa::Instruction& in : program.instructions()) {
      if (in.opcode == isa::Opcode::kDevicePrint || in.opcode == isa::Opcode::kCustomOp) return nb::none();
      last = program.location(in.location);
    }
  }
  return place(last);
}

// (file, line, function) of the first instruction that writes the tensor of `view`; None when there is none.
nb::object first_write(Machine& machine, const nki::TensorView& view) {
  const isa::Program& program = *machine.program();
  const isa::TensorId tensor = machine.operand(view).tensor;
  for (const isa::Instruction& in : program.instructions()) {
    const auto operands = program.operands(in);
    for (size_t slot = 0; slot < operands.size(); ++slot)
      if (operands[slot].is_access() && operands[slot].tensor == tensor &&
          isa::role_of(program, in, static_cast<int>(slot)) != isa::Role::kIn)
        return place(program.location(in.location));
  }
  return nb::none();
}

void device_print(nb::handle text, const nki::TensorView& tensor) {
  Machine& machine = require_machine();
  const isa::Operand operands[] = {machine.operand(tensor)};
  const isa::AttributeWord attributes[] = {
      {static_cast<int64_t>(machine.program()->intern_string(nb::cast<std::string>(nb::str(text))))}};
  machine.emit(isa::Opcode::kDevicePrint, isa::Engine::kUnknown, operands, attributes, call_site(machine));
  if (machine.open_loops() == 0) flush_unlocked(machine);
}

}  // namespace

Machine* current_machine() { return active_machines.empty() ? nullptr : active_machines.back().get(); }

Machine& require_machine() {
  Machine* machine = current_machine();
  if (!machine)
    throw Fault(FaultKind::kProgram, "nki.scope", "no NeuronCore is active in this thread",
                "run the kernel through nki.simulate, or decorate it with @nki.jit");
  return *machine;
}

void bind_machine(nb::module_& module) {
  nki::set_blocking_section([](const std::function<void()>& wait) {
    if (PyGILState_Check() == 0) return wait();
    const interrupt::HostWork work;  // also where a machine dies in a signal handler, which Unlocked refuses
    const nb::gil_scoped_release unlocked;
    wait();
  });
  nb::class_<Launch>(module, "Launch")
      .def(
          "__init__",
          [](Launch* self, int generation, int cores, bool fill_fresh_memory, bool core_races,
             std::optional<int64_t> loop_limit, std::shared_ptr<nki::Ranks> ranks, int rank) {
            MachineOptions options = options_of(generation, 0, "batched");
            options.checks.fill_fresh_memory = fill_fresh_memory;
            options.checks.uninitialised_reads = !fill_fresh_memory;
            options.checks.core_races = core_races;
            options.checks.limit_loops(loop_limit);
            new (self) Launch(options, cores, std::move(ranks), rank);
          },
          "generation"_a, "cores"_a, "fill_fresh_memory"_a = false, "core_races"_a = true,
          "loop_limit"_a = nb::none(), "ranks"_a.none() = nb::none(), "rank"_a = 0)
      .def("core_done", &Launch::core_done, "core_id"_a, "failed"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("stop", &Launch::stop)
      .def("check_races", &Launch::check_races, nb::call_guard<Unlocked>());

  nb::class_<Machine>(module, "Machine", nb::dynamic_attr())
      .def(nb::new_(
               [](int generation, int core_id, std::shared_ptr<Launch> launch, const std::string& execute) {
                 return Machine::create(options_of(generation, core_id, execute), std::move(launch));
               }),
           "generation"_a, "core_id"_a = 0, "launch"_a.none() = nb::none(), "execute"_a = "batched")
      .def("__enter__",
           [](std::shared_ptr<Machine> self) {
             active_machines.push_back(self);
             return self;
           })
      .def("__exit__", [](Machine&, nb::args) { active_machines.pop_back(); })
      .def("ndarray", &ndarray, "shape"_a, "dtype"_a, "buffer"_a = "sbuf", "name"_a = "",
           "address"_a = nb::none())
      .def("spread_row", &spread_row, "row"_a, "count"_a)
      .def("flush", [](Machine& self) { flush_unlocked(self); })
      .def("flush_prints", &Machine::flush_prints, nb::call_guard<Unlocked>())
      .def_prop_ro("records_loops", &Machine::records_loops)
      .def_prop_ro("open_loops", &Machine::open_loops)
      .def("begin_loop", &begin_loop, "lower"_a, "upper"_a, "step"_a)
      .def("begin_while", &begin_while, "condition"_a)
      .def("end_loop", [](Machine& self) { self.end_loop(call_site(self)); })
      .def("abandon_loop", &Machine::abandon_loop)
      // Loops of the kernel that are written out; see isa::WrittenLoop.
      .def_prop_rw(
          "iteration", [](Machine& self) { return self.program()->iteration(); },
          [](Machine& self, uint32_t iteration) { self.program()->set_iteration(iteration); })
      .def(
          "begin_written_loop",
          [](Machine& self, bool independent) {
            isa::Program& program = *self.program();
            program.set_iteration(program.begin_written_loop({program.iteration(), independent}));
            return program.loop_of(program.iteration());
          },
          "independent"_a)
      .def(
          "next_iteration",
          [](Machine& self, uint32_t loop) {
            self.program()->set_iteration(self.program()->next_iteration(loop));
          },
          "loop"_a)
      .def("set_no_reorder", &Machine::set_no_reorder)
      .def("set_release", &Machine::set_release, "minor"_a)
      .def("set_stochastic_rounding", &Machine::set_stochastic_rounding, "seed"_a, "launch"_a)
      .def("set_print_callback",
           [](Machine& self, nb::object callback) {
             self.core().set_print_callback([callback](const sim::PrintEvent& event) {
               nb::gil_scoped_acquire locked;
               callback(event.formatted);
             });
           })
      .def("add_schedule",
           [](Machine& self, const std::vector<std::pair<std::string, std::string>>& edges) {
             std::vector<Machine::NamedEdge> named;
             for (const auto& [consumer, producer] : edges) named.push_back({consumer, producer});
             self.add_schedule(named);
           })
      .def("add_edge",
           [](Machine& self, uint32_t consumer, uint32_t producer) {
             self.program()->add_edge({consumer, producer});
           })
      .def_prop_ro("generation", [](const Machine& self) { return version(self.generation()); })
      .def_prop_ro("core_id", &Machine::core_id)
      .def_prop_ro("num_cores", &Machine::core_count)
      .def_prop_ro("rank", &Machine::rank)
      .def_prop_ro("num_ranks", &Machine::rank_count)
      .def_prop_ro("collectives",
                   [](Machine& self) {
                     std::vector<std::vector<size_t>> marks;
                     for (const Machine::CollectiveMark& mark : self.collectives())
                       marks.push_back({mark.record, mark.begin, mark.met, mark.end});
                     return marks;
                   })
      .def(
          "program_text", [](Machine& self) { return isa::to_text(*self.program()); },
          "What was recorded, in the text form of src/isa/text.h.")
      .def_prop_ro("instruction_count", [](Machine& self) { return self.program()->size(); })
      .def("opcode_counts", [](Machine& self) {
        nb::dict counts;
        std::vector<int64_t> totals(isa::kOpcodeCount);
        for (const isa::Instruction& in : self.program()->instructions())
          ++totals[static_cast<size_t>(in.opcode)];
        for (int i = 0; i < isa::kOpcodeCount; ++i)
          if (totals[i]) counts[nb::str(isa::name(static_cast<isa::Opcode>(i)).data())] = totals[i];
        return counts;
      });

  nb::class_<VirtualRegister> reg(module, "VirtualRegister", nb::dynamic_attr());
  reg.def(
         "__init__",
         [](VirtualRegister* self, std::optional<int64_t> state, bool frozen) {
           const Machine* active = current_machine();
           new (self) VirtualRegister{nullptr, 0, state, frozen, active ? active->open_loops() : 0};
         },
         "state"_a = nb::none(), "frozen"_a = false)
      .def("__int__", &VirtualRegister::value)
      .def("__index__", &VirtualRegister::value)
      .def("__float__", [](VirtualRegister& self) { return static_cast<double>(self.value()); })
      .def_ro("frozen", &VirtualRegister::frozen)
      .def_prop_ro("value", &VirtualRegister::value);
  bind_operators(reg);

  module.def("current_or_none", []() -> std::shared_ptr<Machine> {
    Machine* machine = current_machine();
    return machine ? machine->shared_from_this() : nullptr;
  });
  module.def("from_bytes", &from_bytes);
  module.def("storage_bytes", &storage_bytes);
  module.def("nan_origin", &nan_origin, "machines"_a,
             nb::sig("def nan_origin(machines: Sequence[Machine]) -> Exception | None"));
  module.def("unwritten_elements", &unwritten, "view"_a,
             nb::sig("def unwritten_elements(view: NkiTensor) -> "
                     "tuple[int, list[int], tuple[str, int, str] | None, str] | None"));
  module.def("made_at", &made_at, "view"_a,
             nb::sig("def made_at(view: NkiTensor) -> tuple[str, int, str] | None"));
  module.def("overlapping_copy", &overlapping_copy, "machines"_a);
  module.def("first_write", &first_write, "machine"_a, "view"_a,
             nb::sig("def first_write(machine: Machine, view: NkiTensor) -> tuple[str, int, str] | None"));
  module.def("last_without_effect", &last_without_effect, "machines"_a,
             nb::sig("def last_without_effect(machines: Sequence[Machine]) -> tuple[str, int, str] | None"));
  module.def("device_print", &device_print);
  module.def("register_alloc", &register_alloc, "x"_a = nb::none());
  module.def("register_move", &register_move, "dst"_a, "src"_a);
  module.def("register_load", &register_load, "dst"_a, "src"_a);
  module.def("register_store", &register_store, "dst"_a, "src"_a);
}

}  // namespace opentrn::python
