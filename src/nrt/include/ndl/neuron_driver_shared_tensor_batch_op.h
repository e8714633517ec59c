/* One piece of a tensor that is read or written with others (nrt_tensor_read_batch). Names and layout:
 * nrt_status.h says of what. */
#pragma once

#include <stdint.h>

typedef uint64_t nrt_tensor_batch_offset_t;
typedef uint64_t nrt_tensor_batch_size_t;

typedef struct nrt_tensor_batch_op {
  nrt_tensor_batch_offset_t offset; /* into the tensor, in bytes */
  nrt_tensor_batch_size_t size;     /* in bytes */
  void* buffer;                     /* of the caller */
} nrt_tensor_batch_op_t;
