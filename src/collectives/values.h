// Computes what a collective computes, in one process (src/mpi does it in several).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/plan.h"

namespace opentrn::collectives {

struct RankBuffers {
  std::span<const std::byte> input;
  std::span<std::byte> output;  // may overlap the input's memory
};

// A buffer for each rank, and those of `ranks` of the sizes that the request gives, or longer; an input fault
// otherwise.
void check_buffers(const Request& request, std::span<const RankBuffers> buffers, std::span<const int> ranks);

// An input fault that names ranks and steps when verify() does not prove the plan.
void prove(const Plan& plan);

// By the plan: reductions happen in its order, in the format of the DMA engines, so floating point results
// are those of the algorithm. Steps run on the pool's threads as their waits end. A plan that verify() does
// not prove is an input fault that names ranks and steps, before anything runs.
void execute(const Plan& plan, std::span<const RankBuffers> buffers);
// The same for a plan that verify() has proved before: it is not looked at again.
void execute_proved(const Plan& plan, std::span<const RankBuffers> buffers);

// By the definition of the operation, rank after rank: the slow reference of execute() for exact types, and
// within rounding for others. Of `ranks` the output is made; all inputs are needed.
void reference(const Request& request, std::span<const RankBuffers> buffers, std::span<const int> ranks);
void reference(const Request& request, std::span<const RankBuffers> buffers);

}  // namespace opentrn::collectives
