// Functions of libnrt whose subject a simulated device has not, or that OpenTrn does not have yet: each says
// so.
#include <cstring>

#include <fmt/format.h>

#include "nrt/include/nrt/nrt_experimental.h"
#include "nrt/state.h"

namespace {

NRT_STATUS absent(const char* function, const char* why, NRT_STATUS status = NRT_FAILURE) {
  return opentrn::nrt::refused(function, status, fmt::format("OpenTrn does not have this: {}", why));
}

constexpr const char* kNetwork = "there is no network plugin of NCCL";

}  // namespace

extern "C" {

NRT_STATUS nrt_tensor_get_device_allocation_info(const nrt_tensor_t*, nrt_tensor_device_allocation_info_t*) {
  return absent("nrt_tensor_get_device_allocation_info", "simulated HBM has no physical addresses");
}
NRT_STATUS nrt_get_dmabuf_fd(uint64_t, uint64_t, int*) {
  return absent("nrt_get_dmabuf_fd", "no memory is registered with a driver");
}
NRT_STATUS nrt_get_attached_efa_bdf(const void*, char*, size_t*) {
  return absent("nrt_get_attached_efa_bdf", "no network adapter is attached");
}
NRT_STATUS nrt_host_device_id_rid_map_get(uint32_t*, uint32_t*) {
  return absent("nrt_host_device_id_rid_map_get", "there is no driver with routing numbers");
}
NRT_STATUS nrt_get_hbm_mmap_va(int, int, void**, size_t*) {
  return absent("nrt_get_hbm_mmap_va", "HBM is not mapped", NRT_INVALID);
}

NRT_STATUS nrt_set_pool_eng_ucode(const nrt_ucode_info*) {
  return absent("nrt_set_pool_eng_ucode", "a simulated engine has no microcode");
}
NRT_STATUS nrt_register_async_exec_callback(NRT_ASYNC_EXEC_STATUS_CALLBACK, void*) {
  return absent("nrt_register_async_exec_callback", "nrt_execute() returns when the execution is done");
}
NRT_STATUS nrt_async_drain_queued_execs(int32_t) { return NRT_SUCCESS; }
void* nrt_get_libnccl_net(int* err, char* err_msg, size_t err_msg_size) {
  if (err != nullptr) *err = 1;
  if (err_msg != nullptr && err_msg_size > 0) {
    std::strncpy(err_msg, kNetwork, err_msg_size - 1);
    err_msg[err_msg_size - 1] = 0;
  }
  return nullptr;
}

}  // extern "C"
