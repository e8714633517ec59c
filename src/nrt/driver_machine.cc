// What the driver's library says of the machine: devices, versions, maps, processes, the UltraServer.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <unistd.h>

#include "device/registry.h"
#include "nrt/driver.h"

namespace opentrn::nrt {

namespace {

struct Version {
  unsigned major = 0, minor = 0, patch = 0;
};
Version version_of_opentrn() {
  Version version;
  if (std::sscanf(OPENTRN_VERSION, "%u.%u.%u", &version.major, &version.minor, &version.patch) != 3)
    return {};
  return version;
}

// Physical cores of the device that the process holds, a bit each.
uint8_t cores_held(const device::Process& process, const OpenDevice& device) {
  const auto per_device = static_cast<uint64_t>(device.hardware->machine.cores_per_device);
  uint8_t map = 0;
  for (uint64_t core = 0; core < std::min<uint64_t>(per_device, 8); ++core) {
    const uint64_t physical = static_cast<uint64_t>(device.index) * per_device + core;
    if (process.holds(physical / process.physical_cores_per_core)) map |= static_cast<uint8_t>(1U << core);
  }
  return map;
}

uint64_t resident_bytes(uint64_t pid) {
  const auto file = std::unique_ptr<FILE, int (*)(FILE*)>(
      std::fopen(fmt::format("/proc/{}/statm", pid).c_str(), "r"), &std::fclose);
  unsigned long long size = 0, resident = 0;
  if (file == nullptr || std::fscanf(file.get(), "%llu %llu", &size, &resident) != 2) return 0;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

neuron_app_info app_info(const device::Process& process, const OpenDevice& device, uint16_t flags) {
  const auto lnc = static_cast<uint64_t>(process.physical_cores_per_core);
  const auto per_device = static_cast<uint64_t>(device.hardware->machine.cores_per_device) / lnc;
  const auto is_here = [&](uint64_t core) {
    return core / per_device == static_cast<uint64_t>(device.index);
  };
  neuron_app_info info{};
  info.pid = static_cast<int32_t>(process.pid);
  if ((flags & APP_INFO_PID_NC_LOCK_INFO) != 0) {
    info.nc_lock_map = cores_held(process, device);
    size_t count = 0;
    for (const device::LoadedModel& model : process.models)
      if (is_here(model.core) && count < APP_INFO_MAX_MODELS_PER_DEVICE)
        std::memcpy(info.uuid_data[count++].value, &model.digest, sizeof model.digest);
  }
  if ((flags & APP_INFO_PID_MEM_USAGE) != 0) {
    info.host_mem_size = resident_bytes(process.pid);
    for (const device::CoreState& core : process.cores)
      if (is_here(core.index))
        for (const uint64_t bytes : core.memory) info.device_mem_size += bytes;
  }
  return info;
}

void give_apps(const OpenDevice& device, neuron_app_info** info, size_t* count, uint16_t flags) {
  std::vector<neuron_app_info> found;
  for (const device::Process& process : device::list_processes().processes)
    if (!process.is_tool && cores_held(process, device) != 0)
      found.push_back(app_info(process, device, flags));
  auto* array =
      static_cast<neuron_app_info*>(std::calloc(std::max<size_t>(found.size(), 1), sizeof(neuron_app_info)));
  if (array == nullptr) throw Failed{ENOMEM, "this host has no memory left"};
  std::copy(found.begin(), found.end(), array);
  *info = array;
  *count = found.size();
}

void print_holders(uint32_t core, bool own_only, uint32_t limit) {
  const auto machine = hardware();
  if (core >= static_cast<uint32_t>(machine->cores()))
    throw Failed{EINVAL, fmt::format("core {}: the machine has 0 to {}", core, machine->cores() - 1)};
  uint32_t printed = 0;
  for (const device::Process& process : device::list_processes().processes) {
    if (process.is_tool || !process.holds(core / process.physical_cores_per_core)) continue;
    if (own_only && process.pid != static_cast<uint64_t>(getpid())) continue;
    if (printed++ == limit) break;
    fmt::print(stderr, "neuron: core {} is held by process {} ({})\n", core, process.pid, process.command);
  }
}

uint32_t pod_type(const Hardware& machine) {
  if (machine.pod_servers == 0) return NEURON_POD_TYPE_NONE;
  return machine.pod_has_switches ? NEURON_POD_TYPE_SWITCH : NEURON_POD_TYPE_P2P;
}
uint32_t pod_state(const Hardware& machine) {
  return machine.pod_servers == 0 ? NEURON_POD_E_STATE_SINGLE_NODE : NEURON_POD_E_STATE_ULTRASERVER;
}
// The header has a mode of four servers; of other numbers it does not tell which way two are joined.
neuron_ultraserver_mode pod_mode(const Hardware& machine) {
  if (machine.pod_servers == 0) return NEURON_ULTRASERVER_MODE_X1;
  return machine.pod_servers == 4 ? NEURON_ULTRASERVER_MODE_X4 : NEURON_ULTRASERVER_MODE_UNSET;
}

constexpr uint64_t kFeatures = NEURON_DRIVER_FEATURE_ASYNC_DMA | NEURON_DRIVER_FEATURE_BIG_CORE_MAPS |
                               NEURON_DRIVER_FEATURE_MEM_ALLOC_TYPE | NEURON_DRIVER_FEATURE_MEM_ALLOC64 |
                               NEURON_DRIVER_FEATURE_CONTIGUOUS_SCRATCHPAD | NEURON_DRIVER_FEATURE_ZEROCOPY;

template <typename Body>
int with_device(const char* function, ndl_device_t* device, Body&& body) noexcept {
  return drive(function, [&] {
    Driver& driver = Driver::instance();
    const std::lock_guard lock(driver.mutex);
    body(driver.device_at(device));
  });
}

// Somebody who wants to know of libraries that do not fit: this one is its own driver.
void (*soft_incompat_callback)(const char*) = nullptr;

}  // namespace

}  // namespace opentrn::nrt

using opentrn::nrt::drive;
using opentrn::nrt::expect_place;
using opentrn::nrt::Failed;
using opentrn::nrt::Hardware;
using opentrn::nrt::hardware;
using opentrn::nrt::OpenDevice;
using opentrn::nrt::with_device;

extern "C" {

int ndl_get_version(ndl_version_info_t* version) {
  return drive("ndl_get_version", [&] {
    expect_place(version, "the place of the version");
    const auto own = opentrn::nrt::version_of_opentrn();
    *version = {};
    version->driver_major_version = static_cast<uint16_t>(own.major);
    version->driver_minor_version = static_cast<uint16_t>(own.minor);
    const std::string text = "OpenTrn " OPENTRN_VERSION;
    std::memcpy(version->driver_full_version, text.data(),
                std::min(text.size(), sizeof version->driver_full_version - 1));
    version->library_major_version = NEURON_DRIVER_LIBRARY_MAJOR;
    version->library_minor_version = NEURON_DRIVER_LIB_MINOR;
  });
}

int ndl_get_compatible_version(uint32_t* min_compatible_version, uint32_t* max_compatible_version) {
  return drive("ndl_get_compatible_version", [&] {
    expect_place(min_compatible_version, "the place of the lowest version");
    expect_place(max_compatible_version, "the place of the highest version");
    *min_compatible_version = *max_compatible_version = NEURON_DRIVER_LIBRARY_MAJOR;
  });
}

int ndl_register_soft_incompat_callback(void (*callback)(const char*)) {
  return drive("ndl_register_soft_incompat_callback", [&] {
    if (callback == nullptr) throw Failed{EINVAL, "the callback is null"};
    opentrn::nrt::soft_incompat_callback = callback;
  });
}

int ndl_available_devices(int* device_indexes, int device_indexes_size) {
  int found = 0;
  static_cast<void>(drive("ndl_available_devices", [&] {
    if (device_indexes_size > 0) expect_place(device_indexes, "the array of devices");
    found = std::clamp(device_indexes_size, 0, hardware()->devices());
    for (int i = 0; i < found; ++i) device_indexes[i] = i;
  }));
  return found;
}

int ndl_get_board_info(uint32_t* architecture, uint32_t* revision) {
  return drive("ndl_get_board_info", [&] {
    expect_place(architecture, "the place of the architecture");
    expect_place(revision, "the place of the revision");
    *architecture = static_cast<uint32_t>(version(hardware()->machine.settings.generation));
    *revision = 0;
  });
}

int ndl_get_device_bdf_ext(int device_index, uint32_t* domain, uint32_t* bus_num, uint8_t* pci_slot,
                           uint8_t* dev_func) {
  return drive("ndl_get_device_bdf_ext", [&] {
    expect_place(domain, "the place of the domain");
    expect_place(bus_num, "the place of the bus");
    expect_place(pci_slot, "the place of the slot");
    expect_place(dev_func, "the place of the function");
    const auto place = opentrn::nrt::pci_place(*hardware(), device_index);
    *domain = place.domain;
    *bus_num = place.bus;
    *pci_slot = place.slot;
    *dev_func = place.function;
  });
}
int ndl_get_device_bdf(int device_index, uint32_t* bus_num, uint8_t* pci_slot, uint8_t* dev_func) {
  uint32_t domain = 0;
  return ndl_get_device_bdf_ext(device_index, &domain, bus_num, pci_slot, dev_func);
}

int ndl_get_host_device_id(ndl_device_t* device, uint32_t* host_device_id) {
  return with_device("ndl_get_host_device_id", device, [&](const OpenDevice& open) {
    expect_place(host_device_id, "the place of the number");
    *host_device_id = static_cast<uint32_t>(open.index);
  });
}

int ndl_get_host_device_id_to_rid_map(uint32_t* count, uint32_t* host_did_to_rid_map) {
  return drive("ndl_get_host_device_id_to_rid_map",
               [&] { opentrn::nrt::give_routing_numbers(count, host_did_to_rid_map); });
}

int ndl_get_logical_to_physical_nc_map(struct neuron_ioctl_nc_map* map, uint32_t max_num_entries,
                                       enum neuron_ioctl_nc_mapping_type mapping_version) {
  return drive("ndl_get_logical_to_physical_nc_map", [&] {
    expect_place(map, "the map");
    if (mapping_version != NEURON_IOCTL_NC_MAPPING_TYPE_V0)
      throw Failed{EINVAL, fmt::format("a map of version {}", static_cast<int>(mapping_version))};
    const auto machine = hardware();
    const auto per_device = static_cast<uint32_t>(machine->machine.cores_per_device);
    const auto cores = std::min<uint32_t>(static_cast<uint32_t>(machine->cores()), NEURON_NC_MAP_MAX_ENTRIES);
    if (max_num_entries < cores)
      throw Failed{EINVAL,
                   fmt::format("room for {} entries: the machine has {} cores", max_num_entries, cores)};
    for (uint32_t core = 0; core < cores; ++core)
      map->mappings[core] = {core / per_device, core % per_device};
    map->num_entries = cores;
  });
}

int ndl_get_all_apps_info(ndl_device_t* device, struct neuron_app_info** info, size_t* count,
                          uint16_t apps_info_flags) {
  return with_device("ndl_get_all_apps_info", device, [&](const OpenDevice& open) {
    expect_place(info, "the place of the array");
    expect_place(count, "the place of the count");
    opentrn::nrt::give_apps(open, info, count, apps_info_flags);
  });
}

int ndl_dump_nc_pid_info(uint32_t nc_id, bool filter_log_owner, uint32_t log_dump_limit) {
  return drive("ndl_dump_nc_pid_info",
               [&] { opentrn::nrt::print_holders(nc_id, filter_log_owner, log_dump_limit); });
}

int ndl_printk(char* str, uint32_t size, uint32_t action) {
  return drive("ndl_printk", [&] {
    if (const int error = opentrn::nrt::print_message(str, size, action))
      throw Failed{error, "a message of up to 4096 bytes with the 0 at its end, and action 0, were expected"};
  });
}

void ndl_device_cached_fd_close_all(void) {}  // there are no files of devices

bool ndl_feature_supported(int /*nd_fd*/, uint64_t feature) {
  return feature != 0 && (feature & ~opentrn::nrt::kFeatures) == 0;
}

int ndl_pod_info(uint32_t* type, uint32_t* size) {
  return drive("ndl_pod_info", [&] {
    expect_place(type, "the place of the type");
    expect_place(size, "the place of the size");
    const auto machine = hardware();
    *type = opentrn::nrt::pod_type(*machine);
    *size = static_cast<uint32_t>(machine->pod_servers);
  });
}
int ndl_pod_election_state(uint32_t* state) {
  return drive("ndl_pod_election_state", [&] {
    expect_place(state, "the place of the state");
    *state = opentrn::nrt::pod_state(*hardware());
  });
}
int ndl_pod_mapping_info(int* node_id) {
  return drive("ndl_pod_mapping_info", [&] {
    expect_place(node_id, "the place of the node");
    *node_id = hardware()->pod_servers > 0 ? 0 : -1;
  });
}
int ndl_pod_status(uint8_t* pod_id, uint32_t* state, uint32_t* type, uint32_t* size, int* node_id,
                   enum neuron_ultraserver_mode* mode, uint32_t* modes_supported) {
  return drive("ndl_pod_status", [&] {
    expect_place(pod_id, "the place of the pod");
    expect_place(state, "the place of the state");
    expect_place(type, "the place of the type");
    expect_place(size, "the place of the size");
    expect_place(node_id, "the place of the node");
    expect_place(mode, "the place of the mode");
    expect_place(modes_supported, "the place of the modes");
    const auto machine = hardware();
    *pod_id = 0;
    *state = opentrn::nrt::pod_state(*machine);
    *type = opentrn::nrt::pod_type(*machine);
    *size = static_cast<uint32_t>(machine->pod_servers);
    *node_id = machine->pod_servers > 0 ? 0 : -1;
    *mode = opentrn::nrt::pod_mode(*machine);
    *modes_supported = *mode == NEURON_ULTRASERVER_MODE_UNSET ? 0 : 1U << *mode;
  });
}

}  // extern "C"
