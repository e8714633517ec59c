// A tensor of the device as one of the host, on the same memory.
#pragma once

#include <ATen/core/Tensor.h>

namespace opentrn::torch_device {

// Sizes, strides, conjugate and negative bits are those of `tensor`, which must outlive the result.
at::Tensor host_view(const at::Tensor& tensor);

// The same, to be read alone: memory that tensors share until one of them is written stays shared.
at::Tensor read_view(const at::Tensor& tensor);

}  // namespace opentrn::torch_device
