// Functions of libnrt whose subject a simulated device has not, or that OpenTrn does not have yet: each says
// so.
#include <cstring>

#include <fmt/format.h>

#include "nrt/include/nrt/nrt_async.h"
#include "nrt/include/nrt/nrt_experimental.h"
#include "nrt/state.h"

namespace {

NRT_STATUS absent(const char* function, const char* why) {
  return opentrn::nrt::refused(function, NRT_FAILURE, fmt::format("OpenTrn does not have this: {}", why));
}

constexpr const char* kCollectives = "collectives are in OpenTrn's JAX and PyTorch";
constexpr const char* kNetwork = "there is no network plugin of NCCL";

}  // namespace

extern "C" {

NRT_STATUS nrt_get_dmabuf_fd(uint64_t, uint64_t, int*) {
  return absent("nrt_get_dmabuf_fd",
                "no network adapter is there that would read a simulated device's memory");
}
NRT_STATUS nrt_get_attached_efa_bdf(const void*, char*, size_t*) {
  return absent("nrt_get_attached_efa_bdf", "no network adapter is attached");
}
NRT_STATUS nrt_set_pool_eng_ucode(const nrt_ucode_info*) {
  return absent("nrt_set_pool_eng_ucode", "a simulated engine has no microcode");
}
NRT_STATUS nrta_cc_prepare(nrt_cc_comm_t*, nrt_tensor_list_t*, nrt_tensor_list_t*, nrt_dtype_t, nrt_op_type_t,
                           nrt_cc_op_type_t, nrt_cc_context_t**) {
  return absent("nrta_cc_prepare", kCollectives);
}
NRT_STATUS nrta_cc_schedule(nrt_cc_context_t**, int, nrta_error_tracker_t*, nrta_seq_t*) {
  return absent("nrta_cc_schedule", kCollectives);
}
void* nrt_get_libnccl_net(int* err, char* err_msg, size_t err_msg_size) {
  if (err != nullptr) *err = 1;
  if (err_msg != nullptr && err_msg_size > 0) {
    std::strncpy(err_msg, kNetwork, err_msg_size - 1);
    err_msg[err_msg_size - 1] = 0;
  }
  return nullptr;
}

}  // extern "C"
