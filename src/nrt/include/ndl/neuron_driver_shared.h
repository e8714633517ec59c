/* Numbers and structures that AWS's driver and its library share. OpenTrn's own text; names, numbers and
 * layouts: nrt/nrt_status.h says of what. Those of rings of DMA, notification queues and BARs are here so
 * that programs build: the functions that take them answer that a simulated machine has none. */
#pragma once

#include <linux/types.h>
#include <stddef.h>

#include "ndl/neuron_driver_shared_tensor_batch_op.h"

/* Of ndl_feature_supported(). */
enum neuron_driver_feature_flag {
  NEURON_DRIVER_FEATURE_DMABUF = 1ull << 0,
  NEURON_DRIVER_FEATURE_ASYNC_DMA = 1ull << 1,
  NEURON_DRIVER_FEATURE_BATCH_DMAQ_INIT = 1ull << 2,
  NEURON_DRIVER_FEATURE_BIG_CORE_MAPS = 1ull << 3,
  NEURON_DRIVER_FEATURE_MEM_ALLOC_TYPE = 1ull << 4,
  NEURON_DRIVER_FEATURE_HBM_SCRUB = 1ull << 5,
  NEURON_DRIVER_FEATURE_MEM_ALLOC64 = 1ull << 6,
  NEURON_DRIVER_FEATURE_CONTIGUOUS_SCRATCHPAD = 1ull << 7,
  NEURON_DRIVER_FEATURE_ZEROCOPY = 1ull << 8,
};

/* Of ndl_pod_info(): no UltraServer; one whose servers are wired to each other; one with switches. */
enum { NEURON_POD_TYPE_NONE = 0, NEURON_POD_TYPE_P2P, NEURON_POD_TYPE_SWITCH };

/* Of ndl_pod_election_state(). */
enum {
  NEURON_POD_E_STATE_NOT_STARTED = 0,
  NEURON_POD_E_STATE_IN_PROGRESS,
  NEURON_POD_E_STATE_ULTRASERVER,
  NEURON_POD_E_STATE_FAILED,
  NEURON_POD_E_STATE_SINGLE_NODE,
};
enum neuron_pod_ctrl_req {
  NEURON_NPE_POD_CTRL_REQ_POD = 0,
  NEURON_NPE_POD_CTRL_REQ_SINGLE_NODE = 1,
  NEURON_NPE_POD_CTRL_REQ_KILL = 2,
  NEURON_NPE_POD_CTRL_SET_MODE = 3,
};

/* Servers that work as one: 4, 2 of one axis or of the other, or 1. */
enum neuron_ultraserver_mode {
  NEURON_ULTRASERVER_MODE_UNSET = 0,
  NEURON_ULTRASERVER_MODE_X4 = 1,
  NEURON_ULTRASERVER_MODE_X2H = 2,
  NEURON_ULTRASERVER_MODE_X2V = 3,
  NEURON_ULTRASERVER_MODE_X1 = 4,
};
enum neuron_metrics_mode {
  NEURON_METRICS_MODE_PERIODIC_ENABLE = 0,
  NEURON_METRICS_MODE_PERIODIC_DISABLE = 1,
};
#define NEURON_NC_MAP_DEVICE (0xffffffff)
enum neuron_dma_queue_type {
  NEURON_DMA_QUEUE_TYPE_TX = 0,
  NEURON_DMA_QUEUE_TYPE_RX,
  NEURON_DMA_QUEUE_TYPE_COMPLETION,
};

/* Of ndl_nc_init_set_state(). */
enum neuron_cinit_state {
  NEURON_CINIT_STATE_STARTED = 1,
  NEURON_CINIT_STATE_COMPLETED,
  NEURON_CINIT_STATE_INVALID
};
struct neuron_dma_eng_state {
  __u32 revision_id;
  __u32 max_queues;
  __u32 num_queues;
  __u32 tx_state;
  __u32 rx_state;
};
struct neuron_dma_queue_state {
  __u32 hw_status;
  __u32 sw_status;
  __u64 base_addr;
  __u32 length;
  __u32 head_pointer;
  __u32 tail_pointer;
  __u64 completion_base_addr;
  __u32 completion_head;
};

/* Of ndl_memory_copy_as(). */
enum neuron_dma_h2t_ctx_handle_type {
  NEURON_DMA_H2T_CTX_HANDLE_NONE = -1,
  NEURON_DMA_H2T_CTX_HANDLE_SYNC = 0,
  NEURON_DMA_H2T_CTX_HANDLE_ASYNC1 = 1,
  NEURON_DMA_H2T_CTX_HANDLE_ASYNC2 = 2,
  NEURON_DMA_H2T_CTX_HANDLE_CNT = 3
};

/* The only queue that copies take here. */
#define NEURON_DMA_H2T_DEFAULT_QID (-1)
enum NQ_DEVICE_TYPE { NQ_DEVICE_TYPE_NEURON_CORE = 0, NQ_DEVICE_TYPE_TOPSP, NQ_DEVICE_TYPE_MAX };
enum NQ_TYPE {
  NQ_TYPE_TRACE = 0,
  NQ_TYPE_NOTIFY,
  NQ_TYPE_EVENT,
  NQ_TYPE_ERROR,
  NQ_TYPE_TRACE_DMA,
  NQ_TYPE_THROTTLE,
  NQ_TYPE_MAX
};
enum neuron_dm_block_type {
  NEURON_DM_BLOCK_INVALID = -1,
  NEURON_DM_BLOCK_TPB = 0,
  NEURON_DM_BLOCK_TOPSP = 1,
  NEURON_DM_BLOCK_HBM = 2
};
enum neuron_dm_resource_type {
  NEURON_DM_RESOURCE_SEMAPHORE = 0,
  NEURON_DM_RESOURCE_ALL = 1,
  NEURON_DM_RESOURCE_SBUF = 2,
  NEURON_DM_RESOURCE_DMEM = 3
};

/* What a loaded model is known by. OpenTrn's are 8 bytes of a digest, and zeros; of models
 * that nrt_load() has loaded zeros alone. */
struct neuron_uuid {
  __u8 value[32];
};
#define NEURON_MAX_PROCESS_PER_DEVICE 16
#define APP_INFO_PID_NC_LOCK_INFO (1)
#define APP_INFO_PID_MEM_USAGE (1 << 1)
#define APP_INFO_ALL (0xF)
#define APP_INFO_MAX_MODELS_PER_DEVICE (4)
#define NDS_INVALID_ID (-1)

/* A process of a device: which of its physical cores it holds (a bit each), its models, and bytes of memory.
 */
struct neuron_app_info {
  __s32 pid;
  __u8 nc_lock_map;
  struct neuron_uuid uuid_data[APP_INFO_MAX_MODELS_PER_DEVICE];
  size_t host_mem_size;
  size_t device_mem_size;
};

/* How a counter holds a version. */
typedef union nmetric_version {
  __extension__ struct {
    __u64 build_num : 32;
    __u64 minor_ver : 8;
    __u64 major_ver : 8;
    __u64 reserved : 16;
  };
  __u64 all;
} nmetric_version_t;

/* An allocation in an HBM: its address on the device, bytes, and mem_alloc_category_t. */
struct neuron_ioctl_mem_chunk_info {
  __u64 pa;
  __u64 size;
  __u32 mem_type;
};

/* Which core of which device a core of the machine is. */
#define NEURON_NC_MAP_MAX_ENTRIES 128
enum neuron_ioctl_nc_mapping_type {
  NEURON_IOCTL_NC_MAPPING_TYPE_V0 = 0,
};
struct neuron_ioctl_nc_map_entry {
  __u32 device_id;
  __u32 device_nc_idx;
};
struct neuron_ioctl_nc_map {
  __u32 num_entries;
  __extension__ struct neuron_ioctl_nc_map_entry mappings[];
};

/* Pieces of one allocation for ndl_memory_buf_batch_copy(). */
typedef struct neuron_memcpy_batch {
  __u64 mem_handle;
  __u64 mem_handle_offset;
  const nrt_tensor_batch_op_t* ops_ptr;
  __u32 num_ops;
  __u16 bar4_wr_threshold;
  __u16 flags;
  void* context;
} neuron_memcpy_batch_t;

/* What memory is for. Those of code, constants, scratchpads and tensors of a device are counted for
 * neuron-monitor. */
typedef enum {
  NEURON_MEMALLOC_TYPE_UNKNOWN_HOST,
  NEURON_MEMALLOC_TYPE_CODE_HOST,
  NEURON_MEMALLOC_TYPE_TENSORS_HOST,
  NEURON_MEMALLOC_TYPE_CONSTANTS_HOST,
  NEURON_MEMALLOC_TYPE_MISC_HOST,
  NEURON_MEMALLOC_TYPE_NCDEV_HOST,
  NEURON_MEMALLOC_TYPE_NOTIFICATION_HOST,
  NEURON_MEMALLOC_TYPE_UNKNOWN_DEVICE,
  NEURON_MEMALLOC_TYPE_CODE_DEVICE,
  NEURON_MEMALLOC_TYPE_TENSORS_DEVICE,
  NEURON_MEMALLOC_TYPE_CONSTANTS_DEVICE,
  NEURON_MEMALLOC_TYPE_SCRATCHPAD_DEVICE,
  NEURON_MEMALLOC_TYPE_MISC_DEVICE,
  NEURON_MEMALLOC_TYPE_NCDEV_DEVICE,
  NEURON_MEMALLOC_TYPE_COLLECTIVES_DEVICE,
  NEURON_MEMALLOC_TYPE_SCRATCHPAD_NONSHARED_DEVICE,
  NEURON_MEMALLOC_TYPE_NOTIFICATION_DEVICE,
  NEURON_MEMALLOC_TYPE_DMA_RINGS_HOST,
  NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE,
  NEURON_MEMALLOC_TYPE_CONTIGUOUS_SCRATCHPAD_DEVICE,
  NEURON_MEMALLOC_TYPE_MAX
} mem_alloc_category_t;

/* Counters of a device, and of a core, in nrt/nds/neuron_ds.h, which says which of them OpenTrn keeps. */
#define NDS_ND_COUNTER_RESERVED 18
enum {
  NDS_ND_COUNTER_RUNTIME_VERSION,
  NDS_ND_COUNTER_FRAMEWORK_VERSION,
  NDS_ND_COUNTER_FAL_VERSION,
  NDS_ND_COUNTER_FEATURE_BITMAP,
  NDS_ND_COUNTER_MIN_NEFF_VERSION,
  NDS_ND_COUNTER_MAX_NEFF_VERSION,
  NDS_ND_COUNTER_MEM_USAGE_CODE_HOST,
  NDS_ND_COUNTER_MEM_USAGE_TENSORS_HOST,
  NDS_ND_COUNTER_MEM_USAGE_CONSTANTS_HOST,
  NDS_ND_COUNTER_MEM_USAGE_SCRATCHPAD_HOST,
  NDS_ND_COUNTER_MEM_USAGE_MISC_HOST,
  NDS_ND_COUNTER_DYNAMIC_SYSFS_METRIC_BITMAP,
  NDS_ND_COUNTER_DEVICE_CLUSTER_ID,
  NDS_ND_COUNTER_COUNT = NDS_ND_COUNTER_DEVICE_CLUSTER_ID + NDS_ND_COUNTER_RESERVED + 1
};
#define NDS_NC_COUNTER_RESERVED 0
enum {
  NDS_NC_COUNTER_TIME_IN_USE = 0,
  NDS_NC_COUNTER_INFER_COMPLETED,
  NDS_NC_COUNTER_INFER_COMPLETED_WITH_ERR,
  NDS_NC_COUNTER_INFER_COMPLETED_WITH_NUM_ERR,
  NDS_NC_COUNTER_INFER_TIMED_OUT,
  NDS_NC_COUNTER_INFER_INCORRECT_INPUT,
  NDS_NC_COUNTER_INFER_FAILED_TO_QUEUE,
  NDS_NC_COUNTER_ERR_GENERIC,
  NDS_NC_COUNTER_ERR_NUMERICAL,
  NDS_NC_COUNTER_ERR_MODEL,
  NDS_NC_COUNTER_ERR_TRANSIENT,
  NDS_NC_COUNTER_ERR_HW,
  NDS_NC_COUNTER_ERR_RT,
  NDS_NC_COUNTER_LATENCY_DEVICE,
  NDS_NC_COUNTER_LATENCY_TOTAL,
  NDS_NC_COUNTER_NC_TIME,
  NDS_NC_COUNTER_GENERIC_FAIL,
  NDS_NC_COUNTER_ERR_RESOURCE,
  NDS_NC_COUNTER_ERR_RESOURCE_NC,
  NDS_NC_COUNTER_ERR_INVALID,
  NDS_NC_COUNTER_ERR_UNSUPPORTED_NEFF_VERSION,
  NDS_NC_COUNTER_CC_TIME,
  NDS_NC_COUNTER_MEM_USAGE_CODE_DEVICE,
  NDS_NC_COUNTER_MEM_USAGE_TENSORS_DEVICE,
  NDS_NC_COUNTER_MEM_USAGE_CONSTANTS_DEVICE,
  NDS_NC_COUNTER_MEM_USAGE_SCRATCHPAD_DEVICE,
  NDS_NC_COUNTER_MEM_USAGE_MISC_DEVICE,
  NDS_NC_COUNTER_MODEL_LOAD_COUNT,
  NDS_NC_COUNTER_INFERENCE_COUNT,
  NDS_NC_COUNTER_MAC_COUNT,
  NDS_NC_COUNTER_OOB,
  NDS_NC_COUNTER_COUNT = NDS_NC_COUNTER_OOB + NDS_NC_COUNTER_RESERVED + 1
};
#define NDS_MAX_NEURONCORE_COUNT (4)
#define NDS_EXT_MAX_NEURONCORE_COUNT (12)
#define NDS_EXT_NC_COUNTER_ADDED_RESERVED 54
enum {
  NDS_EXT_NC_COUNTER_HW_ERR_COLLECTIVES = NDS_NC_COUNTER_COUNT,
  NDS_EXT_NC_COUNTER_HW_ERR_HBM_UE,
  NDS_EXT_NC_COUNTER_HW_ERR_NC_UE,
  NDS_EXT_NC_COUNTER_HW_ERR_DMA_ABORT,
  NDS_EXT_NC_COUNTER_ERR_SW_NQ_OVERFLOW,
  NDS_EXT_NC_COUNTER_ERR_SW_SEMAPHORE_ERROR,
  NDS_EXT_NC_COUNTER_ERR_SW_EVENT_ERROR,
  NDS_EXT_NC_COUNTER_ERR_SW_PSUM_COLLISION,
  NDS_EXT_NC_COUNTER_ERR_SW_SEQUENCER_FATAL,
  NDS_EXT_NC_COUNTER_HW_ERR_REPAIRABLE_HBM_UE,
  NDS_EXT_NC_COUNTER_LAST,
  NDS_EXT_NC_COUNTER_COUNT =
      (int)NDS_EXT_NC_COUNTER_LAST - (int)NDS_NC_COUNTER_COUNT + NDS_EXT_NC_COUNTER_ADDED_RESERVED
};
#define NDS_TOTAL_NC_COUNTER_COUNT ((int)NDS_NC_COUNTER_COUNT + (int)NDS_EXT_NC_COUNTER_COUNT)

/* Where AWS's store of data has what. OpenTrn's is a file of another layout, and ndl_nds_open() refuses. */
typedef struct nds_header {
  char signature[4];
  int version;
} nds_header_t;
#define NDS_HEADER_START (0)
#define NDS_HEADER_SIZE (sizeof(nds_header_t))
#define NDS_ND_COUNTERS_START (NDS_HEADER_START + NDS_HEADER_SIZE)
#define NDS_ND_COUNTERS_SIZE (NDS_ND_COUNTER_COUNT * sizeof(uint64_t))
#define NDS_ND_COUNTERS(base_addr) ((uint64_t*)(base_addr + NDS_ND_COUNTERS_START))
#define NDS_NEURONCORE_COUNTERS_COUNT (NDS_NC_COUNTER_COUNT)
#define NDS_NEURONCORE_COUNTERS_START (NDS_ND_COUNTERS_START + NDS_ND_COUNTERS_SIZE)
#define NDS_NEURONCORE_COUNTERS_SIZE \
  (NDS_NEURONCORE_COUNTERS_COUNT * NDS_MAX_NEURONCORE_COUNT * sizeof(uint64_t))
#define NDS_NEURONCORE_COUNTERS(base_addr, nc_index) \
  ((uint64_t*)(base_addr + NDS_NEURONCORE_COUNTERS_START) + (nc_index * NDS_NEURONCORE_COUNTERS_COUNT))
#define NDS_EXT_NC_COUNTER_COUNT_OLD (65)
#define NDS_TOTAL_NC_COUNTER_COUNT_OLD (96)
#define NDS_EXT_NEURONCORE_COUNTERS_SIZE_OLD \
  (NDS_EXT_NC_COUNTER_COUNT_OLD * NDS_MAX_NEURONCORE_COUNT * sizeof(uint64_t))
#define NDS_EXT_NEURONCORE_NC_DATA_SIZE_OLD \
  (NDS_TOTAL_NC_COUNTER_COUNT_OLD * NDS_EXT_MAX_NEURONCORE_COUNT * sizeof(uint64_t))
#define NDS_EXT_SECTION_SIZE_OLD (NDS_EXT_NEURONCORE_COUNTERS_SIZE_OLD + NDS_EXT_NEURONCORE_NC_DATA_SIZE_OLD)
#define NDS_EXT_OFFSET_OLD (44588)
#define NDS_EXT_ALIGNMENT (64)
#define NDS_ALIGN(v) ((v) + (-(v) & (NDS_EXT_ALIGNMENT - 1)))
#define NDS_EXT_OFFSET (NDS_ALIGN(NDS_EXT_OFFSET_OLD + NDS_EXT_SECTION_SIZE_OLD))
#define NDS_EXT_NEURONCORE_COUNTERS_COUNT (NDS_EXT_NC_COUNTER_COUNT)
#define NDS_EXT_NEURONCORE_COUNTERS_START (NDS_EXT_OFFSET)
#define NDS_EXT_NEURONCORE_COUNTERS_SIZE \
  (NDS_EXT_NC_COUNTER_COUNT * NDS_MAX_NEURONCORE_COUNT * sizeof(uint64_t))
#define NDS_EXT_NEURONCORE_COUNTERS(base_addr, nc_index) \
  ((uint64_t*)(base_addr + NDS_EXT_NEURONCORE_COUNTERS_START) + (nc_index * NDS_EXT_NC_COUNTER_COUNT))
#define NDS_EXT_NEURONCORE_NC_DATA_PADDING (1)
#define NDS_EXT_NEURONCORE_NC_DATA_COUNT (NDS_TOTAL_NC_COUNTER_COUNT + NDS_EXT_NEURONCORE_NC_DATA_PADDING)
#define NDS_EXT_NEURONCORE_NC_DATA_START \
  (NDS_ALIGN(NDS_EXT_NEURONCORE_COUNTERS_START + NDS_EXT_NEURONCORE_COUNTERS_SIZE))
#define NDS_EXT_NEURONCORE_NC_DATA_SIZE \
  (NDS_EXT_MAX_NEURONCORE_COUNT * NDS_EXT_NEURONCORE_NC_DATA_COUNT * sizeof(uint64_t))
#define NDS_EXT_NEURONCORE_NC_DATA(base_addr, nc_index) \
  ((uint64_t*)(base_addr + NDS_EXT_NEURONCORE_NC_DATA_START) + (nc_index * NDS_EXT_NEURONCORE_NC_DATA_COUNT))
