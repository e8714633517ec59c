// Printers of AWS's tools, for conformance tests that hand over the processes of a document.
#include "python/tools_bindings.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <tuple>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "cli/machine_options.h"
#include "device/presence.h"
#include "device/registry.h"
#include "monitor/companion_metrics.h"
#include "monitor/device_tree.h"
#include "monitor/explorer_session.h"
#include "monitor/explorer_tables.h"
#include "monitor/installation.h"
#include "monitor/machine.h"
#include "monitor/monitor.h"
#include "monitor/neuron_ls.h"
#include "monitor/neuron_top.h"
#include "monitor/node_sets.h"
#include "monitor/plugin_resource.h"
#include "monitor/pods_info.h"
#include "monitor/resource_slices.h"
#include "python/unlocked.h"

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

// JSON text of explorer_tables().
std::string tables_of_trace(const std::filesystem::path& path, const std::string& version) {
  const Unlocked unlocked;
  return monitor::explorer_tables(monitor::read_explorer_file(path), path.string(), version).dump(1);
}

std::string summary_of_trace(const std::filesystem::path& path, const std::string& version) {
  const Unlocked unlocked;
  return monitor::explorer_summary_text(
      monitor::explorer_tables(monitor::read_explorer_file(path), path.string(), version));
}

std::unique_ptr<monitor::Session> make_session(const std::filesystem::path& folder, const std::string& cores,
                                               const std::set<std::string>& types,
                                               const std::set<std::string>& instances, bool without_system,
                                               bool without_device) {
  return std::make_unique<monitor::Session>(
      folder, monitor::SessionFilters{monitor::session_cores(cores), types, instances, without_system,
                                      without_device});
}

// The driver's files of the machine that `instance`, or the environment, names. `watch_s`: as of
// device_processes().
void write_device_tree(const std::filesystem::path& root, const std::string& instance, double watch_s) {
  const Unlocked unlocked;
  const device::Listing listing = device::list_processes(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(watch_s)));
  monitor::write_device_tree(root, monitor::device_files(machine_named(instance), listing.processes));
}

nlohmann::ordered_json report_for_companion(const std::string& text) {
  auto report = nlohmann::ordered_json::parse(text, nullptr, false);
  if (report.is_discarded()) throw Fault(FaultKind::kInput, "tools.report", "a report that is not JSON");
  return report;
}

void bind_companions(nb::module_& module) {
  using Row = std::tuple<std::string, monitor::Labels, double>;
  nb::class_<monitor::MetricCollector>(
      module, "MetricCollector", "What Prometheus scrapes of reports (src/monitor/companion_metrics.h).")
      .def(nb::init<>())
      .def(
          "take",
          [](monitor::MetricCollector& self, const std::string& report, double now_s) {
            self.take(report_for_companion(report), now_s);
          },
          "report"_a, "now_s"_a, "Takes a report, as JSON; InputError for what is none.")
      .def(
          "families",
          [](const monitor::MetricCollector& self) {
            std::vector<std::tuple<std::string, std::string, bool, std::vector<Row>>> families;
            for (const auto& family : self.families()) {
              std::vector<Row> rows;
              for (const auto& row : family.rows) rows.emplace_back(row.name, row.labels, row.value);
              families.emplace_back(family.name, family.documentation, family.is_counter, std::move(rows));
            }
            return families;
          },
          "(name, documentation, whether it is a counter, [(name, labels, value)]) of each.");
  module.def(
      "statsd_datagrams",
      [](const std::string& report, const std::string& prefix, bool with_tags) {
        return monitor::statsd_datagrams(report_for_companion(report), prefix, with_tags);
      },
      "report"_a, "prefix"_a, "with_tags"_a, "Datagrams of a report, which is JSON.");
  module.def(
      "cloudwatch_data",
      [](const std::string& report) {
        std::vector<
            std::tuple<std::string, std::string, std::vector<std::pair<std::string, std::string>>, double>>
            rows;
        for (const monitor::MetricDatum& datum : monitor::cloudwatch_data(report_for_companion(report)))
          rows.emplace_back(datum.name, datum.unit, datum.dimensions, datum.value);
        return rows;
      },
      "report"_a, "(name, unit, [(dimension, value)], value) of a report, which is JSON.");
}

nlohmann::json json_in(const std::string& text) {
  auto value = nlohmann::json::parse(text, nullptr, false);
  if (value.is_discarded()) throw Fault(FaultKind::kInput, "tools.kubernetes", "this is not JSON");
  return value;
}

void bind_kubernetes(nb::module_& module) {
  using Ids = std::vector<std::string>;
  using monitor::PluginResource;
  nb::class_<PluginResource>(
      module, "PluginResource",
      "Devices or cores of a node for its device plug-in (src/monitor/plugin_resource.h).")
      .def(nb::new_([](const std::string& instance, const std::string& kind) {
             return std::make_unique<PluginResource>(machine_named(instance), kind == "neuroncore");
           }),
           "instance"_a, "kind"_a)
      .def(
          "listing",
          [](const PluginResource& self, const std::set<int>& lost) {
            std::vector<std::tuple<std::string, bool, std::optional<int>>> rows;
            for (const auto& row : self.listing(lost)) rows.emplace_back(row.id, row.healthy, row.numa_node);
            return rows;
          },
          "lost"_a,
          "(ID, whether it is healthy, NUMA node) of each; devices that are lost make theirs unhealthy.")
      .def(
          "preferred",
          [](const PluginResource& self, const Ids& available, const Ids& must, int size) {
            return self.preferred(available, must, size);
          },
          "available"_a, "must"_a, "size"_a,
          "A contiguous set; without one the lowest numbers. InputError where it cannot be.")
      .def(
          "allocation",
          [](const PluginResource& self, const Ids& ids, const std::set<int>& lost) {
            const auto made = self.allocation(ids, lost);
            return std::tuple(made.devices, made.variables);
          },
          "ids"_a, "lost"_a,
          "(devices, variables of a container). InputError for IDs that there are not, and for lost "
          "devices.");
  nb::class_<monitor::Machine>(module, "NodeMachine",
                               "A simulated node, for Kubernetes (src/monitor/node_sets.h).")
      .def(nb::new_([](const std::string& instance) {
             return std::make_unique<monitor::Machine>(machine_named(instance));
           }),
           "instance"_a = "")
      .def(
          "pods_info",
          [](const monitor::Machine& self,
             const std::vector<std::tuple<std::string, std::string, std::string, std::string, std::string>>&
                 rows,
             double period) {
            std::vector<monitor::HeldDevice> held;
            for (const auto& [resource, id, pod, name_space, container] : rows)
              held.push_back({resource, id, pod, name_space, container});
            return monitor::pods_info(self, held, period).dump();
          },
          "held"_a, "period"_a,
          "The object neuron_k8s_info as JSON, of (resource, ID, pod, namespace, container) of each device.")
      .def(
          "annotations",
          [](const monitor::Machine& self, const std::string& pod, const std::string& others) {
            const auto placed = monitor::place(self, monitor::device_requests(json_in(pod)),
                                               monitor::cores_of_pods(self, json_in(others)));
            return monitor::annotations_of(self, placed).dump();
          },
          "pod"_a, "others"_a,
          "Of a pod beside the others on the node, as JSON. InputError where no contiguous set is free.")
      .def(
          "resource_slices",
          [](const monitor::Machine& self, const std::string& node, const std::string& driver,
             const std::string& ultraserver) {
            return monitor::resource_slices(self, node, driver, ultraserver).dump();
          },
          "node"_a, "driver"_a = "", "ultraserver"_a = "", "ResourceSlice objects, as JSON.")
      .def(
          "container_of",
          [](const monitor::Machine& self, const std::string& allocation) {
            const auto [variables, servers] =
                monitor::container_of_allocation(nlohmann::ordered_json(json_in(allocation)), self);
            return nb::make_tuple(variables.dump(), servers);
          },
          "allocation"_a,
          "(variables as JSON, servers of an UltraServer or None) of an allocation of a claim.");
  module.def(
      "wants_devices", [](const std::string& pod) { return !monitor::device_requests(json_in(pod)).empty(); },
      "pod"_a, "Whether a pod, as JSON, asks for devices or cores. InputError for what is not a pod.");
  module.def("dra_device_class", [] { return monitor::dra_device_class().dump(); });
  module.def(
      "allocate_claim",
      [](const std::string& claim, const std::string& published,
         const std::vector<std::pair<std::string, std::string>>& taken) {
        return monitor::allocate_claim(nlohmann::ordered_json(json_in(claim)),
                                       nlohmann::ordered_json(json_in(published)),
                                       {taken.begin(), taken.end()})
            .dump();
      },
      "claim"_a, "published"_a, "taken"_a = std::vector<std::pair<std::string, std::string>>{},
      "The allocation of a claim's spec, as JSON. taken: (pool, device) of others.");
  module.def("ranges_text", &monitor::ranges_text, "numbers"_a, "[0, 1, 2, 5]: \"0-2,5\".");
}

}  // namespace

void bind_tools(nb::module_& module) {
  bind_kubernetes(module);
  bind_companions(module);
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
  module.def("explorer_tables", &tables_of_trace, "path"_a, "version"_a,
             "Rows by table of a trace, as JSON (src/monitor/explorer_tables.h).");
  module.def("explorer_summary", &summary_of_trace, "path"_a, "version"_a, "The same in lines.");
  module.def("session_folders", &monitor::session_folders, "folder"_a,
             "The folders in it that neuron-explorer inspect wrote.");
  nb::class_<monitor::Session>(module, "ExplorerSession",
                               "Folders of neuron-explorer inspect (src/monitor/explorer_session.h).")
      .def(nb::new_(&make_session), "folder"_a, "cores"_a = "", "types"_a = std::set<std::string>{},
           "instances"_a = std::set<std::string>{}, "without_system"_a = false, "without_device"_a = false)
      .def(
          "system_rows", [](const monitor::Session& self) { return self.system_rows().dump(); },
          "SystemProfileEvents, as JSON.")
      .def(
          "system_profile",
          [](const monitor::Session& self) {
            return nlohmann::ordered_json{{"is_simulation", true},
                                          {"events", self.system_rows()},
                                          {"mem_usage", self.host_rows("host_mem.json", "mem_usage")},
                                          {"cpu_util", self.host_rows("cpu_util.json", "cpu_util")}}
                .dump(1);
          },
          "Events and use of the host, as JSON.")
      .def(
          "perfetto",
          [](const monitor::Session& self, const std::string& primary, const std::string& secondary) {
            return self
                .perfetto(monitor::session_groups(primary, "--system-trace-primary-group"),
                          monitor::session_groups(secondary, "--system-trace-secondary-group"))
                .dump();
          },
          "primary"_a, "secondary"_a, "A trace in Chrome's JSON.")
      .def(
          "summary",
          [](const monitor::Session& self, const std::string& version, bool as_text) {
            const nlohmann::ordered_json summary = self.summary(version);
            return as_text ? monitor::session_summary_text(summary) : summary.dump(1) + "\n";
          },
          "version"_a, "as_text"_a, "What summary-json and summary-text print.")
      .def_prop_ro(
          "models", [](const monitor::Session& self) { return self.models(); },
          "(number of the model and of its core, its trace) of each.");
  module.def("top_config", &monitor::top_config, "What neuron-top has the monitor collect.");
  module.def("top_size_text", &monitor::top_size_text, "bytes"_a.none());
  using Path = std::filesystem::path;
  module.def(
      "install_files",
      [](const Path& prefix, const std::vector<std::tuple<std::string, nb::bytes, bool>>& rows) {
        std::vector<monitor::InstalledFile> files;
        for (const auto& [name, content, is_link] : rows)
          files.push_back({name, {content.c_str(), content.size()}, is_link});
        return monitor::install(prefix, files);
      },
      "prefix"_a, "files"_a,
      "Writes (name below the prefix, content or where it leads, whether it is a link); the paths. "
      "InputError "
      "`tools.install` where a file is there that this did not write.");
  module.def(
      "uninstall_files",
      [](const Path& prefix) {
        const monitor::Removed made = monitor::uninstall(prefix);
        return std::tuple(made.removed, made.left);
      },
      "prefix"_a, "(removed, changed since and left) of what install_files() wrote.");
  module.def("machine_facts", &machine_facts, "instance"_a = "");
  module.def("device_processes", &device_processes, "watch_s"_a = 0.0);
  module.def("write_device_tree", &write_device_tree, "root"_a, "instance"_a, "watch_s"_a = 0.0,
             "Writes the files of Neuron's driver; InputError for a folder that holds something else.");
  module.def("remove_device_tree", &monitor::remove_device_tree, "root"_a);
  module.def("hold_as_tool", [] { device::hold({"", {}, 1, true}); });
}

}  // namespace opentrn::python
