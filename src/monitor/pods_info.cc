#include "monitor/pods_info.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "base/utf8.h"

namespace opentrn::monitor {

namespace {

using nlohmann::ordered_json;

constexpr std::string_view kPrefix = "aws.amazon.com/";
constexpr size_t kPodNameMax = 253;  // of a pod, a namespace

std::optional<int> device_number(const std::string& id) {
  constexpr size_t kDigitsMax = 7;
  if (id.empty() || id.size() > kDigitsMax ||
      !std::ranges::all_of(id, [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  return std::stoi(id);
}

std::string cut_name(const std::string& name) {
  std::string text = name.substr(0, kPodNameMax);
  while (!text.empty() && !is_utf8(text) && is_utf8(name)) text.pop_back();
  return text;
}

void put(ordered_json& rows, int number, const HeldDevice& held) {
  ordered_json& row = rows[std::to_string(number)];
  if (row.is_null())
    row = {{"pod_name", cut_name(held.pod)},
           {"namespace", cut_name(held.name_space)},
           {"container_name", ordered_json::array()}};
  ordered_json& containers = row["container_name"];
  const ordered_json name = cut_name(held.container);
  if (std::ranges::find(containers, name) == containers.end()) containers.push_back(name);
}

}  // namespace

ordered_json pods_info(const Machine& machine, std::span<const HeldDevice> held, double period) {
  std::map<int, const Device*> devices, owners;  // owners: by core
  for (const Device& device : machine.devices) {
    devices[device.index] = &device;
    for (const int core : device.cores) owners[core] = &device;
  }
  ordered_json of_cores = ordered_json::object(), of_devices = ordered_json::object();
  for (const HeldDevice& each : held) {
    const std::optional<int> number = device_number(each.id);
    if (!number || !each.resource.starts_with(kPrefix)) continue;
    const std::string_view kind = std::string_view(each.resource).substr(kPrefix.size());
    if (kind == "neuroncore" && owners.contains(*number)) {
      put(of_cores, *number, each);
      put(of_devices, owners.at(*number)->index, each);
    } else if ((kind == "neuron" || kind == "neurondevice") && devices.contains(*number)) {
      put(of_devices, *number, each);
      for (const int core : devices.at(*number)->cores) put(of_cores, core, each);
    }
  }
  return {{"period", period},
          {"neuroncores_k8s_info", of_cores},
          {"neurondevices_k8s_info", of_devices},
          {"error", ""}};
}

}  // namespace opentrn::monitor
