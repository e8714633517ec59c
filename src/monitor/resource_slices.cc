#include "monitor/resource_slices.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <regex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "monitor/node_sets.h"

namespace opentrn::monitor {

using nlohmann::ordered_json;

namespace {

constexpr size_t kTextShown = 80, kNameMax = 253, kSelectorMax = 1024;
constexpr size_t kDigestDigits = 16;

[[noreturn]] void refuse_claim(std::string what, std::string hint = "") {
  throw Fault(FaultKind::kInput, "tools.kubernetes", std::move(what), std::move(hint));
}

std::string brief(const std::string& text, size_t most = kTextShown) {
  return printable(text.substr(0, most));
}

bool is_node_name(const std::string& text) {
  static const std::regex pattern("[a-z0-9]([-a-z0-9.]*[a-z0-9])?");
  return text.size() <= kNameMax && std::regex_match(text, pattern);
}

bool is_driver_version(const std::string& text) {
  static const std::regex pattern(R"(\d+(\.\d+){1,3})");
  return text.size() <= kTextShown && std::regex_match(text, pattern);
}

ordered_json int_value(int value) { return {{"int", value}}; }
ordered_json string_value(std::string value) { return {{"string", std::move(value)}}; }

ordered_json attributes_of(const Machine& machine, const std::string& node, int index,
                           const std::string& driver) {
  ordered_json rows{{"deviceId", int_value(index)},
                    {"instanceType", string_value(machine.instance_type)},
                    {"resourceType", string_value("neuron_device")}};
  if (!driver.empty()) rows["neuronDriverVersion"] = string_value(driver);
  if (!machine.is_torus) return rows;
  const int row = index / machine.columns;
  rows["topology_x"] = int_value(row);
  rows["topology_y"] = int_value(index % machine.columns);
  rows["topology4_id"] = int_value(row);
  if (machine.devices.size() >= 8) rows["topology8_id"] = int_value(row / 2);
  for (const int count : device_counts(machine))
    if (count > 1)
      rows[fmt::format("resource.aws.com/devicegroup{}_id", count)] = string_value(
          sha256_of(fmt::format("{}/{}/{}", node, count, index / count)).substr(0, kDigestDigits));
  return rows;
}

ordered_json devices_of_node(const Machine& machine, const std::string& node, const std::string& driver,
                             const std::string& ultraserver) {
  if (!ultraserver.empty()) {
    ordered_json rows{{"instanceType", string_value(machine.instance_type)},
                      {"resourceType", string_value("neuron_node")}};
    if (!driver.empty()) rows["neuronDriverVersion"] = string_value(driver);
    return ordered_json::array({{{"name", "neuronnode0"}, {"attributes", rows}}});
  }
  ordered_json devices = ordered_json::array();
  for (const Device& device : machine.devices)
    devices.push_back({{"name", fmt::format("neurondevice{}", device.index)},
                       {"attributes", attributes_of(machine, node, device.index, driver)},
                       {"capacity", {{"memory", {{"value", std::to_string(machine.memory_bytes)}}}}}});
  return devices;
}

// {"int": 5} and {"string": "x"} as the value.
const ordered_json& value_of(const ordered_json& attribute) {
  if (!attribute.is_object() || attribute.empty()) (void)attribute.at("int");  // throws
  return attribute.begin().value();
}

std::string trimmed_term(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\n"), end = text.find_last_not_of(" \t\n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::vector<std::string> terms_of(const std::string& expression) {
  std::vector<std::string> terms;
  for (size_t begin = 0; begin <= expression.size();) {
    const size_t end = std::min(expression.find("&&", begin), expression.size());
    terms.push_back(trimmed_term(expression.substr(begin, end - begin)));
    begin = end + 2;
  }
  return terms;
}

bool matches_term(const ordered_json& device, const std::string& term) {
  static const std::regex of_class(R"(device\.driver\s*==\s*["']([^"']+)["'])");
  static const std::regex of_attribute(
      R"(device\.attributes\[\s*(['"])([^'"]+)\1\s*\]\s*\.\s*(\w+)\s*==\s*(?:(['"])([^'"]*)\4|(\d{1,18})))");
  std::smatch found;
  if (std::regex_match(term, found, of_class)) return found[1] == kDraDriver;
  if (!std::regex_match(term, found, of_attribute))
    refuse_claim(fmt::format("the selector '{}' is not of a form that this reads", brief(term)),
                 "device.attributes['neuron.aws.com'].NAME == VALUE, joined by &&");
  const std::string name = found[2] == kDraDriver ? found[3].str() : found[2].str() + "/" + found[3].str();
  const ordered_json& rows = device.at("attributes");
  const auto row = rows.find(name);
  if (row == rows.end()) return false;
  const ordered_json& value = value_of(*row);
  if (found[6].matched) return value.is_number_integer() && value == std::stoll(found[6].str());
  return value.is_string() && value == found[5].str();
}

ordered_json list_at(const ordered_json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? ordered_json::array() : *found;
}

using Devices = std::vector<const ordered_json*>;

bool matches_all(const ordered_json& device, const std::vector<std::string>& selectors) {
  return std::ranges::all_of(selectors,
                             [&](const std::string& each) { return matches_selector(device, each); });
}

// Of the devices that fit, those that the request gets; `same`: attributes in which they agree.
Devices chosen_devices(const ordered_json& exactly, const Devices& fitting,
                       const std::vector<std::string>& same, size_t in_all) {
  std::string mode = exactly.value("allocationMode", "ExactCount");
  std::ranges::transform(mode, mode.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; });
  if (mode == "all") {
    if (in_all == 0 || in_all != fitting.size())
      refuse_claim(fmt::format("{} of {} devices are free", fitting.size(), in_all));
    return fitting;
  }
  const ordered_json count = exactly.value("count", ordered_json(1));
  if (!count.is_number_integer() || count < 1)
    refuse_claim(fmt::format("{} devices: a number from 1 was expected", brief(count.dump(), 40)));
  std::vector<std::pair<std::vector<ordered_json>, Devices>> groups;
  for (const ordered_json* device : fitting) {
    std::vector<ordered_json> key;
    const ordered_json& rows = device->at("attributes");
    for (const std::string& name : same)
      if (rows.contains(name)) key.push_back(value_of(rows.at(name)));
    if (key.size() != same.size()) continue;
    auto group = std::ranges::find_if(groups, [&](const auto& each) { return each.first == key; });
    if (group == groups.end()) group = groups.insert(group, {key, {}});
    group->second.push_back(device);
  }
  const auto wanted = count.get<uint64_t>();
  for (auto& [key, devices] : groups)
    if (devices.size() >= wanted) {
      devices.resize(wanted);
      return devices;
    }
  refuse_claim(fmt::format("{} devices of one group are not free", wanted));
}

std::vector<std::string> attributes_that_match(const ordered_json& spec, const std::string& request) {
  std::vector<std::string> names;
  for (const ordered_json& constraint : list_at(spec, "constraints")) {
    const ordered_json requests = list_at(constraint, "requests");
    const bool is_of_all = !constraint.contains("requests");
    if (!is_of_all && std::find(requests.begin(), requests.end(), request) == requests.end()) continue;
    std::string name = constraint.at("matchAttribute");
    const std::string prefix = std::string(kDraDriver) + "/";
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
    names.push_back(std::move(name));
  }
  return names;
}

// Of one node's slice. Input fault where it lacks something.
ordered_json results_on(const ordered_json& slice, const ordered_json& spec, const TakenDevices& taken) {
  const std::string pool = slice.at("spec").at("pool").at("name");
  const ordered_json& devices = slice.at("spec").at("devices");
  std::set<std::string> used;
  ordered_json results = ordered_json::array();
  for (const ordered_json& request : spec.at("requests")) {
    const ordered_json& exactly = request.at("exactly");
    const std::string name = request.at("name"), wanted = exactly.at("deviceClassName");
    if (wanted != kDraDriver) refuse_claim(fmt::format("there is no class {}", brief(wanted)));
    std::vector<std::string> selectors;
    for (const ordered_json& row : list_at(exactly, "selectors"))
      selectors.push_back(row.at("cel").at("expression"));
    Devices fitting;
    size_t in_all = 0;
    for (const ordered_json& device : devices) {
      if (!matches_all(device, selectors)) continue;
      ++in_all;
      const std::string each = device.at("name");
      if (!taken.contains({pool, each}) && !used.contains(each)) fitting.push_back(&device);
    }
    for (const ordered_json* device :
         chosen_devices(exactly, fitting, attributes_that_match(spec, name), in_all)) {
      const std::string each = device->at("name");
      used.insert(each);
      results.push_back({{"device", each}, {"driver", kDraDriver}, {"pool", pool}, {"request", name}});
    }
  }
  return results;
}

struct ContainerSettings {
  int lnc;
  std::optional<int> ultraserver;
};

void take_parameters(const ordered_json& row, ContainerSettings& to) {
  ordered_json parameters = ordered_json::object();
  if (row.contains("opaque") && row["opaque"].is_object() && row["opaque"].contains("parameters"))
    parameters = row["opaque"]["parameters"];
  if (!parameters.is_object()) parameters = ordered_json::object();
  const ordered_json kind = parameters.value("kind", ordered_json());
  const ordered_json cores = parameters.value("logicalNeuronCore", ordered_json());
  const ordered_json mode = parameters.value("ultraserverMode", ordered_json());
  if (kind == "NeuronConfig" && (cores == 1 || cores == 2)) {
    to.lnc = cores.get<int>();
  } else if (kind == "UltraServerConfig" && (mode == 1 || mode == 2 || mode == 4)) {
    to.ultraserver = mode.get<int>();
  } else {
    refuse_claim(fmt::format("the configuration {} is not known", brief(parameters.dump())));
  }
}

int index_of_device(const std::string& name, const Machine& machine) {
  constexpr std::string_view kPrefix = "neurondevice";
  int index = -1;
  if (name.starts_with(kPrefix)) {
    const char *begin = name.data() + kPrefix.size(), *end = name.data() + name.size();
    const auto [last, error] = std::from_chars(begin, end, index);
    if (error != std::errc{} || last != end) index = -1;
  }
  if (index < 0 || index >= static_cast<int>(machine.devices.size()))
    refuse_claim(fmt::format("the node has no device '{}'", brief(name, 40)));
  return index;
}

}  // namespace

ordered_json resource_slices(const Machine& machine, const std::string& node, const std::string& driver,
                             const std::string& ultraserver) {
  if (!is_node_name(node))
    refuse_claim(fmt::format("'{}' is not a name of a node", brief(node, 60)), "a DNS name in small letters");
  if (!driver.empty() && !is_driver_version(driver))
    refuse_claim(fmt::format("'{}' is not a version of a driver", brief(driver, 40)), "as in 2.25.4.0");
  return ordered_json::array({{{"apiVersion", "resource.k8s.io/v1"},
                               {"kind", "ResourceSlice"},
                               {"metadata", {{"name", node + "-neuron"}}},
                               {"spec",
                                {{"driver", kDraDriver},
                                 {"nodeName", node},
                                 {"pool", {{"name", node}, {"generation", 1}, {"resourceSliceCount", 1}}},
                                 {"devices", devices_of_node(machine, node, driver, ultraserver)}}}}});
}

ordered_json dra_device_class() {
  const std::string expression = fmt::format("device.driver == \"{}\"", kDraDriver);
  return {{"apiVersion", "resource.k8s.io/v1"},
          {"kind", "DeviceClass"},
          {"metadata", {{"name", kDraDriver}}},
          {"spec", {{"selectors", ordered_json::array({{{"cel", {{"expression", expression}}}}})}}}};
}

bool matches_selector(const ordered_json& device, const std::string& expression) {
  if (expression.size() > kSelectorMax)
    refuse_claim(
        fmt::format("a selector of {} characters; at most {} are read", expression.size(), kSelectorMax));
  return std::ranges::all_of(terms_of(expression),
                             [&](const std::string& term) { return matches_term(device, term); });
}

ordered_json allocate_claim(const ordered_json& claim, const ordered_json& published,
                            const TakenDevices& taken) {
  std::string why = "no slice is published";
  try {
    const ordered_json& spec = claim.at("devices");
    for (const ordered_json& slice : published) {
      try {
        ordered_json results = results_on(slice, spec, taken);
        return {{"results", std::move(results)}, {"config", list_at(spec, "config")}};
      } catch (const Fault& fault) {
        why = fault.message();
      }
    }
  } catch (const ordered_json::exception& error) {
    refuse_claim(fmt::format("this is not a claim: {}", error.what()));
  }
  refuse_claim(fmt::format("no node has what the claim asks: {}", why));
}

std::pair<ordered_json, std::optional<int>> container_of_allocation(const ordered_json& allocation,
                                                                    const Machine& machine) {
  ContainerSettings settings{machine.physical_cores_per_core, std::nullopt};
  Numbers devices;
  try {
    for (const ordered_json& row : allocation.at("config")) take_parameters(row, settings);
    for (const ordered_json& row : allocation.at("results")) {
      const std::string name = row.at("device");
      if (name == "neuronnode0")
        for (const Device& device : machine.devices) devices.push_back(device.index);
      else
        devices.push_back(index_of_device(name, machine));
    }
  } catch (const ordered_json::exception& error) {
    refuse_claim(fmt::format("this is not an allocation: {}", error.what()));
  }
  const int of_device =
      static_cast<int>(machine.devices.front().cores.size()) * machine.physical_cores_per_core / settings.lnc;
  Numbers cores;
  for (const int device : devices)
    for (int core = 0; core < of_device; ++core) cores.push_back(device * of_device + core);
  return {{{"NEURON_RT_VISIBLE_CORES", ranges_text(cores)},
           {"NEURON_LOGICAL_NC_CONFIG", std::to_string(settings.lnc)},
           {"NEURON_PLATFORM_TARGET_OVERRIDE", machine.instance_type}},
          settings.ultraserver};
}

}  // namespace opentrn::monitor
