/* What the functions of libnrt answer.
 *
 * OpenTrn's own text. Names and numbers are those of AWS's header of this name, as published in the
 * repository aws-neuron/aws-neuron-sdk (src/libnrt/include) and in its "Neuron Runtime API" pages, so that a
 * program which was written for one builds against the other. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  NRT_SUCCESS = 0,
  NRT_FAILURE = 1, /* also: OpenTrn has no such function; opentrn_nrt_last_message() says why */
  NRT_INVALID = 2, /* a program, a name, a size or another argument that does not fit */
  NRT_INVALID_HANDLE = 3,
  NRT_RESOURCE = 4, /* the core's HBM has no room */
  NRT_TIMEOUT = 5,
  NRT_HW_ERROR = 6,
  NRT_QUEUE_FULL = 7,
  NRT_LOAD_NOT_ENOUGH_NC = 9,
  NRT_UNSUPPORTED_NEFF_VERSION = 10, /* also: a NEFF of AWS's compiler */
  NRT_FAIL_HOST_MEM_ALLOC = 11,
  NRT_UNINITIALIZED = 13,
  NRT_CLOSED = 14,
  NRT_QUEUE_EMPTY = 15,
  NRT_EXEC_UNIT_UNRECOVERABLE = 101,
  NRT_EXEC_BAD_INPUT = 1002,
  NRT_EXEC_COMPLETED_WITH_NUM_ERR = 1003,
  NRT_EXEC_COMPLETED_WITH_ERR = 1004,
  NRT_EXEC_NC_BUSY = 1005,
  NRT_EXEC_OOB = 1006,
  NRT_COLL_PENDING = 1100,
  NRT_EXEC_HW_ERR_COLLECTIVES = 1200,
  NRT_EXEC_HW_ERR_HBM_UE = 1201,
  NRT_EXEC_HW_ERR_NC_UE = 1202,
  NRT_EXEC_HW_ERR_DMA_ABORT = 1203,
  NRT_EXEC_SW_NQ_OVERFLOW = 1204,
  NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE = 1205,
  NRT_NETWORK_PROXY_FAILURE = 1206,
} NRT_STATUS;

/* The name above, "NRT_UNKNOWN" of any other number; static. */
const char* nrt_get_status_as_str(NRT_STATUS status);

#ifdef __cplusplus
}
#endif
