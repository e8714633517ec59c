// Streams of what kernels print while models execute (ndebug_stream.h), one for each visible core.
#pragma once

#include <cstddef>

#include "sim/functional/core.h"

namespace opentrn::nrt {

// What takes the prints of an execution on a core; nothing where nobody listens to it.
sim::PrintCallback prints_of(size_t core);

}  // namespace opentrn::nrt
