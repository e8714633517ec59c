/* Counters and facts of the processes that hold cores, between processes. OpenTrn's own text; names and
 * layouts: nrt/nrt_status.h says of what.
 *
 * Functions answer 0, or -1 with errno (ndl/ndl.h); pointers are null where a call fails. Cores are physical
 * ones of the device, counters NDS_NC_... and NDS_ND_... of ndl/neuron_driver_shared.h.
 *
 * The simulated device counts these, as neuron-monitor shows them: TIME_IN_USE (nanoseconds of predicted time
 * that the physical core was busy), NC_TIME (of executions), INFER_COMPLETED, INFER_COMPLETED_WITH_ERR,
 * INFER_INCORRECT_INPUT, INFERENCE_COUNT, ERR_GENERIC, MODEL_LOAD_COUNT, MAC_COUNT, MEM_USAGE_CODE, _TENSORS,
 * _CONSTANTS, _SCRATCHPAD of the device; of a device RUNTIME_VERSION. What counts for a logical core of two
 * stands with the first. All others are 0 until a program counts them, and what a program adds to or sets is
 * added to what the device counts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ndl/ndl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A copy of an object, of this process; nds_obj_delete() frees it. */
typedef void* nds_obj_handle_t;
#define OBJECT_TYPE_MODEL_NODE_INFO (0)
#define OBJECT_TYPE_PROCESS_INFO (1)
#define OBJECT_TYPE_PROCESS_INFO_EXT (2)

/* 0: of the host, 1: of the device. */
#define MODEL_MEM_USAGE_LOCATION_COUNT 2
enum {
  NDS_DMA_MEM_USAGE_SLOT_CODE,
  NDS_DMA_MEM_USAGE_SLOT_TENSORS,
  NDS_DMA_MEM_USAGE_SLOT_CONSTANTS,
  NDS_DMA_MEM_USAGE_SLOT_SCRATCHPAD,
  NDS_DMA_MEM_USAGE_SLOT_MISC,
  NDS_DMA_MEM_USAGE_SLOT_COUNT = 12
};
typedef struct nds_mem_usage_info {
  size_t total_size;
  uint32_t chunk_count;
} nds_mem_usage_info_t;

/* A loaded model. nc_index: the core on its device. */
typedef struct nds_model_node_info {
  uint32_t model_id;
  uint32_t model_node_id;
  char name[256];
  char uuid[16];
  uint8_t nc_index;
  uint8_t sg_index;
} nds_model_node_info_t;
typedef struct nds_model_node_mem_usage_info {
  nds_mem_usage_info_t model_mem_usage[MODEL_MEM_USAGE_LOCATION_COUNT][NDS_DMA_MEM_USAGE_SLOT_COUNT];
} nds_model_node_mem_usage_info_t;
typedef struct nds_version_info {
  uint8_t major;
  uint8_t minor;
  uint32_t build;
} nds_version_info_t;

/* tag: NEURON_PROCESS_TAG, else the process's number. */
typedef struct nds_process_info {
  int8_t framework_type;
  char tag[32];
  nds_version_info_t framework_version;
  nds_version_info_t fal_version;
  nds_version_info_t runtime_version;
} nds_process_info_t;
typedef struct nds_process_info_ext {
  char tag[256];
} nds_process_info_ext_t;
typedef struct nds_instance nds_instance_t;

/* Bits of NDS_ND_COUNTER_FEATURE_BITMAP. */
typedef enum feature_bitmap_bit_index {
  BIT_INDEX_TEST_FEATURE = 0,
  BIT_INDEX_MULTICORE_FEATURE = 1,
  BIT_INDEX_COUNT = BIT_INDEX_MULTICORE_FEATURE + 1
} feature_bitmap_bit_index_t;

/* pid 0: this process's own, which can be written. Of another one it is read only (EACCES), and there while
 * that one is listed in neuron-ls; ENOENT else. */
int nds_open(ndl_device_t* device, pid_t pid, nds_instance_t** inst);
int nds_close(nds_instance_t* inst);

/* Modulo 2^64. */
int nds_increment_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index, uint64_t increment);
int nds_decrement_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index, uint64_t decrement);
int nds_get_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index, uint64_t* value);
int nds_set_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index, uint64_t* value);
int nds_increment_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t increment);
int nds_decrement_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t decrement);

/* bit_index: the number of the bit, below 64. */
int nds_or_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t bit_index);
int nds_get_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t* value);
int nds_set_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t* value);

/* Writes it into the store: ENOSPC where 64 models stand there. */
int nds_obj_commit(nds_obj_handle_t obj);

/* type: OBJECT_TYPE_... */
nds_obj_handle_t nds_obj_new(nds_instance_t* inst, int type);

/* The copy, and what nds_obj_commit() wrote of it. A model that the runtime has loaded stays. */
int nds_obj_delete(nds_obj_handle_t obj);
nds_model_node_info_t* nds_obj_handle_to_model_node_info(nds_obj_handle_t obj);
nds_model_node_mem_usage_info_t* nds_obj_handle_to_model_node_mem_usage(nds_obj_handle_t obj);

/* Loaded models and committed ones; free() the array, delete each object. 64 of each at most. */
int nds_read_all_model_nodes(nds_instance_t* inst, nds_obj_handle_t** models, size_t* count);
nds_process_info_t* nds_obj_handle_to_process_info(nds_obj_handle_t obj);
nds_process_info_ext_t* nds_obj_handle_to_process_info_ext(nds_obj_handle_t obj);
nds_obj_handle_t nds_read_process_info(nds_instance_t* inst);
nds_obj_handle_t nds_read_process_info_ext(nds_instance_t* inst);

#ifdef __cplusplus
}
#endif
