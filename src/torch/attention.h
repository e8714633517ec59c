// What decides whether attention of tensors that wrap others is one op.
#pragma once

#include <ATen/core/Tensor.h>

namespace opentrn::torch_device {

// Whether Python has a rule for the op of such a tensor, by its class (opentrn.torch.dtensor). Takes the
// interpreter lock.
bool wrapper_has_attention(const at::Tensor& tensor);

}  // namespace opentrn::torch_device
