// Printers of AWS's tools, for conformance tests that hand over the processes of a document.
#include "python/tools_bindings.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <tuple>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "cli/machine_options.h"
#include "device/presence.h"
#include "device/registry.h"
#include "monitor/machine.h"
#include "monitor/monitor.h"
#include "monitor/neuron_ls.h"
#include "monitor/neuron_top.h"

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

// The simulated server that `instance`, or the environment, names.
monitor::Machine machine_named(const std::string& instance) {
  const arch::Tables& tables = arch::default_tables();
  cli::MachineOptions options;
  options.instance = instance;
  const fabric::Platform platform = options.platform(tables);
  return monitor::machine_of(tables, platform, options.cores_per_rank(tables, platform));
}

nb::dict machine_facts(const std::string& instance) {
  const monitor::Machine machine = machine_named(instance);
  nb::dict facts;
  facts["instance_type"] = machine.instance_type;
  facts["instance_id"] = machine.instance_id;
  facts["chip"] = machine.chip;
  facts["generation"] = machine.generation;
  facts["physical_cores_per_core"] = machine.physical_cores_per_core;
  facts["memory_bytes"] = machine.memory_bytes;
  facts["rows"] = machine.rows;
  facts["columns"] = machine.columns;
  facts["is_torus"] = machine.is_torus;
  facts["is_ring"] = machine.is_ring;
  nb::list devices;
  for (const monitor::Device& device : machine.devices) {
    nb::dict row;
    row["index"] = device.index;
    row["cores"] = device.cores;
    row["connected_to"] = device.connected_to;
    row["bdf"] = device.bdf;
    row["numa_node"] = device.numa_node;
    row["cpu_affinity"] = device.cpu_affinity;
    devices.append(row);
  }
  facts["devices"] = devices;
  return facts;
}

nb::dict core_facts(const device::CoreState& core) {
  nb::dict row;
  row["index"] = core.index;
  row["elapsed_ns"] = core.elapsed_ns;
  row["last_ns"] = core.last_ns;
  row["timed"] = core.timed;
  row["untimed"] = core.untimed;
  row["flops"] = core.flops;
  row["loads"] = core.loads;
  row["outcomes"] = std::vector<uint64_t>(std::begin(core.outcomes), std::end(core.outcomes));
  row["memory"] = std::vector<uint64_t>(std::begin(core.memory), std::end(core.memory));
  row["memory_peak"] = std::vector<uint64_t>(std::begin(core.memory_peak), std::end(core.memory_peak));
  return row;
}

// Of device::list_processes(). `watch_s`: asks for predicted times, so long from now.
nb::list device_processes(double watch_s) {
  const device::Listing listing = device::list_processes(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(watch_s)));
  nb::list rows;
  for (const device::Process& process : listing.processes) {
    nb::dict row;
    row["pid"] = process.pid;
    row["is_tool"] = process.is_tool;
    row["tag"] = process.tag;
    row["command"] = process.command;
    row["instance"] = process.instance;
    nb::list cores;
    for (const device::CoreState& core : process.cores) cores.append(core_facts(core));
    row["cores"] = cores;
    rows.append(row);
  }
  return rows;
}

// Of the machine that `instance`, or the environment, names; `config`: text, or "" for all groups.
std::unique_ptr<monitor::Monitor> make_monitor(const std::string& instance, const std::string& config,
                                               const std::string& name) {
  return std::make_unique<monitor::Monitor>(
      machine_named(instance),
      name.empty() ? monitor::default_monitor_config() : monitor::parse_monitor_config(config, name));
}

nlohmann::ordered_json report_of(const std::string& text) {
  auto report = nlohmann::ordered_json::parse(text, nullptr, false);
  if (report.is_discarded())
    throw Fault(FaultKind::kInput, "tools.top", "no report of neuron-monitor: no JSON");
  return report;
}

// neuron-top's view of the machine that `instance`, or the environment, names.
struct MachineView {
  monitor::Machine machine;
  monitor::TopView view;
};

std::vector<std::vector<std::pair<std::string, int>>> screen(MachineView& self, const std::string& report,
                                                             const std::string& title, size_t width,
                                                             size_t height) {
  std::vector<std::vector<std::pair<std::string, int>>> lines;
  for (const monitor::TopLine& line :
       self.view.screen(report_of(report), self.machine, title, width, height)) {
    auto& pieces = lines.emplace_back();
    for (const monitor::TopPiece& piece : line)
      pieces.emplace_back(piece.text, static_cast<int>(piece.style));
  }
  return lines;
}

}  // namespace

void bind_tools(nb::module_& module) {
  module.def("neuron_ls", &neuron_ls, "instance"_a, "lnc"_a, "words"_a, "processes"_a);
  nb::class_<monitor::Monitor>(module, "Monitor")
      .def(nb::new_(&make_monitor), "instance"_a, "config"_a, "name"_a)
      .def("wait_s", &monitor::Monitor::wait_s)
      .def("report", &monitor::Monitor::report);
  nb::class_<MachineView>(module, "TopView", "What neuron-top shows of a machine, and what its keys change.")
      .def(
          "__init__",
          [](MachineView* self, const std::string& instance) {
            new (self) MachineView{machine_named(instance), {}};
          },
          "instance"_a)
      .def("screen", &screen, "report"_a, "title"_a, "width"_a, "height"_a,
           "`height` lines of at most `width` characters: (text, style) of their pieces.")
      .def(
          "press",
          [](MachineView& self, const std::string& key, const std::string& report) {
            return self.view.press(key, report_of(report), self.machine);
          },
          "key"_a, "report"_a, "Takes a key, False to end; report: what is on the screen.")
      .def_prop_ro("tab", [](const MachineView& self) { return self.view.tab(); })
      .def_prop_ro("row", [](const MachineView& self) { return self.view.row(); });
  module.def("top_config", &monitor::top_config, "What neuron-top has the monitor collect.");
  module.def("top_size_text", &monitor::top_size_text, "bytes"_a.none());
  module.def("machine_facts", &machine_facts, "instance"_a = "");
  module.def("device_processes", &device_processes, "watch_s"_a = 0.0);
  module.def("hold_as_tool", [] { device::hold({"", {}, 1, true}); });
  module.def("leave_machine", &device::leave);
}

}  // namespace opentrn::python
