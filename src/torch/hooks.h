// What PyTorch asks of a device outside of ops.
#pragma once

namespace opentrn::torch_device {

void register_hooks();

}  // namespace opentrn::torch_device
