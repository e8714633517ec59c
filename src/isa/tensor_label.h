// What a message calls a tensor.
#pragma once

#include <string>

#include "isa/program.h"

namespace opentrn::isa {

// "'scores'"; without a name "tensor %12 (sbuf, float32 [128, 512], allocated at kernel.py:17)".
std::string tensor_label(const Program& program, TensorId id);

}  // namespace opentrn::isa
