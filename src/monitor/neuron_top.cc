#include "monitor/neuron_top.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace opentrn::monitor {

using Json = nlohmann::ordered_json;

namespace {

using NamedKey = std::pair<const char*, const char*>;  // what the screen calls it, and the report
constexpr std::array<NamedKey, 4> kHostParts = {{{"Tensors", "tensors"},
                                                 {"Constants", "constants"},
                                                 {"DMA Buffers", "dma_buffers"},
                                                 {"App. Memory", "application_memory"}}};
constexpr std::array<NamedKey, 5> kDeviceParts = {{{"Tensors", "tensors"},
                                                   {"Constants", "constants"},
                                                   {"Model Code", "model_code"},
                                                   {"Runtime Memory", "runtime_memory"},
                                                   {"Model Scratchpad", "model_shared_scratchpad"}}};
constexpr const char* kKeyHelp =
    "q: quit   F: percent/teraflops   a/d, 1-9: process   up/down: tree   left/right: fold   x: fold all";
constexpr size_t kModelIdWidth = 10, kHostWidth = 14, kDeviceWidth = 15;
// Columns behind the names of the tree: model, host and device, and one for the edge.
constexpr size_t kTreeColumns = kModelIdWidth + kHostWidth + kDeviceWidth + 1;
// Lines of all sections but the cores' and the tree.
constexpr size_t kFixedLines = 14;

// The value behind a path of keys; null where any of them is missing.
const Json& value_at(const Json& from, std::initializer_list<const char*> path) {
  static const Json nothing;
  const Json* at = &from;
  for (const char* key : path) {
    if (!at->is_object() || !at->contains(key)) return nothing;
    at = &(*at)[key];
  }
  return *at;
}

std::optional<double> number_at(const Json& from, std::initializer_list<const char*> path) {
  const Json& found = value_at(from, path);
  return found.is_number() ? std::optional(found.get<double>()) : std::nullopt;
}

std::string text_at(const Json& from, const char* key, const std::string& otherwise) {
  const Json& found = value_at(from, {key});
  if (found.is_null()) return otherwise;
  return found.is_string() ? found.get<std::string>() : found.dump();
}

// Of what is known; nothing where nothing is.
void add_known(std::optional<double>& sum, const std::optional<double>& value) {
  if (value) sum = sum.value_or(0) + *value;
}

std::string padded_left(const std::string& text, size_t width) {
  const size_t length = character_count(text);
  return length < width ? std::string(width - length, ' ') + text : text;
}

std::string padded_right(const std::string& text, size_t width, char with = ' ') {
  const size_t length = character_count(text);
  return length < width ? text + std::string(width - length, with) : text;
}

// The first `width` characters.
std::string leading(const std::string& text, size_t width) {
  size_t at = 0;
  for (size_t count = 0; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) continue;
    if (count++ == width) break;
  }
  return text.substr(0, at);
}

std::string bar_text(const std::optional<double>& share, size_t width) {
  const auto filled = static_cast<size_t>(
      std::nearbyint(std::clamp(share.value_or(0), 0.0, 1.0) * static_cast<double>(width)));
  return "[" + std::string(filled, '|') + std::string(width - filled, ' ') + "]";
}

TopLine title_line(const std::string& text, size_t width) {
  return {{padded_right(text, width, '-'), TopStyle::kTitle}};
}

using Runtimes = std::vector<const Json*>;

Runtimes runtimes_of(const Json& report) {
  Runtimes found;
  const Json& rows = value_at(report, {"neuron_runtime_data"});
  if (rows.is_array())
    for (const Json& row : rows) found.push_back(&row);
  return found;
}

struct CoreUse {
  double percent = 0, flops = 0;
};

int number_of(const std::string& core) { return std::atoi(core.c_str()); }

// By core, the sum over processes.
std::map<int, CoreUse> uses_of(const Runtimes& runtimes) {
  std::map<int, CoreUse> total;
  for (const Json* runtime : runtimes) {
    const Json& rows = value_at(*runtime, {"report", "neuroncore_counters", "neuroncores_in_use"});
    if (!rows.is_object()) continue;
    for (const auto& [core, row] : rows.items()) {
      CoreUse& use = total[number_of(core)];
      use.percent += number_at(row, {"neuroncore_utilization"}).value_or(0);
      use.flops += number_at(row, {"flops"}).value_or(0);
    }
  }
  return total;
}

void add_core(TopLine& line, int core, const CoreUse* use, bool shows_flops, double peak) {
  std::optional<double> share;
  std::string text = "-";
  if (use != nullptr) {
    share = !shows_flops ? use->percent / 100 : peak > 0 ? use->flops / peak : 0.0;
    text = shows_flops ? fmt::format("{:.2f}", use->flops / 1e12) : fmt::format("{:.1f}%", use->percent);
  }
  line.push_back({fmt::format(" NC{:<3}", core), TopStyle::kPlain});
  line.push_back({bar_text(share, 8), TopStyle::kBar});
  line.push_back({fmt::format("{:>8}", text), TopStyle::kPlain});
}

// At most `room` lines; devices that no process holds are counted and not drawn.
void add_core_section(std::vector<TopLine>& lines, const Machine& machine, const Runtimes& runtimes,
                      bool shows_flops, size_t width, size_t room) {
  const std::map<int, CoreUse> uses = uses_of(runtimes);
  std::vector<TopLine> section{
      title_line(fmt::format(" NeuronCore v{}{} {} ", machine.generation,
                             machine.physical_cores_per_core == 2 ? "d" : "",
                             shows_flops ? "teraflops" : "utilisation of simulated time"),
                 width)};
  double peak = 0;
  for (const auto& [core, use] : uses) peak = std::max(peak, use.flops);
  const size_t per_line = std::max<size_t>(1, (width - 6) / 24);
  size_t hidden = 0;
  for (const Device& device : machine.devices) {
    if (std::ranges::none_of(device.cores, [&](int core) { return uses.contains(core); })) {
      ++hidden;
      continue;
    }
    for (size_t begin = 0; begin < device.cores.size(); begin += per_line) {
      TopLine line{{begin == 0 ? fmt::format("ND{:<3}", device.index) : "     ", TopStyle::kPlain}};
      for (size_t i = begin; i < std::min(begin + per_line, device.cores.size()); ++i) {
        const auto use = uses.find(device.cores[i]);
        add_core(line, device.cores[i], use == uses.end() ? nullptr : &use->second, shows_flops, peak);
      }
      section.push_back(std::move(line));
    }
  }
  if (section.size() > room) {
    const size_t left = section.size() - room + 1;
    section.resize(room - 1);
    section.push_back({{fmt::format(" {} more lines", left), TopStyle::kDim}});
  } else if (hidden > 0) {
    section.push_back(
        {{fmt::format(" {} of {} devices are held by no process", hidden, machine.devices.size()),
          TopStyle::kDim}});
  }
  lines.insert(lines.end(), section.begin(), section.end());
}

TopLine vcpu_line(const char* name, const std::optional<double>& user, const std::optional<double>& system) {
  if (!user || !system) return {{fmt::format(" {:<19} -", name), TopStyle::kPlain}};
  return {{fmt::format(" {:<19} ", name), TopStyle::kPlain},
          {bar_text((*user + *system) / 100, 20), TopStyle::kBar},
          {fmt::format(" user {:5.1f}%  system {:5.1f}%", *user, *system), TopStyle::kPlain}};
}

void add_vcpu_section(std::vector<TopLine>& lines, const Json& report, const Runtimes& runtimes,
                      size_t width) {
  const Json& average = value_at(report, {"system_data", "vcpu_usage", "average_usage"});
  std::optional<double> user, system;
  for (const Json* runtime : runtimes) {
    const Json& usage = value_at(*runtime, {"report", "neuron_runtime_vcpu_usage", "vcpu_usage"});
    add_known(user, number_at(usage, {"user"}));
    add_known(system, number_at(usage, {"system"}));
  }
  lines.push_back(title_line(" VCPU utilisation of this host ", width));
  lines.push_back(
      vcpu_line("System vCPU usage", number_at(average, {"user"}), number_at(average, {"system"})));
  lines.push_back(vcpu_line("Runtime vCPU usage", user, system));
}

using NamedBytes = std::vector<std::pair<const char*, std::optional<double>>>;

void add_memory(std::vector<TopLine>& lines, const char* title, const std::optional<double>& total,
                const NamedBytes& parts, size_t width) {
  TopLine line{{fmt::format(" {:<19} Total {:>9}", title, top_size_text(total)), TopStyle::kPlain}};
  const auto length = [&] {
    size_t sum = 0;
    for (const TopPiece& piece : line) sum += character_count(piece.text);
    return sum;
  };
  for (const auto& [name, bytes] : parts) {
    const std::string text = fmt::format("  {} {}", name, top_size_text(bytes));
    if (length() + text.size() > width) {
      lines.push_back(std::move(line));
      line = {{std::string(36, ' '), TopStyle::kPlain}};
    }
    line.push_back({text, TopStyle::kDim});
  }
  lines.push_back(std::move(line));
}

void add_memory_section(std::vector<TopLine>& lines, const Runtimes& runtimes, size_t width) {
  std::optional<double> host, device;
  NamedBytes host_parts, device_parts;
  for (const auto& [name, key] : kHostParts) host_parts.emplace_back(name, std::nullopt);
  for (const auto& [name, key] : kDeviceParts) device_parts.emplace_back(name, std::nullopt);
  for (const Json* runtime : runtimes) {
    const Json& used = value_at(*runtime, {"report", "memory_used", "neuron_runtime_used_bytes"});
    add_known(host, number_at(used, {"host"}));
    add_known(device, number_at(used, {"neuron_device"}));
    const Json& of_host = value_at(used, {"usage_breakdown", "host"});
    for (size_t i = 0; i < kHostParts.size(); ++i)
      add_known(host_parts[i].second, number_at(of_host, {kHostParts[i].second}));
    const Json& cores = value_at(used, {"usage_breakdown", "neuroncore_memory_usage"});
    if (!cores.is_object()) continue;
    for (const Json& core : cores)
      for (size_t i = 0; i < kDeviceParts.size(); ++i)
        add_known(device_parts[i].second, number_at(core, {kDeviceParts[i].second}));
  }
  lines.push_back(title_line(" Memory usage summary ", width));
  add_memory(lines, "Host Used Memory", host, host_parts, width);
  add_memory(lines, "Device Used Memory", device, device_parts, width);
}

struct MemoryNode {
  std::string key, name, model_id;
  std::optional<double> host, device;
  std::vector<MemoryNode> children;
};

// Devices, their cores, and on them models and what belongs to no model.
class MemoryTree {
 public:
  MemoryTree(const Runtimes& runtimes, const Machine& machine) {
    for (const Device& device : machine.devices)
      for (const int core : device.cores) device_of_[core] = device.index;
    for (const Json* runtime : runtimes) {
      const Json& used = value_at(*runtime, {"report", "memory_used"});
      const Json& rows =
          value_at(used, {"neuron_runtime_used_bytes", "usage_breakdown", "neuroncore_memory_usage"});
      if (rows.is_object())
        for (const auto& [core, row] : rows.items())
          add_parts(node_of(number_of(core)), number_of(core), row);
      const Json& models = value_at(used, {"loaded_models"});
      if (models.is_array())
        for (const Json& model : models) add_model(model);
    }
  }

  std::vector<MemoryNode> devices() const {
    std::vector<MemoryNode> found;
    for (const auto& [number, cores] : cores_of_) {
      MemoryNode device{.key = fmt::format("d{}", number),
                        .name = {},
                        .model_id = {},
                        .host = {},
                        .device = {},
                        .children = {}};
      device.name = number >= 0 ? fmt::format("Neuron Device {}", number) : "no device of this machine";
      for (const int core : cores) {
        device.children.push_back(cores_.at(core));
        add_known(device.device, cores_.at(core).device);
      }
      found.push_back(std::move(device));
    }
    return found;
  }

 private:
  MemoryNode& node_of(int core) {
    const auto [at, is_new] = cores_.try_emplace(core);
    if (is_new) {
      const auto device = device_of_.find(core);
      cores_of_[device == device_of_.end() ? -1 : device->second].push_back(core);
      at->second.key = fmt::format("c{}", core);
      at->second.name = fmt::format("NeuronCore {}", core);
    }
    return at->second;
  }

  static void add_parts(MemoryNode& node, int core, const Json& row) {
    for (const auto& [name, key] : kDeviceParts) {
      const std::optional<double> bytes = number_at(row, {key});
      add_known(node.device, bytes);
      if (bytes.value_or(0) != 0)
        node.children.push_back({.key = fmt::format("c{}{}", core, key),
                                 .name = name,
                                 .model_id = {},
                                 .host = {},
                                 .device = bytes,
                                 .children = {}});
    }
  }

  // Its constants are in the core's own row already: the core is not their sum.
  void add_model(const Json& model) {
    const Json& parts = value_at(model, {"subgraphs"});
    if (!parts.is_object()) return;
    for (const Json& part : parts) {
      const double index = number_at(part, {"neuroncore_index"}).value_or(-1);
      const auto core = index >= 0 && index < 1e6 ? cores_.find(static_cast<int>(index)) : cores_.end();
      if (core == cores_.end()) continue;
      core->second.children.push_back({.key = "m" + text_at(model, "model_id", ""),
                                       .name = "model " + text_at(model, "name", ""),
                                       .model_id = text_at(model, "model_id", ""),
                                       .host = number_at(part, {"memory_used_bytes", "host"}),
                                       .device = number_at(part, {"memory_used_bytes", "neuron_device"}),
                                       .children = {}});
    }
  }

  std::map<int, int> device_of_;
  std::map<int, MemoryNode> cores_;
  std::map<int, std::vector<int>> cores_of_;  // by device, in the order in which they come up
};

struct TreeRow {
  const MemoryNode* node;
  size_t depth;
};

void add_visible(const std::vector<MemoryNode>& nodes, size_t depth, const std::set<std::string>& folded,
                 std::vector<TreeRow>& rows) {
  for (const MemoryNode& node : nodes) {
    rows.push_back({&node, depth});
    if (!folded.contains(node.key)) add_visible(node.children, depth + 1, folded, rows);
  }
}

std::string tree_text(const TreeRow& row, bool is_folded, size_t width) {
  const MemoryNode& node = *row.node;
  const char* mark = node.children.empty() ? " " : is_folded ? "+" : "-";
  const std::string name = fmt::format(" {}{} {}", std::string(2 * row.depth, ' '), mark, node.name);
  return padded_right(leading(name, width - kTreeColumns), width - kTreeColumns) +
         padded_left(node.model_id, kModelIdWidth) + padded_left(top_size_text(node.host), kHostWidth) +
         padded_left(top_size_text(node.device), kDeviceWidth);
}

// At most `width` characters.
TopLine cut_to(const TopLine& line, size_t width) {
  TopLine out;
  for (const TopPiece& piece : line) {
    const std::string text = leading(piece.text, width);
    width -= character_count(text);
    out.push_back({text, piece.style});
  }
  return out;
}

// The processes of a tab, which is the last one where there are fewer.
Runtimes shown_runtimes(const Runtimes& all, size_t& tab) {
  tab = std::min(tab, all.size());
  return tab == 0 ? all : Runtimes{all[tab - 1]};
}

TopLine tab_line(const Runtimes& all, size_t tab) {
  TopLine bar{{" ", TopStyle::kPlain}};
  for (size_t number = 0; number <= all.size(); ++number) {
    const std::string name = number == 0 ? "all" : text_at(*all[number - 1], "neuron_runtime_tag", "");
    const bool is_chosen = number == tab;
    bar.push_back(
        {is_chosen ? fmt::format(">{}:{}< ", number + 1, name) : fmt::format(" {}:{}  ", number + 1, name),
         is_chosen ? TopStyle::kSelected : TopStyle::kPlain});
  }
  return bar;
}

}  // namespace

std::string top_config() {
  return R"({"period": "1s", "neuron_runtimes": [{"tag_filter": ".*", "metrics": [{"type": "neuroncore_counters"},
{"type": "memory_used"}, {"type": "neuron_runtime_vcpu_usage"}, {"type": "execution_stats"}]}],
"system_metrics": [{"type": "vcpu_usage"}, {"type": "memory_info"}]})";
}

std::string top_size_text(std::optional<double> bytes) {
  if (!bytes) return "-";
  if (std::abs(*bytes) < 1024) return fmt::format("{:.0f}B", *bytes);
  double count = *bytes / 1024;
  for (const char* unit : {"KB", "MB"}) {
    if (std::abs(count) < 1024) return fmt::format("{:.1f}{}", count, unit);
    count /= 1024;
  }
  return fmt::format("{:.1f}GB", count);
}

bool TopView::press(std::string_view key, const Json& report, const Machine& machine) {
  const Runtimes all = runtimes_of(report);
  const size_t tabs = all.size() + 1;
  const std::vector<MemoryNode> devices = MemoryTree(shown_runtimes(all, tab_), machine).devices();
  std::vector<TreeRow> rows;
  add_visible(devices, 0, folded_, rows);
  if (key == "q") return false;
  if (key == "f" || key == "F") {
    shows_flops_ = !shows_flops_;
  } else if (key == "a" || key == "d") {
    tab_ = (tab_ + (key == "d" ? 1 : tabs - 1)) % tabs;
    row_ = 0;
  } else if (key.size() == 1 && key[0] >= '1' && key[0] <= '9' && static_cast<size_t>(key[0] - '0') <= tabs) {
    tab_ = static_cast<size_t>(key[0] - '1');
    row_ = 0;
  } else if (key == "x") {
    std::set<std::string> parents;
    if (folded_.empty())
      for (const TreeRow& row : rows)
        if (!row.node->children.empty()) parents.insert(row.node->key);
    folded_ = std::move(parents);
  } else if (key == "up") {
    row_ -= row_ > 0 ? 1 : 0;
  } else if (key == "down") {
    row_ += row_ + 1 < rows.size() ? 1 : 0;
  } else if (key == "left" && row_ < rows.size()) {
    folded_.insert(rows[row_].node->key);
  } else if (key == "right" && row_ < rows.size()) {
    folded_.erase(rows[row_].node->key);
  }
  return true;
}

std::vector<TopLine> TopView::screen(const Json& report, const Machine& machine, const std::string& title,
                                     size_t width, size_t height) {
  // Narrower than the tree's columns there is no place for a name.
  const size_t drawn = std::max(width, kTreeColumns + 1);
  const Runtimes all = runtimes_of(report);
  const Runtimes runtimes = shown_runtimes(all, tab_);
  const std::string name = machine.instance_id.empty() ? "no instance id" : machine.instance_id;
  std::vector<TopLine> lines{
      {{padded_right(fmt::format(" {}   {}   {} (simulated)", title, name, machine.instance_type), drawn),
        TopStyle::kSelected}}};
  add_core_section(lines, machine, runtimes, shows_flops_, drawn,
                   height > kFixedLines + 2 ? height - kFixedLines : 2);
  add_vcpu_section(lines, report, runtimes, drawn);
  add_memory_section(lines, runtimes, drawn);
  lines.push_back({{padded_right(" Memory usage details ", drawn - kTreeColumns, '-') +
                        padded_left("Model ID", kModelIdWidth) + padded_left("Host", kHostWidth) +
                        padded_left("Device", kDeviceWidth) + "-",
                    TopStyle::kTitle}});
  const std::vector<MemoryNode> devices = MemoryTree(runtimes, machine).devices();
  std::vector<TreeRow> rows;
  add_visible(devices, 0, folded_, rows);
  row_ = std::min(row_, rows.empty() ? 0 : rows.size() - 1);
  const size_t body = height < 2 ? 0 : height - 2;
  const size_t room = body > lines.size() ? body - lines.size() : 0;
  const size_t first = room > 0 && row_ + 1 > room ? row_ + 1 - room : 0;
  for (size_t i = first; i < std::min(first + room, rows.size()); ++i)
    lines.push_back({{tree_text(rows[i], folded_.contains(rows[i].node->key), drawn),
                      i == row_ ? TopStyle::kSelected : TopStyle::kPlain}});
  if (rows.empty() && room > 0)
    lines.push_back({{" no process holds cores of this machine", TopStyle::kDim}});
  lines.resize(body, {{"", TopStyle::kPlain}});
  if (height > 1) lines.push_back(tab_line(all, tab_));
  if (height > 0) lines.push_back({{fmt::format(" {}", kKeyHelp), TopStyle::kDim}});
  for (TopLine& line : lines) line = cut_to(line, width);
  return lines;
}

}  // namespace opentrn::monitor
