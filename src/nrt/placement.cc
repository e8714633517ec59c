// Where tensors lie in simulated HBM, and HBM itself.
#include <fmt/format.h>

#include "nrt/hardware.h"
#include "nrt/tensor.h"

using opentrn::nrt::answer;
using opentrn::nrt::expect_given;
using opentrn::nrt::Refused;
using opentrn::nrt::State;

extern "C" {

NRT_STATUS nrt_tensor_get_device_allocation_info(const nrt_tensor_t* tensor,
                                                 nrt_tensor_device_allocation_info_t* alloc_info) {
  return answer("nrt_tensor_get_device_allocation_info", [&] {
    State& state = State::instance();
    const std::lock_guard lock(state.mutex);
    state.expect_open();
    expect_given(alloc_info, "the place of the information");
    const nrt_tensor& found = opentrn::nrt::tensor_at(tensor);
    const opentrn::nrt::Hbm* hbm = found.storage == nullptr ? nullptr : found.storage->hbm();
    if (hbm == nullptr) throw Refused{NRT_INVALID, fmt::format("tensor '{}' is on no device", found.name)};
    const auto& taken = found.storage->taken();
    // What is left of the allocation behind the first byte of a slice.
    *alloc_info = {hbm->address() + taken.offset + found.offset, taken.bytes - found.offset, hbm->index()};
  });
}

NRT_STATUS nrt_host_device_id_rid_map_get(uint32_t* count, uint32_t* host_did_to_rid_map) {
  return answer("nrt_host_device_id_rid_map_get",
                [&] { opentrn::nrt::give_routing_numbers(count, host_did_to_rid_map); });
}

NRT_STATUS nrt_get_hbm_mmap_va(int device_id, int hbm_idx, void** addr, size_t* size) {
  return answer("nrt_get_hbm_mmap_va", [&] {
    State& state = State::instance();
    const std::lock_guard lock(state.mutex);
    state.expect_open();
    expect_given(addr, "the place of the address");
    expect_given(size, "the place of the size");
    const int devices = opentrn::nrt::hardware()->devices();
    const opentrn::nrt::Machine& machine = state.machine();
    if (device_id < 0 || device_id >= devices)
      throw Refused{NRT_INVALID, fmt::format("device {}: the machine has 0 to {}", device_id, devices - 1)};
    if (hbm_idx < 0) throw Refused{NRT_INVALID, fmt::format("HBM {}", hbm_idx)};
    if (hbm_idx >= machine.hbms)
      throw Refused{NRT_INVALID_HANDLE,
                    fmt::format("HBM {}: a device has 0 to {}", hbm_idx, machine.hbms - 1)};
    opentrn::nrt::Hbm& hbm =
        opentrn::nrt::hbm_of(machine.settings.target, device_id, hbm_idx, machine.hbm_bytes);
    *addr = hbm.data();
    *size = hbm.bytes();
  });
}

}  // extern "C"
