// Printers of AWS's tools, for conformance tests that hand over the processes of a document.
#include "python/tools_bindings.h"

#include <algorithm>
#include <memory>
#include <tuple>

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "cli/machine_options.h"
#include "device/presence.h"
#include "monitor/machine.h"
#include "monitor/monitor.h"
#include "monitor/neuron_ls.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;  // NOLINT(google-build-using-namespace): "x"_a

namespace {

// Number, command, version and whether it is a tool; all others hold every core.
using ProcessRow = std::tuple<uint64_t, std::string, std::string, bool>;

std::string neuron_ls(const std::string& instance, int lnc, const std::vector<std::string>& words,
                      const std::vector<ProcessRow>& rows) {
  const arch::Tables& tables = arch::default_tables();
  const monitor::Machine machine = monitor::machine_of(tables, fabric::Platform::make(tables, instance), lnc);
  std::vector<device::Process> processes;
  for (const auto& [pid, command, version, is_tool] : rows) {
    device::Process& process = processes.emplace_back();
    process.pid = pid;
    process.command = command;
    process.runtime_version = version;
    process.is_tool = is_tool;
    for (const monitor::Device& device : machine.devices)
      for (const int core : device.cores) process.cores.emplace_back().index = static_cast<uint64_t>(core);
  }
  const auto given = [&](const char* brief, const char* full) {
    return std::any_of(words.begin(), words.end(),
                       [&](const auto& word) { return word == brief || word == full; });
  };
  const monitor::LsOptions options{given("-w", "--wide"), given("-a", "--show-all-procs"),
                                   given("-t", "--topology")};
  return given("-j", "--json-output") ? monitor::ls_json(machine, processes, options)
                                      : monitor::ls_text(machine, processes, options);
}

// Of the machine that `instance`, or the environment, names; `config`: text, or "" for all groups.
std::unique_ptr<monitor::Monitor> make_monitor(const std::string& instance, const std::string& config,
                                               const std::string& name) {
  const arch::Tables& tables = arch::default_tables();
  cli::MachineOptions options;
  options.instance = instance;
  const fabric::Platform platform = options.platform(tables);
  monitor::Machine machine = monitor::machine_of(tables, platform, options.cores_per_rank(tables, platform));
  return std::make_unique<monitor::Monitor>(
      std::move(machine),
      name.empty() ? monitor::default_monitor_config() : monitor::parse_monitor_config(config, name));
}

}  // namespace

void bind_tools(nb::module_& module) {
  module.def("neuron_ls", &neuron_ls, "instance"_a, "lnc"_a, "words"_a, "processes"_a);
  nb::class_<monitor::Monitor>(module, "Monitor")
      .def(nb::new_(&make_monitor), "instance"_a, "config"_a, "name"_a)
      .def("wait_s", &monitor::Monitor::wait_s)
      .def("report", &monitor::Monitor::report);
  module.def("hold_as_tool", [] { device::hold({"", {}, 1, true}); });
}

}  // namespace opentrn::python
