// Which core of GpSimd a kernel runs on. Source: custom-ops-ref-guide.rst, "Using multiple GPSIMD cores".
#ifndef OPENTRN_TORCH_GPSIMD_NEURON_UTILS_H_
#define OPENTRN_TORCH_GPSIMD_NEURON_UTILS_H_

#include "opentrn/call.h"

inline uint32_t get_cpu_id() { return torch::neuron::in_kernel("get_cpu_id").core; }
inline uint32_t get_cpu_count() {
  return torch::neuron::in_kernel("get_cpu_count").is_multicore ? torch::neuron::kCores : 1;
}

#endif  // OPENTRN_TORCH_GPSIMD_NEURON_UTILS_H_
