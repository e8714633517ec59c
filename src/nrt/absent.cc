// Functions of libnrt whose subject a simulated device has not, or that OpenTrn does not have yet: each says
// so.
#include <cstring>

#include <fmt/format.h>

#include "nrt/include/nrt/nrt_async_sendrecv.h"
#include "nrt/include/nrt/nrt_experimental.h"
#include "nrt/include/nrt/nrt_profile.h"
#include "nrt/state.h"

namespace {

NRT_STATUS absent(const char* function, const char* why, NRT_STATUS status = NRT_FAILURE) {
  return opentrn::nrt::refused(function, status, fmt::format("OpenTrn does not have this: {}", why));
}

NRT_STATUS alone(const char* function, uint32_t id, uint32_t count) {
  if (count == 1 && id == 0) return NRT_SUCCESS;
  return absent(
      function,
      fmt::format("device {} of {}; collectives are in OpenTrn's JAX and PyTorch", id, count).c_str());
}

constexpr const char* kNetwork = "there is no network between hosts";
constexpr const char* kInspect =
    "profile single executions (nrt_profile_start), or trace events (nrt_sys_trace_start)";

}  // namespace

extern "C" {

NRT_STATUS nrt_build_global_comm(int32_t /*vnc*/, uint32_t id, uint32_t count) {
  return alone("nrt_build_global_comm", id, count);
}
NRT_STATUS nrt_cc_global_comm_init(uint32_t /*vnc*/, uint32_t id, uint32_t count) {
  return alone("nrt_cc_global_comm_init", id, count);
}
NRT_STATUS nrt_barrier(int32_t /*vnc*/, uint32_t id, uint32_t count) {
  return alone("nrt_barrier", id, count);
}
NRT_STATUS nrt_all_gather(int32_t /*vnc*/, uint32_t id, uint32_t count, uint32_t size, void* input,
                          void* output) {
  if (const NRT_STATUS status = alone("nrt_all_gather", id, count); status != NRT_SUCCESS) return status;
  if (size > 0 && (input == nullptr || output == nullptr))
    return opentrn::nrt::refused("nrt_all_gather", NRT_INVALID, "a buffer is null");
  if (size > 0) std::memmove(output, input, size);
  return NRT_SUCCESS;
}

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

NRT_STATUS nrt_trace_start(bool) { return absent("nrt_trace_start", kInspect); }
NRT_STATUS nrt_trace_stop(const char*) { return absent("nrt_trace_stop", kInspect); }
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

NRT_STATUS nrt_profile_continuous_options_allocate(nrt_profile_continuous_options_t**) {
  return absent("nrt_profile_continuous_options_allocate", kInspect);
}
NRT_STATUS nrt_profile_continuous_options_free(nrt_profile_continuous_options_t*) {
  return absent("nrt_profile_continuous_options_free", kInspect);
}
NRT_STATUS nrt_profile_continuous_options_set_output_dir(nrt_profile_continuous_options_t*, const char*) {
  return absent("nrt_profile_continuous_options_set_output_dir", kInspect);
}
NRT_STATUS nrt_profile_continuous_start(nrt_profile_continuous_options_t*) {
  return absent("nrt_profile_continuous_start", kInspect);
}
NRT_STATUS nrt_profile_continuous_save(uint32_t, nrt_profile_continuous_options_t*) {
  return absent("nrt_profile_continuous_save", kInspect);
}
NRT_STATUS nrt_profile_continuous_stop(void) { return absent("nrt_profile_continuous_stop", kInspect); }

NRT_STATUS nrt_inspect_begin(void) { return absent("nrt_inspect_begin", kInspect); }
NRT_STATUS nrt_inspect_stop(void) { return absent("nrt_inspect_stop", kInspect); }
NRT_STATUS nrt_inspect_begin_with_options(nrt_inspect_config_t*) {
  return absent("nrt_inspect_begin_with_options", kInspect);
}
NRT_STATUS nrt_inspect_config_allocate(nrt_inspect_config_t**) {
  return absent("nrt_inspect_config_allocate", kInspect);
}
NRT_STATUS nrt_inspect_config_set_defaults(nrt_inspect_config_t*) {
  return absent("nrt_inspect_config_set_defaults", kInspect);
}
NRT_STATUS nrt_inspect_config_free(nrt_inspect_config_t*) {
  return absent("nrt_inspect_config_free", kInspect);
}
NRT_STATUS nrt_inspect_config_set_session_id(nrt_inspect_config_t*, int) {
  return absent("nrt_inspect_config_set_session_id", kInspect);
}
NRT_STATUS nrt_inspect_config_set_output_dir(nrt_inspect_config_t*, const char*) {
  return absent("nrt_inspect_config_set_output_dir", kInspect);
}
NRT_STATUS nrt_inspect_config_set_sys_trace_max_events_per_nc(nrt_inspect_config_t*, uint64_t) {
  return absent("nrt_inspect_config_set_sys_trace_max_events_per_nc", kInspect);
}
NRT_STATUS nrt_inspect_config_set_capture_enabled_for_nc(nrt_inspect_config_t*, uint32_t, bool) {
  return absent("nrt_inspect_config_set_capture_enabled_for_nc", kInspect);
}
NRT_STATUS nrt_inspect_config_set_capture_enabled_for_event_type_string(nrt_inspect_config_t*, const char*,
                                                                        bool) {
  return absent("nrt_inspect_config_set_capture_enabled_for_event_type_string", kInspect);
}
NRT_STATUS nrt_inspect_config_set_enable_inspect(nrt_inspect_config_t*, bool) {
  return absent("nrt_inspect_config_set_enable_inspect", kInspect);
}
NRT_STATUS nrt_inspect_config_set_enable_inspect_on_fail(nrt_inspect_config_t*, bool) {
  return absent("nrt_inspect_config_set_enable_inspect_on_fail", kInspect);
}
NRT_STATUS nrt_inspect_config_get_all_activity_types(const char***, size_t*) {
  return absent("nrt_inspect_config_get_all_activity_types", kInspect);
}
NRT_STATUS nrt_inspect_config_get_enabled_activity_types(nrt_inspect_config_t*, const char***, size_t*) {
  return absent("nrt_inspect_config_get_enabled_activity_types", kInspect);
}
void nrt_inspect_config_free_activity_types(const char**, size_t) {}
NRT_STATUS nrt_inspect_config_set_activity(nrt_inspect_config_t*, const char*, bool) {
  return absent("nrt_inspect_config_set_activity", kInspect);
}

NRT_STATUS nrt_async_sendrecv_get_max_num_communicators_per_lnc(int*) {
  return absent("nrt_async_sendrecv_get_max_num_communicators_per_lnc", kNetwork);
}
NRT_STATUS nrt_async_sendrecv_get_max_num_pending_request(int*) {
  return absent("nrt_async_sendrecv_get_max_num_pending_request", kNetwork);
}
NRT_STATUS nrt_async_sendrecv_init(int) { return absent("nrt_async_sendrecv_init", kNetwork); }
NRT_STATUS nrt_async_sendrecv_close(int) { return absent("nrt_async_sendrecv_close", kNetwork); }
NRT_STATUS nrt_async_sendrecv_connect(const char*, int, int, nrt_async_sendrecv_comm_t**) {
  return absent("nrt_async_sendrecv_connect", kNetwork);
}
NRT_STATUS nrt_async_sendrecv_accept(const char*, int, int, nrt_async_sendrecv_comm_t**) {
  return absent("nrt_async_sendrecv_accept", kNetwork);
}
NRT_STATUS nrt_async_sendrecv_test_comm(nrt_async_sendrecv_comm_t*, bool*) {
  return absent("nrt_async_sendrecv_test_comm", kNetwork);
}
NRT_STATUS nrt_async_sendrecv_send_tensor(nrt_tensor_t*, size_t, size_t, nrt_async_sendrecv_comm_t*,
                                          nrt_async_sendrecv_request_t**) {
  return absent("nrt_async_sendrecv_send_tensor", kNetwork);
}
NRT_STATUS nrt_async_sendrecv_recv_tensor(nrt_tensor_t*, size_t, size_t, nrt_async_sendrecv_comm_t*,
                                          nrt_async_sendrecv_request_t**) {
  return absent("nrt_async_sendrecv_recv_tensor", kNetwork);
}
NRT_STATUS nrt_async_sendrecv_test_request(nrt_async_sendrecv_request_t*, bool*, size_t*) {
  return absent("nrt_async_sendrecv_test_request", kNetwork);
}
NRT_STATUS nrt_async_sendrecv_flush(int) { return absent("nrt_async_sendrecv_flush", kNetwork); }

}  // extern "C"
