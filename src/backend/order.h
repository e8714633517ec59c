// The order in which instructions are issued.
//
// A rough run of the program (estimate.h) gives every instruction an expected start; the order is by that.
// Compute engines keep program order unless `look_ahead` lets them pick a later instruction whose inputs
// are ready. DMA triggers always go by readiness, so that a load is issued as soon as its buffer is free
// and a store does not hold up the loads behind it. Under Options::neuronx_cc transfers that are ready at
// once go by when the first result that depends on them leaves the core, not by program order: K before most
// of Q in an attention kernel that loads both in one loop. Of activations that are ready, those whose
// function's table was loaded last go first, since a load takes as long as a thousand elements; not under
// Options::neuronx_cc, whose order published kernels show. Collectives keep the order of the program:
// collective_order.h.
#pragma once

#include <vector>

#include "backend/dependencies.h"
#include "backend/options.h"

namespace opentrn::backend {

struct Order {
  std::vector<isa::InstructionIndex> instructions;  // a topological order of the dependencies
  double estimated_ns = 0;  // of the whole, roughly: to compare ways to compile one kernel
};
Order choose_order(const isa::Program& program, const isa::Kinds& kinds,
                   const std::vector<EngineChoice>& choices, const Dependencies& dependencies,
                   const Options& options, const arch::Tables& tables);

}  // namespace opentrn::backend
