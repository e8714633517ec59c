#include "monitor/machine.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::monitor {

namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// The server's own name: that of the instance an UltraServer is made of.
const arch::Instance* instance_of(const arch::Tables& tables, const std::string& name) {
  if (const arch::UltraServer* server = tables.find_ultraserver(name))
    return tables.find_instance(server->instance);
  return tables.find_instance(name);
}

std::vector<std::string> list_of(const arch::Tables& tables, const std::string& instance,
                                 const char* member) {
  const arch::Fact* fact = tables.facts().find(fmt::format("host_device.{}.{}", instance, member));
  return fact == nullptr ? std::vector<std::string>{} : fact->as<std::vector<std::string>>();
}

void place_in_host(const arch::Tables& tables, Machine& machine) {
  const auto bdf = list_of(tables, machine.instance_type, "bdf");
  const auto nodes = list_of(tables, machine.instance_type, "numa_node");
  const auto affinity = list_of(tables, machine.instance_type, "cpu_affinity");
  if (bdf.empty()) return;
  if (bdf.size() != machine.devices.size() || nodes.size() != bdf.size())
    throw Fault(FaultKind::kInput, "device.host_table",
                fmt::format("host_device.{} tells of {} devices and {} nodes; the instance has {} devices",
                            machine.instance_type, bdf.size(), nodes.size(), machine.devices.size()));
  for (Device& device : machine.devices) {
    const auto at = static_cast<size_t>(device.index);
    device.bdf = bdf[at];
    device.numa_node = nodes[at];
    const size_t node = nodes[at].size() == 1 ? static_cast<size_t>(nodes[at][0] - '0') : affinity.size();
    if (node < affinity.size()) device.cpu_affinity = affinity[node];
  }
}

}  // namespace

const Device* Machine::device_of(uint64_t core) const {
  for (const Device& device : devices)
    for (const int held : device.cores)
      if (static_cast<uint64_t>(held) == core) return &device;
  return nullptr;
}

Machine machine_of(const arch::Tables& tables, const fabric::Platform& platform,
                   int physical_cores_per_core) {
  Machine machine;
  const arch::Instance* instance = instance_of(tables, platform.name());
  machine.instance_type = instance ? instance->name : platform.name();
  const char* id = std::getenv("OPENTRN_INSTANCE_ID");
  machine.instance_id = id ? id : "";
  machine.generation = version(platform.generation());
  machine.physical_cores_per_core = physical_cores_per_core;
  machine.has_logical_cores = platform.generation() >= Generation::kV3;
  for (const arch::Chip& chip : tables.chips())
    if (chip.generation == platform.generation() && (!instance || chip.name == instance->chip)) {
      machine.chip = chip.name;
      machine.memory_bytes = static_cast<int64_t>(chip.memory_gib * kGiB);
    }
  const int per_device = platform.cores_per_chip() / physical_cores_per_core;
  for (int index = 0; index < platform.chips_per_server(); ++index) {
    Device device;
    device.index = index;
    device.connected_to = platform.neighbours(index);
    for (int core = 0; core < per_device; ++core) device.cores.push_back(index * per_device + core);
    machine.devices.push_back(std::move(device));
  }
  machine.rows = platform.rows();
  machine.columns = platform.columns();
  machine.is_torus = machine.rows > 1 && machine.devices.size() > 1;
  // Every device of a ring has two neighbours.
  machine.is_ring = !machine.is_torus && machine.devices.size() > 2 &&
                    std::all_of(machine.devices.begin(), machine.devices.end(),
                                [](const Device& device) { return device.connected_to.size() == 2; });
  place_in_host(tables, machine);
  return machine;
}

}  // namespace opentrn::monitor
