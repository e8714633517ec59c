// Result types of decompositions as custom calls.
#pragma once

#include "graph/shape/context.h"
#include "graph/solver_call.h"

namespace opentrn::graph::shape {

// A fault "custom_call.solver" for operands that the decomposition does not take.
Types solver(const Context& c, Solver kind);

}  // namespace opentrn::graph::shape
