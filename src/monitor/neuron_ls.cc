#include "monitor/neuron_ls.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace opentrn::monitor {

namespace {

constexpr size_t kCommand = 40, kCommandWide = 80;
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr auto kUnknownCell = "NA";

using Row = std::vector<std::string>;

struct Column {
  std::string first, second;  // the header's lines
};

std::string cut(const std::string& text, size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

// Processes of one device: those that hold one of its cores, and with --show-all-procs tools, which look at
// all.
std::vector<const device::Process*> processes_on(const Device& device,
                                                 std::span<const device::Process> processes, bool all) {
  std::vector<const device::Process*> found;
  for (const device::Process& process : processes) {
    const bool holds =
        process.is_tool ? all : std::any_of(device.cores.begin(), device.cores.end(), [&](int core) {
          return process.holds(static_cast<uint64_t>(core));
        });
    if (holds) found.push_back(&process);
  }
  return found;
}

// "0-3", or "0" of one.
std::string range_of(const std::vector<int>& cores) {
  return cores.size() == 1 ? std::to_string(cores[0]) : fmt::format("{}-{}", cores.front(), cores.back());
}

std::string or_unknown(const std::string& text) { return text.empty() ? kUnknownCell : text; }

// Without the PCI domain, as the guide's samples of processes have it.
std::string short_bdf(const std::string& bdf) {
  const size_t colon = bdf.find(':');
  return bdf.find(':', colon + 1) == std::string::npos ? bdf : bdf.substr(colon + 1);
}

// A table of boxes: the header centred, cells to the left. `groups`: rows that belong together; a line parts
// them where one has more than one row.
std::string boxes(const std::vector<Column>& columns, const std::vector<std::vector<Row>>& groups) {
  std::vector<size_t> widths;
  for (const Column& column : columns) widths.push_back(std::max(column.first.size(), column.second.size()));
  bool parted = false;
  for (const auto& group : groups) {
    parted = parted || group.size() > 1;
    for (const Row& row : group)
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string line = "+";
  for (const size_t width : widths) line += std::string(width + 2, '-') + "+";
  line += "\n";
  const auto header = [&](auto member) {
    std::string text = "|";
    for (size_t i = 0; i < columns.size(); ++i) {
      const std::string& word = columns[i].*member;
      // What does not divide goes to the right of the word.
      const size_t spare = widths[i] - word.size(), left = spare / 2;
      text += fmt::format(" {}{}{} |", std::string(left, ' '), word, std::string(spare - left, ' '));
    }
    return text + "\n";
  };
  std::string out = line + header(&Column::first) + header(&Column::second) + line;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const Row& row : groups[g]) {
      out += "|";
      for (size_t i = 0; i < row.size(); ++i) out += fmt::format(" {:<{}} |", row[i], widths[i]);
      out += "\n";
    }
    if (parted || g + 1 == groups.size()) out += line;
  }
  return out;
}

struct Layout {
  bool ids = false, host = false, processes = false;
};

Layout layout_of(const LsOptions& options, bool any_process) {
  const bool plain = !options.wide && !options.all && !options.topology;
  return {plain, plain, !options.topology && any_process};
}

std::vector<Column> columns_of(const Layout& layout) {
  std::vector<Column> columns{{"NEURON", "DEVICE"}, {"NEURON", "CORES"}};
  if (layout.ids) columns.push_back({"NEURON", "CORE IDS"});
  columns.insert(columns.end(), {{"NEURON", "MEMORY"}, {"CONNECTED", "DEVICES"}, {"PCI", "BDF"}});
  if (layout.host) columns.insert(columns.end(), {{"CPU", "AFFINITY"}, {"NUMA", "NODE"}});
  if (layout.processes) columns.insert(columns.end(), {{"PID", ""}, {"COMMAND", ""}, {"RUNTIME", "VERSION"}});
  return columns;
}

Row device_row(const Machine& machine, const Device& device, const Layout& layout) {
  Row row{std::to_string(device.index), std::to_string(device.cores.size())};
  if (layout.ids) row.push_back(range_of(device.cores));
  row.push_back(fmt::format("{:.0f} GB", static_cast<double>(machine.memory_bytes) / kGiB));
  row.push_back(fmt::format("{}", fmt::join(device.connected_to, ", ")));
  row.push_back(or_unknown(layout.host ? device.bdf : short_bdf(device.bdf)));
  if (layout.host) {
    row.push_back(or_unknown(device.cpu_affinity));
    row.push_back(or_unknown(device.numa_node));
  }
  return row;
}

std::string header_lines(const Machine& machine) {
  std::string text =
      fmt::format("instance-type: {}\ninstance-id: {}\n", machine.instance_type, machine.instance_id);
  if (machine.has_logical_cores)
    text += fmt::format("logical-neuroncore-config: {}\n", machine.physical_cores_per_core);
  return text;
}

}  // namespace

std::string ls_text(const Machine& machine, std::span<const device::Process> processes,
                    const LsOptions& options) {
  std::vector<std::vector<const device::Process*>> held;
  bool any = false;
  for (const Device& device : machine.devices) {
    held.push_back(processes_on(device, processes, options.all));
    any = any || !held.back().empty();
  }
  const Layout layout = layout_of(options, any);
  std::vector<std::vector<Row>> groups;
  for (const Device& device : machine.devices) {
    std::vector<Row> rows{device_row(machine, device, layout)};
    if (layout.processes) {
      const size_t blanks = rows[0].size();
      const auto& here = held[static_cast<size_t>(device.index)];
      for (size_t i = 0; i < here.size(); ++i) {
        if (i > 0) rows.emplace_back(blanks);
        rows.back().push_back(std::to_string(here[i]->pid));
        rows.back().push_back(cut(here[i]->command, options.wide ? kCommandWide : kCommand));
        rows.back().push_back(here[i]->runtime_version);
      }
      if (here.empty()) rows[0].resize(blanks + 3);
    }
    groups.push_back(std::move(rows));
  }
  std::string text = header_lines(machine) + boxes(columns_of(layout), groups);
  if (options.topology) text += "\n\n" + topology_text(machine);
  return text;
}

std::string ls_json(const Machine& machine, std::span<const device::Process> processes,
                    const LsOptions& options) {
  auto list = nlohmann::ordered_json::array();
  for (const Device& device : machine.devices) {
    auto running = nlohmann::ordered_json::array();
    for (const device::Process* process : processes_on(device, processes, options.all))
      running.push_back({{"pid", process->pid},
                         {"command", cut(process->command, options.wide ? kCommandWide : kCommand)},
                         {"neuron_runtime_version", process->runtime_version}});
    nlohmann::ordered_json entry{{"neuron_device", device.index},       {"bdf", short_bdf(device.bdf)},
                                 {"cpu_affinity", device.cpu_affinity}, {"numa_node", device.numa_node},
                                 {"connected_to", device.connected_to}, {"nc_count", device.cores.size()}};
    if (machine.has_logical_cores) entry["logical_neuroncore_config"] = machine.physical_cores_per_core;
    entry["memory_size"] = machine.memory_bytes;
    entry["neuroncore_ids"] = device.cores;
    entry["neuron_processes"] = std::move(running);
    list.push_back(std::move(entry));
  }
  return list.dump(4, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string topology_text(const Machine& machine) {
  if (!machine.is_torus && !machine.is_ring)
    return "Neuron Device Topology: no torus; CONNECTED DEVICES lists the links\n";
  const int columns = machine.is_torus ? machine.columns : static_cast<int>(machine.devices.size());
  const int rows = machine.is_torus ? machine.rows : 1;
  const auto repeat = [&](const char* text) {
    std::string line = "      ";
    for (int i = 0; i < columns; ++i)
      line += fmt::format("{}{}", text, i + 1 < columns ? "        " : "      ");
    return line + "\n";
  };
  std::string out = "Neuron Device Topology\n";
  if (machine.is_torus) out += repeat("*") + repeat("│") + repeat("▼");
  for (int row = 0; row < rows; ++row) {
    if (row > 0) out += repeat("▲") + repeat("│") + repeat("▼");
    out += "*––►";
    for (int column = 0; column < columns; ++column)
      out += fmt::format("[{:<3}]◄––", fmt::format("{:>2}", row * columns + column)) +
             (column + 1 < columns ? "►" : "*");
    out += "\n";
  }
  if (machine.is_torus) out += repeat("▲") + repeat("│") + repeat("*");
  return out + "\nLegend:\n\n        *––► = Wrap-around link\n";
}

}  // namespace opentrn::monitor
