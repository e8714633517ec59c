// Functions of the published headers whose subject a simulated machine has not. Each says which that is, and
// answers as AWS's do where there is no device.
//
// Their parameters do not matter: nothing of a caller's is read.
#include <cerrno>

#include <fmt/format.h>

#include "nrt/include/nrt/nrt.h"
#include "nrt/state.h"

namespace {

NRT_STATUS below(const char* function, const char* why) {
  errno = ENOTSUP;
  return opentrn::nrt::refused(function, NRT_FAILURE, fmt::format("OpenTrn does not have this: {}", why));
}

constexpr const char* kRegisters = "a simulated device has no registers and no BARs";
constexpr const char* kRings = "copies of a simulated device need no rings of DMA descriptors";
constexpr const char* kQueues = "the engines of a simulated core write no notification queues";
constexpr const char* kReset =
    "nothing of a simulated core is left from one program to the next that a reset would end";
constexpr const char* kScrub =
    "a whole HBM would have to be there in this host's memory; memory is zero when it is given";
constexpr const char* kClocks =
    "the clocks of a simulated device are those of its tables, and it is never throttled";
constexpr const char* kProxy =
    "collectives inside of programs have no thread of the host that sends for them";
constexpr const char* kPorts = "which port of a device leads where is not published";

}  // namespace

// int: -1, as of a call of the driver that fails; a size: 0.
#define OPENTRN_BELOW_INT(name, why) \
  int name(void) {                   \
    below(#name, why);               \
    return -1;                       \
  }
#define OPENTRN_BELOW_STATUS(name, why) \
  NRT_STATUS name(void) { return below(#name, why); }
#define OPENTRN_BELOW_VOID(name, why) \
  void name(void) { below(#name, why); }
#define OPENTRN_BELOW_SIZE(name, why) \
  size_t name(void) {                 \
    below(#name, why);                \
    return 0;                         \
  }

extern "C" {

// nrt/nec.h
OPENTRN_BELOW_VOID(nec_inc_semaphore, kProxy)
OPENTRN_BELOW_SIZE(nec_get_dynamic_send_size_bytes, kProxy)
OPENTRN_BELOW_SIZE(nec_get_dynamic_send_offset_bytes, kProxy)
OPENTRN_BELOW_SIZE(nec_get_dynamic_recv_offset_bytes, kProxy)
OPENTRN_BELOW_VOID(nec_set_recv_size_bytes, kProxy)
OPENTRN_BELOW_INT(nec_get_peer_mla_idx, kPorts)
OPENTRN_BELOW_INT(nec_get_p2p_pod_peer_node, kPorts)
OPENTRN_BELOW_STATUS(nec_pod_node_can_access_peer_node,
                     "which devices of an UltraServer's servers see each other is not published")

// ndl/ndl.h
OPENTRN_BELOW_INT(ndl_bar_read, kRegisters)
OPENTRN_BELOW_INT(ndl_bar_write, kRegisters)
OPENTRN_BELOW_INT(ndl_read_hw_counters, kRegisters)
OPENTRN_BELOW_INT(ndl_mmap_bar_region, kRegisters)
OPENTRN_BELOW_INT(ndl_mem_get_mc_mmap_info,
                  "there is no file of a device to map; ndl_memory_map() gives the address")
OPENTRN_BELOW_INT(ndl_program_engine, "a simulated engine has no memory of instructions")
OPENTRN_BELOW_INT(ndl_dma_eng_set_state, kRings)
OPENTRN_BELOW_INT(ndl_dma_eng_get_state, kRings)
OPENTRN_BELOW_INT(ndl_dma_queue_get_state, kRings)
OPENTRN_BELOW_INT(ndl_dma_descriptor_copyout, kRings)
OPENTRN_BELOW_INT(ndl_dma_queue_init, kRings)
OPENTRN_BELOW_INT(ndl_dma_queue_init_batch, kRings)
OPENTRN_BELOW_INT(ndl_dma_queue_release, kRings)
OPENTRN_BELOW_INT(ndl_dma_queue_copy_start, kRings)
OPENTRN_BELOW_INT(ndl_dma_ack_completed_desc, kRings)
OPENTRN_BELOW_INT(ndl_dma_copy_descriptors, kRings)
OPENTRN_BELOW_INT(ndl_h2t_dma_queue_alloc, kRings)
OPENTRN_BELOW_INT(ndl_h2t_dma_queue_free, kRings)
OPENTRN_BELOW_INT(ndl_reset_ncs, kReset)
OPENTRN_BELOW_INT(ndl_ready_ncs, kReset)
OPENTRN_BELOW_INT(ndl_notification_init, kQueues)
OPENTRN_BELOW_INT(ndl_notification_init_with_realloc, kQueues)
OPENTRN_BELOW_INT(ndl_notification_get_mem_handle, kQueues)
OPENTRN_BELOW_INT(ndl_notification_get_size, kQueues)
OPENTRN_BELOW_INT(ndl_notification_map, kQueues)
OPENTRN_BELOW_INT(ndl_notification_destroy, kQueues)
OPENTRN_BELOW_INT(ndl_nds_open, "the store of data is not a memory of AWS's layout; nds_open() reads it")
OPENTRN_BELOW_INT(ndl_nds_close, "the store of data is not a memory of AWS's layout; nds_open() reads it")
OPENTRN_BELOW_INT(ndl_get_dmabuf_fd,
                  "no network adapter is there that would read a simulated device's memory")
OPENTRN_BELOW_INT(ndl_hbm_scrub_start, kScrub)
OPENTRN_BELOW_INT(ndl_hbm_scrub_wait, kScrub)
OPENTRN_BELOW_INT(ndl_pod_ctrl, "the servers of a simulated UltraServer hold no election")
OPENTRN_BELOW_INT(ndl_set_performance_profile, kClocks)
OPENTRN_BELOW_INT(ndl_enable_throttling_notifications, kClocks)
OPENTRN_BELOW_INT(ndl_metrics_ctrl, "no driver posts metrics; neuron-monitor reads the processes' records")

}  // extern "C"
