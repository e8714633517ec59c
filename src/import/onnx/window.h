// Windows of convolution and pooling: kernel_shape, strides, pads, auto_pad, ceil_mode.
#pragma once

#include "import/onnx/node.h"

namespace opentrn::import::onnx {

// One entry per spatial dimension of an input [N, C, spatial..]. `kernel` is used where the node has no
// kernel_shape.
std::vector<WindowDim> windows_of(const Node& n, const Dims& spatial, Dims kernel);
// Number of places of a window in `size`; with `ceil_mode` a last one that starts inside may hang over.
int64_t window_places(int64_t size, const WindowDim& window, bool ceil_mode = false);

}  // namespace opentrn::import::onnx
