#include "python/device_call.h"

#include <filesystem>
#include <vector>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/fault.h"
#include "base/fork.h"
#include "device/presence.h"
#include "runtime/model_file.h"
#include "runtime/program_call.h"
#include "runtime/settings.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// The logical cores of PyTorch's devices in this process. Never destroyed: tensors may outlive static
// objects.
std::vector<int>& held_cores() {
  static auto* cores = new std::vector<int>;
  return *cores;
}

void hold_for_tensors() {
  try {
    const runtime::Settings settings = runtime::settings_of_environment();
    device::hold({settings.target, held_cores(), settings.physical_cores_per_core, false});
  } catch (const Fault&) {
    return;  // an environment that names no machine: whoever compiles the first program says so
  }
}

uint64_t count_memory(int core, int64_t bytes, uint64_t record) {
  const uint64_t own = fork_generation() + 1;
  if (bytes < 0 && record != own) return 0;
  if (bytes > 0 && !device::is_listed()) hold_for_tensors();
  if (!device::is_listed()) return 0;
  const device::CoreScope scope(core);
  device::add_memory(device::Memory::kTensors, bytes);
  return own;
}

}  // namespace

void bind_process(nb::module_& module) {
  module.def("leave_machine", &device::leave);
  module.def(
      "is_model_file",
      [](const std::filesystem::path& path) { return runtime::is_model_file(path.string()); },
      nb::arg("path"));
}

void bind_device_call(nb::module_& module) {
  module.def(
      "memory_function",
      [](std::vector<int> cores) {
        held_cores() = std::move(cores);
        return reinterpret_cast<uintptr_t>(&count_memory);
      },
      "cores"_a, "The address of a runtime::MemoryCall of a process that holds these logical cores.");
}

}  // namespace opentrn::python
