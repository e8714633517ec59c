#include "nrt/hardware.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "arch/arch.h"
#include "fabric/platform.h"

namespace opentrn::nrt {

namespace {

constexpr uint32_t kMessageMax = 4096;

Hardware hardware_of(Machine machine) {
  const arch::Tables& tables = arch::default_tables();
  const fabric::Platform platform = fabric::Platform::make(tables, machine.settings.target);
  Hardware made{std::move(machine), {}, 0, false};
  made.server = monitor::machine_of(tables, platform, made.machine.settings.physical_cores_per_core);
  if (const arch::UltraServer* pod = tables.find_ultraserver(made.machine.settings.target)) {
    made.pod_servers = pod->servers;
    made.pod_has_switches = tables.topology(std::string(pod->topology)).switched();
  }
  return made;
}

}  // namespace

std::shared_ptr<const Hardware> hardware() {
  Machine machine = machine_of_environment();
  static std::mutex mutex;
  static auto& made = *new std::map<std::pair<std::string, int>, std::shared_ptr<const Hardware>>;
  const std::lock_guard lock(mutex);
  const std::pair key(machine.settings.target, machine.settings.physical_cores_per_core);
  auto& found = made[key];
  // Which cores are visible may change from one call to the next.
  if (!found || found->machine.settings.cores != machine.settings.cores)
    found = std::make_shared<const Hardware>(hardware_of(std::move(machine)));
  return found;
}

PciPlace pci_place(const Hardware& hardware, int device) {
  if (device < 0 || device >= hardware.devices())
    throw Refused{NRT_INVALID,
                  fmt::format("device {}: the machine has 0 to {}", device, hardware.devices() - 1)};
  const std::string& text = hardware.server.devices[static_cast<size_t>(device)].bdf;
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  if (std::sscanf(text.c_str(), "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
    throw Refused{NRT_FAILURE, fmt::format("no page of AWS's tells the PCI place of a device of {}",
                                           hardware.machine.settings.target)};
  return {domain, bus, static_cast<uint8_t>(slot), static_cast<uint8_t>(function)};
}

void give_routing_numbers(uint32_t* count, uint32_t* map) {
  expect_given(count, "the place of the count");
  if (*count > 0) expect_given(map, "the map");
  *count = std::min(*count, static_cast<uint32_t>(hardware()->devices()));
  for (uint32_t device = 0; device < *count; ++device) map[device] = device;
}

int print_message(const char* text, uint32_t size, uint32_t action) {
  if (text == nullptr || size == 0) return EINVAL;
  if (size > kMessageMax) return EFAULT;
  if (text[size - 1] != 0) return EBADMSG;
  if (action != 0) return EINVAL;
  fmt::print(stderr, "neuron: {}\n", text);
  return 0;
}

}  // namespace opentrn::nrt
