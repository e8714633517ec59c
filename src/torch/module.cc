// opentrn._torch: the device for Python, and Python's part of it for the device: what compiles a program.
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "torch/attention.h"
#include "torch/autograd_threads.h"
#include "torch/eager.h"
#include "torch/generator.h"
#include "torch/group/backend.h"
#include "torch/hooks.h"
#include "torch/profiler.h"
#include "torch/program.h"

namespace py = pybind11;

namespace opentrn::torch_device {

namespace {

const std::thread::id main_thread = std::this_thread::get_id();  // which loads the module

// What opentrn.torch.eager handed in. Never released: ops run until the process ends.
struct Python {
  py::object compile, time_of, ref;
  py::object class_with_attention;  // of opentrn.torch.dtensor, nothing before
  std::set<std::string> lifted;
};
Python& python() {
  static auto* held = new Python;
  return *held;
}

py::object dtype_object(c10::ScalarType type) {
  return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(torch::getTHPDtype(type)));
}
c10::ScalarType scalar_type(py::handle dtype) {
  return reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type;
}

// The arguments of a call for Python: a tensor as Ref(its number), numbers that are inputs as Ref(~their
// number).
class Arguments {
 public:
  Arguments(const Call& call, bool lifts) : call_(call), lifts_(lifts) {}

  py::list all() {
    py::list result;
    const auto& schema = call_.op->schema().arguments();
    for (size_t i = 0; i < call_.values.size(); ++i)
      result.append(one(call_.values[i], *schema[i].real_type()));
    return result;
  }

 private:
  py::object one(const c10::IValue& value, const c10::Type& type) {
    using c10::TypeKind;
    if (const auto* optional = type.castRaw<c10::OptionalType>(); optional != nullptr && !value.isNone())
      return one(value, *optional->getElementType());
    if (value.isTensor()) return tensor(value.toTensor());
    if (value.isGenerator() || value.isNone()) return py::none();
    if (value.isDouble() && lifts_ && value.toDouble() != 0 && value.toDouble() != 1)
      return python().ref(-1 - numbers_++);
    if (value.isInt() && type.kind() == TypeKind::ScalarTypeType)
      return dtype_object(static_cast<c10::ScalarType>(value.toInt()));
    if (value.isInt() && type.kind() == TypeKind::LayoutType)
      return py::reinterpret_borrow<py::object>(
          reinterpret_cast<PyObject*>(torch::getTHPLayout(static_cast<c10::Layout>(value.toInt()))));
    if (value.isInt() && type.kind() == TypeKind::MemoryFormatType)
      return py::cast(static_cast<c10::MemoryFormat>(value.toInt()));
    if (value.isTensorList()) {
      py::list items;
      for (const at::Tensor& each : value.toTensorVector()) items.append(tensor(each));
      return items;
    }
    if (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList()) {
      py::list items;
      for (const c10::IValue& each : value.toListRef()) items.append(one(each, *type.containedType(0)));
      return items;
    }
    return torch::jit::toPyObject(value);
  }

  py::object tensor(const at::Tensor& value) {
    if (!value.defined()) return py::none();
    return python().ref(tensors_++);
  }

  const Call& call_;
  const bool lifts_;
  int64_t tensors_ = 0, numbers_ = 0;
};

// (kind, shape, dtype, order or None, expanded, wrapped, number or None) of each tensor.
py::list describe(const Call& call) {
  py::list rows;
  for (const Argument& row : call.tensors) {
    py::object number = py::none();
    if (row.kind == Argument::kNumber) number = torch::jit::toPyObject(c10::IValue(row.tensor.item()));
    py::object order = py::none();
    if (!row.layout.order.empty())
      order = py::cast(std::vector<int64_t>(row.layout.order.begin(), row.layout.order.end()));
    rows.append(py::make_tuple(
        static_cast<int>(row.kind), row.tensor.sizes().vec(), dtype_object(row.tensor.scalar_type()), order,
        std::vector<int64_t>(row.layout.expanded.begin(), row.layout.expanded.end()), row.is_wrapped, number,
        row.layout.kind == Layout::kScattered, row.tensor.strides().vec()));
  }
  return rows;
}

Input input_of(py::handle row) {
  const auto fields = row.cast<py::tuple>();
  const auto kind = fields[0].cast<std::string>();
  Input input;
  if (kind == "tensor") {
    input.index = fields[1].cast<size_t>();
  } else if (kind == "number" || kind == "scalar") {
    input.kind = kind == "number" ? Input::kNumber : Input::kScalar;
    input.index = fields[1].cast<size_t>();
    input.type = scalar_type(fields[2]);
  } else {
    input.kind = Input::kConstant;
    input.constant = fields[1].cast<at::Tensor>();
  }
  return input;
}

Output output_of(py::handle row) {
  Output output;
  output.target = row.attr("target").cast<int64_t>();
  output.copied_from = row.attr("copied_from").cast<int64_t>();
  output.repeats = row.attr("repeats").cast<int64_t>();
  output.sizes = row.attr("sizes").cast<std::vector<int64_t>>();
  output.strides = row.attr("strides").cast<std::vector<int64_t>>();
  output.type = scalar_type(row.attr("dtype"));
  output.is_in_order = row.attr("is_in_order").cast<bool>();
  return output;
}

Returned returned_of(py::handle row) {
  const auto fields = row.cast<py::tuple>();
  const auto kind = fields[0].cast<std::string>();
  if (kind == "output") return {Returned::kOutput, fields[1].cast<size_t>(), {}};
  if (kind == "argument") return {Returned::kArgument, fields[1].cast<size_t>(), {}};
  if (kind == "list") return {Returned::kList, 0, fields[1].cast<std::vector<size_t>>()};
  return {};
}

std::unique_ptr<Program> program_of(py::handle plan) {
  auto program = std::make_unique<Program>();
  program->name = plan.attr("name").cast<std::string>();
  program->number = plan.attr("number").cast<size_t>();
  program->time = std::make_shared<ProgramTime>(program->number, program->name);
  program->plan = std::shared_ptr<void>(plan.inc_ref().ptr(), [](void* object) {
    const py::gil_scoped_acquire locked;
    py::handle(static_cast<PyObject*>(object)).dec_ref();
  });
  program->kind = plan.attr("on_host").cast<bool>() ? Program::kHost : Program::kDevice;
  const auto [run, model] = plan.attr("handle").cast<std::pair<uintptr_t, uintptr_t>>();
  program->run = reinterpret_cast<runtime::ProgramCall>(run);
  program->model = reinterpret_cast<void*>(model);
  program->draws = plan.attr("draws").cast<bool>();
  for (const py::handle row : plan.attr("inputs")) program->inputs.push_back(input_of(row));
  for (const py::handle row : plan.attr("outputs")) program->outputs.push_back(output_of(row));
  for (const py::handle row : plan.attr("returned")) program->returned.push_back(returned_of(row));
  return program;
}

// Python's exception goes through PyTorch's C++ and comes out as itself.
template <typename Action>
auto with_python(Action action) {
  const py::gil_scoped_acquire locked;
  try {
    return action();
  } catch (py::error_already_set& raised) {
    raised.restore();
    python_error error;
    error.persist();
    throw error;
  }
}

}  // namespace

std::unique_ptr<Program> compile(const Call& call, bool lifts) {
  return with_python([&] {
    const std::string name = c10::toString(call.op->operator_name());
    return program_of(python().compile(name, Arguments(call, lifts).all(), describe(call), call.device));
  });
}

double time_of(size_t number) {
  return with_python([&] { return python().time_of(number).cast<double>(); });
}

bool lifts_numbers(const std::string& op) { return python().lifted.contains(op); }

bool wrapper_has_attention(const at::Tensor& tensor) {
  return with_python([&] {
    const py::object& known = python().class_with_attention;
    return known && py::isinstance(py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor)), known);
  });
}

// Handlers run on the main thread only; another thread that asked for the lock might do so when Python ends.
void service_interrupts() {
  if (std::this_thread::get_id() != main_thread) return;
  with_python([] {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  });
}

namespace {

bool may_ask_python() {
  return Py_IsInitialized() != 0 && !_Py_IsFinalizing() && PyGILState_GetThisThreadState() != nullptr;
}

// Whether a file is of torch, of OpenTrn, or none.
bool is_of_library(const char* file) {
  static const auto* folders = [] {
    auto* made = new std::vector<std::string>;
    for (const char* name : {"torch", "opentrn"}) {
      const auto path = py::module_::import(name).attr("__file__").cast<std::string>();
      made->push_back(path.substr(0, path.rfind('/') + 1));
    }
    return made;
  }();
  return file[0] == '<' || std::ranges::any_of(*folders, [&](const std::string& folder) {
           return std::strncmp(file, folder.c_str(), folder.size()) == 0;
         });
}

}  // namespace

std::string calling_line() {
  if (!may_ask_python()) return "";
  const py::gil_scoped_acquire locked;
  auto frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* const at = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const auto code = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(at)));
    const char* file = PyUnicode_AsUTF8(reinterpret_cast<PyCodeObject*>(code.ptr())->co_filename);
    if (file == nullptr) PyErr_Clear();
    if (file != nullptr && !is_of_library(file))
      return " at " + std::string(file) + ":" + std::to_string(PyFrame_GetLineNumber(at));
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(at)));
  }
  return "";
}

void run_program(const Program& program, c10::DeviceIndex device, const void* const* inputs,
                 void* const* outputs) {
  const int core = configuration().cores[static_cast<size_t>(device)];
  int failed = 0;
  if (PyGILState_Check() != 0) {
    const py::gil_scoped_release unlocked;
    failed = program.run(program.model, core, inputs, outputs);
  } else {
    failed = program.run(program.model, core, inputs, outputs);
  }
  if (failed == 0) return;
  const py::gil_scoped_acquire locked;
  python_error error;
  error.persist();
  throw error;
}

namespace {

void start(const std::vector<int>& cores, int64_t memory_bytes, uintptr_t memory_function,
           const py::object& copies_ns, const py::object& compile, const py::object& time_of,
           const py::object& ref, const std::vector<std::string>& taken,
           const std::set<std::string>& lifted) {
  const py::object* copies = new py::object(copies_ns);  // never released, as python()
  const auto count_memory = reinterpret_cast<runtime::MemoryCall>(memory_function);
  configure({cores, memory_bytes, count_memory, [copies](int64_t count, int64_t bytes) {
               return with_python([&] { return (*copies)(count, bytes).cast<double>(); });
             }});
  register_hooks();
  register_profiler();
  python().compile = compile;
  python().time_of = time_of;
  python().ref = ref;
  python().lifted = lifted;
  take_over(taken);
}

py::list program_rows() {
  py::list rows;
  for (const auto& program : programs())
    rows.append(py::make_tuple(program->number, program->name, program->kind == Program::kHost,
                               program->runs.load(), static_cast<double>(program->host_ns.load()) / 1e9));
  return rows;
}

// The group, and whether ranks of it named the same core.
std::pair<c10::intrusive_ptr<c10d::Backend>, bool> make_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                              const std::string& name, int rank, int size,
                                                              const std::vector<int64_t>& ranks,
                                                              double timeout_s, int device, int core) {
  constexpr double kMsPerS = 1e3;
  const std::chrono::milliseconds timeout(static_cast<int64_t>(timeout_s * kMsPerS));
  const py::gil_scoped_release unlocked;
  const auto made =
      c10::make_intrusive<Backend>(store, Backend::Setting{name, rank, size, ranks, timeout, device, core});
  return {made, made->shares_cores()};
}

// `count` gives how many other threads of the process may still call a group.
void watch_for_deadlocks(double seconds, py::object count) {
  set_deadlock_seconds(seconds);
  static auto* held = new py::object;  // until the process ends
  *held = std::move(count);
  set_count_of_others([](const std::vector<uint64_t>& waiting) {
    if (Py_IsInitialized() == 0 || _Py_IsFinalizing()) return 1;
    return with_python([&] { return (*held)(waiting).cast<int>(); });
  });
}

std::vector<int> cores_of_group(const c10::intrusive_ptr<c10d::Backend>& group) {
  const auto* own = dynamic_cast<const Backend*>(group.get());
  return own ? own->cores() : std::vector<int>{};
}

PYBIND11_MODULE(_torch, module) {
  py::module_::import("torch._C._distributed_c10d");  // the types that groups are made of
  module.def("set_collective_function", [](uintptr_t address) {
    set_collective_function(reinterpret_cast<runtime::CollectiveFunction>(address));
  });
  module.def("make_group", &make_group);
  module.def(
      "ignore_warnings", [] { c10::WarningUtils::set_warning_handler(ignores_warnings()); },
      "PyTorch's C++ warns of nothing in this thread any more");
  module.def("watch_for_deadlocks", &watch_for_deadlocks);
  module.def("cores_of_group", &cores_of_group, "The logical core of each rank; none of another backend's");
  module.def("stretch_collectives", &stretch_collectives,
             "Collectives that this thread starts take so much longer than alone");
  module.def("start", &start);
  module.def("set_class_with_attention",
             [](const py::object& type) { python().class_with_attention = type; });
  module.def("programs", &program_rows, "(number, name, on the host, runs, host seconds) of each");
  module.def("count_host_time", &count_host_time);
  module.def("settle_autograd_threads", &settle_autograd_threads, py::call_guard<py::gil_scoped_release>());
  module.def("current_device", [] { return static_cast<int>(current_device()); });
  module.def("device_count", [] { return configuration().device_count(); });
  module.def("set_device", [](int device) { set_current_device(static_cast<c10::DeviceIndex>(device)); });
  module.def("set_default_device",
             [](int device) { set_default_device(static_cast<c10::DeviceIndex>(device)); });
  module.def("has_chosen_device", &has_chosen_device);
  module.def("exchange_device", [](int device) {
    return static_cast<int>(exchange_current_device(static_cast<c10::DeviceIndex>(device)));
  });
  module.def("default_generator",
             [](int device) { return default_generator(static_cast<c10::DeviceIndex>(device)); });
  module.def("stream_time_ns", [](int device, int64_t stream) {
    const py::gil_scoped_release unlocked;
    const c10::Device place(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device));
    return stream_time_ns(c10::Stream(c10::Stream::UNSAFE, place, stream));
  });
  module.def("bound_programs", &bound_programs, "The table keeps as many programs; 0: all",
             py::call_guard<py::gil_scoped_release>());
  module.def("note_time", [](int device, const std::string& what, double ns) {
    note_time(current_stream(static_cast<c10::DeviceIndex>(device)), what, ns);
  });
  module.def("wait_until", [](int device, double ns) {
    const py::gil_scoped_release unlocked;
    stream_wait_until(current_stream(static_cast<c10::DeviceIndex>(device)), ns);
  });
}

}  // namespace

}  // namespace opentrn::torch_device
