// What AWS's library of collectives may ask of the machine (nec.h).
#include <algorithm>
#include <cstdio>
#include <map>

#include <fmt/format.h>

#include "nrt/hardware.h"
#include "nrt/include/nrt/nec.h"

namespace opentrn::nrt {

namespace {

// Of nec_build_port_and_rid_map(): mla index -> device, by the local device that asked.
struct MlaMaps {
  std::mutex mutex;
  std::map<int, std::map<int, int>> by_device;
};
MlaMaps& mla_maps() {
  static MlaMaps& instance = *new MlaMaps;
  return instance;
}

// The device of an mla index; -1 of none that was built.
int device_of_mla(int local, int index) {
  const std::lock_guard lock(mla_maps().mutex);
  const auto of_local = mla_maps().by_device.find(local);
  if (of_local == mla_maps().by_device.end()) return -1;
  const auto found = of_local->second.find(index);
  return found == of_local->second.end() ? -1 : found->second;
}

void build_map(int local, const int* indexes, const int* devices, int count) {
  const int known = hardware()->devices();
  const auto expect_device = [&](int device) {
    if (device < 0 || device >= known)
      throw Refused{NRT_INVALID, fmt::format("device {}: the machine has 0 to {}", device, known - 1)};
  };
  expect_device(local);
  if (count < 0) throw Refused{NRT_INVALID, fmt::format("{} devices", count)};
  if (count > 0) expect_given(indexes, "the array of mla indexes");
  if (count > 0) expect_given(devices, "the array of devices");
  std::map<int, int> made;
  for (int i = 0; i < count; ++i) {
    expect_device(devices[i]);
    if (indexes[i] < 0 || !made.emplace(indexes[i], devices[i]).second)
      throw Refused{NRT_INVALID, fmt::format("mla index {} is negative or given twice", indexes[i])};
  }
  const std::lock_guard lock(mla_maps().mutex);
  mla_maps().by_device[local] = std::move(made);
}

}  // namespace

}  // namespace opentrn::nrt

using opentrn::nrt::answer;
using opentrn::nrt::expect_given;
using opentrn::nrt::hardware;
using opentrn::nrt::Refused;

extern "C" {

int nec_get_device_count(int* available_devices_array, uint32_t array_size) {
  int count = -1;
  static_cast<void>(answer("nec_get_device_count", [&] {
    if (array_size > 0) expect_given(available_devices_array, "the array of devices");
    const int devices = hardware()->devices();
    for (int i = 0; i < devices && static_cast<uint32_t>(i) < array_size; ++i) available_devices_array[i] = i;
    count = devices;
  }));
  return count;
}

int nec_get_device_pci_bdf(int neuron_dev, uint32_t* domain, uint32_t* bus_num, uint8_t* pci_slot,
                           uint8_t* dev_func) {
  const NRT_STATUS status = answer("nec_get_device_pci_bdf", [&] {
    expect_given(domain, "the place of the domain");
    expect_given(bus_num, "the place of the bus");
    expect_given(pci_slot, "the place of the slot");
    expect_given(dev_func, "the place of the function");
    const auto place = opentrn::nrt::pci_place(*hardware(), neuron_dev);
    *domain = place.domain;
    *bus_num = place.bus;
    *pci_slot = place.slot;
    *dev_func = place.function;
  });
  return status == NRT_SUCCESS ? 0 : -1;
}

NRT_STATUS nec_get_virtual_core_size(uint32_t* virtual_core_size) {
  return answer("nec_get_virtual_core_size", [&] {
    expect_given(virtual_core_size, "the place of the size");
    *virtual_core_size = static_cast<uint32_t>(hardware()->machine.settings.physical_cores_per_core);
  });
}

NRT_STATUS nec_get_version_info(nec_version_info_t* version_info) {
  return answer("nec_get_version_info", [&] {
    expect_given(version_info, "the place of the version");
    unsigned major = 0, minor = 0, patch = 0;
    if (std::sscanf(OPENTRN_VERSION, "%u.%u.%u", &major, &minor, &patch) != 3) major = minor = patch = 0;
    version_info->major = major;
    version_info->minor = minor;
    version_info->patch = patch;
    version_info->maintenance = 0;
    std::fill(std::begin(version_info->git_hash), std::end(version_info->git_hash), '\0');
    version_info->compatibility_version = 0;
  });
}

NRT_STATUS nec_build_port_and_rid_map(int local_nec_dev_id, int* mla_indexes, int* host_device_ids,
                                      int count) {
  return answer("nec_build_port_and_rid_map",
                [&] { opentrn::nrt::build_map(local_nec_dev_id, mla_indexes, host_device_ids, count); });
}

bool nec_is_mla_available(int local_nec_dev_id, int mla_idx) {
  return opentrn::nrt::device_of_mla(local_nec_dev_id, mla_idx) >= 0;
}

int nec_mla_idx_to_rid(int local_nec_dev_id, int mla_idx) {
  const int device = opentrn::nrt::device_of_mla(local_nec_dev_id, mla_idx);
  if (device < 0)
    static_cast<void>(opentrn::nrt::refused(
        "nec_mla_idx_to_rid", NRT_INVALID,
        fmt::format("mla index {} of device {}: nec_build_port_and_rid_map() has not told it", mla_idx,
                    local_nec_dev_id)));
  return device;
}

int nec_rid_to_mla_idx(int local_nec_dev_id, int rid) {
  int index = -1;
  static_cast<void>(answer("nec_rid_to_mla_idx", [&] {
    auto& maps = opentrn::nrt::mla_maps();
    const std::lock_guard lock(maps.mutex);
    if (const auto of_local = maps.by_device.find(local_nec_dev_id); of_local != maps.by_device.end())
      for (const auto& [mla, device] : of_local->second)
        if (device == rid) index = mla;
    if (index < 0)
      throw Refused{NRT_INVALID,
                    fmt::format("routing number {} of device {}: nec_build_port_and_rid_map() has not "
                                "told it",
                                rid, local_nec_dev_id)};
  }));
  return index;
}

void nec_ndl_printk(char* str, uint32_t size, uint32_t action) {
  static_cast<void>(answer("nec_ndl_printk", [&] {
    if (opentrn::nrt::print_message(str, size, action) != 0)
      throw Refused{NRT_INVALID,
                    "a message of up to 4096 bytes with the 0 at its end, and action 0, were expected"};
  }));
}

}  // extern "C"
