// Decompositions as custom calls, in double.
#pragma once

#include "graph/eval/call.h"
#include "graph/solver_call.h"

namespace opentrn::graph::eval {

// The results of the call, one matrix after the other.
Items solver(const Call& call, Solver kind);

}  // namespace opentrn::graph::eval
