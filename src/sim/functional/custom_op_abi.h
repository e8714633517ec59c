/* C interface of custom operators: user code that stands in for a C++ operator on the GpSimd Engine.
 *
 * A shared library exports the functions declared at the end; load_custom_op_library() calls them once.
 * Tensors are dense, row-major, partition first, and live only during the call.
 */
#ifndef OPENTRN_CUSTOM_OP_ABI_H_
#define OPENTRN_CUSTOM_OP_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OPENTRN_CUSTOM_OP_ABI_VERSION 1

typedef struct opentrn_tensor { /* NOLINT(readability-identifier-naming): C */
  void* data;
  const char* dtype; /* name as in nki.language, for example "bfloat16" */
  int32_t element_bytes;
  int32_t rank;
  const int64_t* shape;
} opentrn_tensor;

/* Returns 0, or another value after writing a reason into `message`. Outputs hold
   nothing defined before: write every element, what is not written is unwritten in the kernel too. */
typedef int (*opentrn_custom_op_function)(const opentrn_tensor* outputs, int32_t output_count,
                                          const opentrn_tensor* inputs, int32_t input_count, char* message,
                                          size_t message_bytes);

typedef struct opentrn_custom_op_entry { /* NOLINT(readability-identifier-naming): C */
  const char* name;
  opentrn_custom_op_function function;
} opentrn_custom_op_entry;

int32_t opentrn_custom_op_abi_version(void);
const opentrn_custom_op_entry* opentrn_custom_ops(size_t* count);
/* Optional: how long an operator takes on GpSimd, which its author states: nanoseconds, and the engine's
 * cycles for every element per partition of its longest operand (a 128th of an operand in HBM). Negative: not
 * stated. */
void opentrn_custom_op_time(const char* name, double* ns, double* cycles_per_element);

#ifdef __cplusplus
}
#endif

#endif /* OPENTRN_CUSTOM_OP_ABI_H_ */
