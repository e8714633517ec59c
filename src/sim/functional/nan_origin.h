// Option nan_origin: finds the instruction that made the first NaN.
#pragma once

#include "sim/functional/context.h"

namespace opentrn::sim {

// Runs the body between two searches: NaN in an output when no input held one is Fault "sim.nan_origin".
void execute_tracing_nan(Context& context, void (*body)(Context&));

}  // namespace opentrn::sim
