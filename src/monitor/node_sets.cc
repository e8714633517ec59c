#include "monitor/node_sets.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"
#include "base/utf8.h"

namespace opentrn::monitor {

using nlohmann::json;

namespace {

constexpr const char* kCoresNote = "NEURON_CORES";
constexpr const char* kDevicesNote = "NEURON_DEVICES";
constexpr size_t kNumbersMax = 4096;
constexpr int kRequestMax = 1'000'000'000;

[[noreturn]] void refuse_node(std::string what, std::string hint = "") {
  throw Fault(FaultKind::kInput, "tools.kubernetes", std::move(what), std::move(hint));
}

int device_count(const Machine& machine) { return static_cast<int>(machine.devices.size()); }

std::string words_of_refused(const Machine& machine, const char* kind, int count) {
  return fmt::format(
      "Instance type {} does not support requests for {}: {}. Please request a different number of devices.",
      machine.instance_type, kind, count);
}

Numbers range_of(int begin, int count, int modulus) {
  Numbers numbers;
  for (int i = 0; i < count; ++i) numbers.push_back((begin + i) % modulus);
  return numbers;
}

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// A member of an object that may be null or absent.
json member(const json& object, const char* key) {
  if (!object.is_object()) (void)object.at(key);  // throws
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? json() : *found;
}

// Of a resource's quantity, which is whole for devices.
int quantity(const json& value) {
  std::optional<int> number;
  if (value.is_null()) return 0;
  if (value.is_string()) number = number_in(value.get<std::string>());
  if (value.is_number_integer()) number = number_in(value.dump());
  if (!number || *number > kRequestMax)
    refuse_node(
        fmt::format("'{}' is not a number of devices",
                    printable((value.is_string() ? value.get<std::string>() : value.dump()).substr(0, 40))));
  return *number;
}

json resources_of(const json& container) {
  json all = json::object();
  const json resources = member(container, "resources");
  if (resources.is_null()) return all;
  for (const char* kind : {"requests", "limits"})
    if (const json given = member(resources, kind); !given.is_null()) all.update(given);
  return all;
}

}  // namespace

Numbers device_counts(const Machine& machine) {
  const int total = device_count(machine);
  if (!machine.is_torus) {
    Numbers all(static_cast<size_t>(total));
    std::iota(all.begin(), all.end(), 1);
    return all;
  }
  std::set<int> counts{1, total};
  for (const int count : {machine.columns, 2 * machine.columns})
    if (count < total) counts.insert(count);
  return {counts.begin(), counts.end()};
}

std::vector<Numbers> device_sets(const Machine& machine, int count) {
  const int total = device_count(machine);
  const Numbers counts = device_counts(machine);
  if (std::ranges::find(counts, count) == counts.end())
    refuse_node(words_of_refused(machine, "device", count),
                fmt::format("ask for {}", fmt::join(counts, ", ")));
  if (count == total) return {range_of(0, total, total)};
  std::vector<Numbers> sets;
  const bool overlaps = !machine.is_torus && count > 1;
  const int end = overlaps && machine.is_ring ? total : total - count + 1;
  for (int begin = 0; begin < end; begin += overlaps ? 1 : count)
    sets.push_back(range_of(begin, count, total));
  return sets;
}

std::vector<Numbers> core_sets(const Machine& machine, int count) {
  const auto each = static_cast<int>(machine.devices.front().cores.size());
  std::vector<Numbers> sets;
  if (count >= 1 && count < each) {
    for (const Device& device : machine.devices)
      for (int begin = 0; begin + count <= each; begin += count)
        sets.emplace_back(device.cores.begin() + begin, device.cores.begin() + begin + count);
    return sets;
  }
  const Numbers counts = device_counts(machine);
  if (count < 1 || count % each != 0 || std::ranges::find(counts, count / each) == counts.end()) {
    const Numbers below = each > 1 ? range_of(1, each - 1, each) : Numbers{};
    refuse_node(words_of_refused(machine, "core", count),
                fmt::format("ask for {}{}{} times {}", fmt::join(below, ", "), below.empty() ? "" : ", or ",
                            each, fmt::join(counts, ", ")));
  }
  for (const Numbers& chosen : device_sets(machine, count / each)) {
    Numbers& cores = sets.emplace_back();
    for (const int index : chosen) {
      const Numbers& own = machine.devices[static_cast<size_t>(index)].cores;
      cores.insert(cores.end(), own.begin(), own.end());
    }
  }
  return sets;
}

Numbers choose_set(std::span<const Numbers> sets, const std::set<int>& free, const std::set<int>& must) {
  for (const Numbers& each : sets) {
    const bool is_free = std::ranges::all_of(each, [&](int number) { return free.contains(number); });
    const bool holds =
        std::ranges::all_of(must, [&](int number) { return std::ranges::find(each, number) != each.end(); });
    if (is_free && holds) return each;
  }
  return {};
}

std::string ranges_text(Numbers numbers) {
  std::ranges::sort(numbers);
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += std::to_string(numbers[i]);
    if (end > i + 1) text += fmt::format("-{}", numbers[end - 1]);
    i = end;
  }
  return text;
}

Numbers numbers_of_ranges(const std::string& text) {
  const auto refuse_text = [&](const char* why) {
    refuse_node(fmt::format("'{}' {}", printable(text.substr(0, 40)), why));
  };
  Numbers numbers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view part = trimmed(std::string_view(text).substr(begin, comma - begin));
    begin = comma + 1;
    const size_t dash = part.find('-');
    const auto first = number_in(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number_in(part.substr(dash + 1));
    if (!first || !last) refuse_text("is not a list of numbers");
    if (*last >= *first &&
        static_cast<size_t>(*last - *first) >= kNumbersMax - std::min(numbers.size(), kNumbersMax))
      refuse_text("names too many numbers");
    for (int number = *first; number <= *last; ++number) numbers.push_back(number);
  }
  return numbers;
}

std::vector<DeviceRequest> device_requests(const json& pod) {
  std::vector<DeviceRequest> found;
  try {
    for (const json& container : pod.at("spec").at("containers")) {
      const json given = resources_of(container);
      // "neurondevice" is the older name of the same resource.
      const int devices = std::max(quantity(member(given, "aws.amazon.com/neuron")),
                                   quantity(member(given, "aws.amazon.com/neurondevice")));
      const int cores = quantity(member(given, "aws.amazon.com/neuroncore"));
      if (devices > 0 && cores > 0) refuse_node("a container asks for devices and for cores: one of them");
      if (devices > 0) found.push_back({false, devices});
      if (cores > 0) found.push_back({true, cores});
    }
  } catch (const json::exception&) {
    refuse_node("this is not a pod");
  }
  return found;
}

std::set<int> cores_of_pods(const Machine& machine, const json& pods) {
  std::set<int> taken;
  constexpr const char* kNoObjects = "the API server's answers are not nodes and pods";
  if (!pods.is_array()) refuse_node(kNoObjects);
  try {
    for (const json& pod : pods) {
      const json status = member(pod, "status"), metadata = member(pod, "metadata");
      const json phase = status.is_null() ? json() : member(status, "phase");
      if (phase == "Succeeded" || phase == "Failed") continue;
      const json notes = metadata.is_null() ? json() : member(metadata, "annotations");
      const json cores = notes.is_null() ? json() : member(notes, kCoresNote);
      const json devices = notes.is_null() ? json() : member(notes, kDevicesNote);
      if (!cores.is_null()) {
        for (const int core : numbers_of_ranges(cores.get<std::string>())) taken.insert(core);
      } else if (!devices.is_null()) {
        for (const int index : numbers_of_ranges(devices.get<std::string>()))
          for (const Device& device : machine.devices)
            if (device.index == index) taken.insert(device.cores.begin(), device.cores.end());
      }
    }
  } catch (const json::exception&) {
    refuse_node(kNoObjects);
  }
  return taken;
}

std::vector<Placement> place(const Machine& machine, const std::vector<DeviceRequest>& requests,
                             const std::set<int>& taken) {
  std::set<int> free;
  for (const Device& device : machine.devices)
    for (const int core : device.cores)
      if (!taken.contains(core)) free.insert(core);
  // Large sets first: a small one may stand in the way of a large one, and not the other way.
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](size_t i) { return requests[i].count; });
  std::vector<Placement> placed(requests.size());
  for (const size_t i : order) {
    const DeviceRequest& request = requests[i];
    Numbers chosen, cores;
    if (request.of_cores) {
      chosen = cores = choose_set(core_sets(machine, request.count), free);
    } else {
      std::set<int> whole;
      for (const Device& device : machine.devices)
        if (std::ranges::all_of(device.cores, [&](int core) { return free.contains(core); }))
          whole.insert(device.index);
      chosen = choose_set(device_sets(machine, request.count), whole);
      for (const int index : chosen)
        for (const int core : machine.devices[static_cast<size_t>(index)].cores) cores.push_back(core);
    }
    if (chosen.empty())
      refuse_node(fmt::format("no contiguous set of {} {}s is free", request.count,
                              request.of_cores ? "core" : "device"));
    for (const int core : cores) free.erase(core);
    placed[i] = {request.of_cores, std::move(chosen)};
  }
  return placed;
}

json annotations_of(const Machine& machine, const std::vector<Placement>& placed) {
  Numbers devices, cores;
  for (const Placement& each : placed) {
    Numbers& to = each.of_cores ? cores : devices;
    to.insert(to.end(), each.numbers.begin(), each.numbers.end());
  }
  for (const int index : devices)
    for (const int core : machine.devices[static_cast<size_t>(index)].cores) cores.push_back(core);
  json notes = json::object();
  if (!cores.empty()) notes[kCoresNote] = ranges_text(cores);
  if (!devices.empty()) notes[kDevicesNote] = ranges_text(devices);
  return notes;
}

}  // namespace opentrn::monitor
