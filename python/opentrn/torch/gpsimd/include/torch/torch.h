// The tensor library of custom C++ operators, as the Neuron SDK's custom-ops-ref-guide.rst describes it: a
// part of PyTorch's names, for kernels that run on GpSimd here as there.
#ifndef OPENTRN_TORCH_GPSIMD_TORCH_H_
#define OPENTRN_TORCH_GPSIMD_TORCH_H_

#include "opentrn/functions.h"

#endif  // OPENTRN_TORCH_GPSIMD_TORCH_H_
