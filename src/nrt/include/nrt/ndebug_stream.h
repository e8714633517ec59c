/* What kernels print (nl.device_print) while a model executes. OpenTrn's own text; names and layouts:
 * nrt_status.h says of what.
 *
 * One stream for each visible core, of this process. It holds NEURON_RT_DEBUG_STREAM_BUFFER_SIZE events,
 * 65536 without it; what comes when it is full is dropped. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nrt/nrt_status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ndebug_stream_event_type {
  NDEBUG_STREAM_EVENT_TYPE_INVALID = 0,
  NDEBUG_STREAM_EVENT_TYPE_DEBUG_TENSOR_READ = 1,
} ndebug_stream_event_type_t;

/* data_size: bytes of the payload. */
typedef struct ndebug_stream_event_header {
  uint64_t data_size;
  uint32_t type;
  char reserved[52];
} ndebug_stream_event_header_t;

/* prefix: the text, cut to fit. tensor_dtype: the name of the type ("float32"). tensor_shape: 0 behind the
 * last dimension; a tensor of more than 8 is flat. pipe: 0. */
typedef struct ndebug_stream_payload_debug_tensor_read {
  char prefix[512];
  uint32_t logical_nc_id;
  uint32_t pipe;
  char tensor_dtype[16];
  uint64_t tensor_shape[8];
  uint64_t tensor_data_size;
  char reserved0[416];
  __extension__ char tensor_data[];
} ndebug_stream_payload_debug_tensor_read_t;

/* stream_fd becomes readable when there is an event. NRT_INVALID: no visible core, or one that has a client.
 */
NRT_STATUS nrt_debug_client_connect(int logical_nc_idx, int* stream_fd);
void nrt_debug_client_connect_close(int stream_fd);

/* free() the payload. NRT_QUEUE_EMPTY where there is no event; NRT_INVALID_HANDLE of no stream. */
NRT_STATUS nrt_debug_client_read_one_event(int stream_fd, ndebug_stream_event_header_t* header,
                                           void** payload);

#ifdef __cplusplus
}
#endif
