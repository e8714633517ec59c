#include "monitor/plugin_resource.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/utf8.h"

namespace opentrn::monitor {

namespace {

constexpr size_t kIdsMax = 4096;

Fault plugin_fault(const std::string& message) {
  return Fault(FaultKind::kInput, "tools.kubernetes", message);
}

// Of digits alone; nothing for what a page of a machine leaves open.
std::optional<int> digits_of(const std::string& text) {
  if (text.empty() || text.size() > 6) return std::nullopt;
  int number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + (c - '0');
  }
  return number;
}

}  // namespace

PluginResource::PluginResource(Machine machine, bool of_cores)
    : machine_(std::move(machine)), of_cores_(of_cores) {
  for (const Device& device : machine_.devices) {
    if (!of_cores) devices_[device.index] = &device;
    for (const int core : device.cores)
      if (of_cores) devices_[core] = &device;
  }
}

std::vector<PluginResource::Row> PluginResource::listing(const std::set<int>& lost) const {
  std::vector<Row> rows;
  for (const auto& [number, device] : devices_)
    rows.push_back({std::to_string(number), !lost.contains(device->index), digits_of(device->numa_node)});
  return rows;
}

Numbers PluginResource::numbers(std::span<const std::string> ids) const {
  const std::set<std::string> different(ids.begin(), ids.end());
  if (ids.size() > kIdsMax || different.size() != ids.size())
    throw plugin_fault("an ID is named twice, or there are too many");
  Numbers found;
  for (const std::string& id : ids) {
    const std::optional<int> number = digits_of(id);
    // "07" is no ID of the node's.
    if (!number || !devices_.contains(*number) || std::to_string(*number) != id)
      throw plugin_fault(fmt::format("this node has no {} '{}'", of_cores_ ? "neuroncore" : "neuron",
                                     printable(id.substr(0, 40))));
    found.push_back(*number);
  }
  std::ranges::sort(found);
  return found;
}

std::vector<std::string> PluginResource::preferred(std::span<const std::string> available,
                                                   std::span<const std::string> must, int size) const {
  const Numbers given = numbers(available), wanted = numbers(must);
  const std::set<int> free(given.begin(), given.end()), needed(wanted.begin(), wanted.end());
  const auto count = static_cast<size_t>(std::max(size, 0));
  if (size < 0 || needed.size() > count || count > free.size() || !std::ranges::includes(free, needed))
    throw plugin_fault(
        fmt::format("{} of {} available, {} of them wanted", size, free.size(), needed.size()));
  Numbers chosen;
  try {
    chosen = choose_set(of_cores_ ? core_sets(machine_, size) : device_sets(machine_, size), free, needed);
  } catch (const Fault& fault) {  // a number for which there are no sets
    if (fault.kind() != FaultKind::kInput) throw;
  }
  if (chosen.empty()) {
    chosen = wanted;
    for (const int number : free)
      if (chosen.size() < count && !needed.contains(number)) chosen.push_back(number);
  }
  std::ranges::sort(chosen);
  std::vector<std::string> ids;
  for (const int number : chosen) ids.push_back(std::to_string(number));
  return ids;
}

PluginResource::Allocation PluginResource::allocation(std::span<const std::string> ids,
                                                      const std::set<int>& lost) const {
  const Numbers given = numbers(ids);
  if (given.empty()) throw plugin_fault("a container with no devices");
  std::map<int, const Device*> devices;
  for (const int number : given) devices.emplace(devices_.at(number)->index, devices_.at(number));
  Allocation made;
  Numbers cores = of_cores_ ? given : Numbers{};
  for (const auto& [index, device] : devices) {
    if (lost.contains(index)) throw plugin_fault(fmt::format("device {} is lost", index));
    made.devices.push_back(index);
    if (!of_cores_) cores.insert(cores.end(), device->cores.begin(), device->cores.end());
  }
  made.variables = {{"NEURON_RT_VISIBLE_CORES", ranges_text(cores)},
                    {"NEURON_PLATFORM_TARGET_OVERRIDE", machine_.instance_type},
                    {"NEURON_LOGICAL_NC_CONFIG", std::to_string(machine_.physical_cores_per_core)}};
  return made;
}

}  // namespace opentrn::monitor
