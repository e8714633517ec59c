// Computes what a collective computes, with its ranks divided over processes: the same bits as
// collectives::execute() gives in one process.
//
// Every process knows the whole plan and walks its steps in one order, the same in all, which the waits
// allow. Of each step it does its part: to send a source that another process needs, to reduce, to write what
// comes. So each memory is written in that one order, no signal is needed beside the data, and the process
// that stands at the earliest step never waits: nobody can stand behind it that it waits for. A reduction is
// done where the plan's rank does it, or, where it adds to what lies in the target, at the target: sources
// are then sent as they are, and are summed in the plan's order, in fp32, rounded once, as in one process.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "collectives/values.h"
#include "mpi/division.h"

namespace opentrn::mpi {

// `buffers` has one entry for each rank of the plan; of ranks that other processes hold it is not looked at.
// All processes have to call this with the same plan. An input fault for a plan that is not proved, before
// anything is sent; mpi.mismatch and mpi.absent as agree() and Transport say.
void execute(const collectives::Plan& plan, std::span<const collectives::RankBuffers> buffers,
             const Division& division, Transport& transport);

// "all_reduce of 1024 B, add of float32, 8 ranks, by ring (plan 0123456789abcdef)".
std::string describe(const collectives::Plan& plan);

}  // namespace opentrn::mpi
