/* What a model takes and gives, and calls that most programs do not need. Names and layouts: nrt_status.h
 * says of what. */
#pragma once

#include "nrt/nrt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nrt_tensor_usage {
  NRT_TENSOR_USAGE_INPUT = 0,
  NRT_TENSOR_USAGE_OUTPUT,
} nrt_tensor_usage_t;

#define NRT_TENSOR_NAME_MAX 256

typedef struct nrt_tensor_info {
  char name[NRT_TENSOR_NAME_MAX];
  nrt_tensor_usage_t usage;
  size_t size; /* bytes */
  nrt_dtype_t
      dtype;       /* the model's own; 8-bit floats are INT8 and truth values UINT8, as in AWS's containers */
  uint32_t* shape; /* ndim numbers; of a scalar one, 1 */
  uint32_t ndim;
} nrt_tensor_info_t;

typedef struct nrt_tensor_info_array {
  uint64_t tensor_count;
  __extension__ nrt_tensor_info_t tensor_array[];
} nrt_tensor_info_array_t;

/* Inputs, then outputs, in the model's order. */
NRT_STATUS nrt_get_model_tensor_info(nrt_model_t* model, nrt_tensor_info_array_t** tensor_info);
NRT_STATUS nrt_free_model_tensor_info(nrt_tensor_info_array_t* tensor_info);
/* 1. */
NRT_STATUS nrt_get_model_instance_count(nrt_model_t* model, uint32_t* instance_count);

typedef struct nrt_model_info {
  uint32_t vnc;
} nrt_model_info_t;
NRT_STATUS nrt_get_model_info(const nrt_model_t* model, nrt_model_info_t* info, size_t info_size_in,
                              size_t* info_size_out);

/* Into memory that nrt_tensor_get_va() names. */
NRT_STATUS nrt_memcpy_to_device(void* dest, const void* src, size_t size);

/* Devices of a group, of one process or several, meet at NEURON_RT_ROOT_COMM_ID=HOST:PORT, where device 0
 * listens. NRT_TIMEOUT after 30 s, NRT_INVALID where they do not call the same. */
NRT_STATUS nrt_barrier(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count);
NRT_STATUS nrt_all_gather(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count,
                          uint32_t rank_input_size, void* input, void* output);

/* The events of nrt_sys_trace.h, of all cores, written as JSON when they end. NRT_FAILURE with trace_mem. */
NRT_STATUS nrt_trace_start(bool trace_mem);
NRT_STATUS nrt_trace_stop(const char* filename);

/* NRT_FAILURE: a simulated engine has no microcode. */
typedef struct nrt_ucode_img {
  uint8_t* bin;
  size_t size;
} nrt_ucode_img;
typedef struct nrt_ucode_info {
  nrt_ucode_img iram;
  nrt_ucode_img dram;
} nrt_ucode_info;
NRT_STATUS nrt_set_pool_eng_ucode(const nrt_ucode_info* ucode_info);

/* Called when an execution of nrta_execute_schedule() has ended, by the thread that asked for it and before
 * that call returns; of nrt_execute() and nrt_execute_repeat() too where
 * NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS is above 0, which also answer the status. job_id counts from 1.
 */
typedef void (*NRT_ASYNC_EXEC_STATUS_CALLBACK)(void* params, uint32_t model_id, uint32_t vnc, uint64_t job_id,
                                               NRT_STATUS status);
NRT_STATUS nrt_register_async_exec_callback(NRT_ASYNC_EXEC_STATUS_CALLBACK callback, void* params);
/* Nothing is ever queued. */
NRT_STATUS nrt_async_drain_queued_execs(int32_t vnc);
/* Null, *err = 1 and a message. */
void* nrt_get_libnccl_net(int* err, char* err_msg, size_t err_msg_size);

#ifdef __cplusplus
}
#endif
