// `nccom-test --check`: whether the plan of a collective computes what the operation is defined to.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/plan.h"
#include "mpi/division.h"

namespace opentrn::cli::nccom {

enum class Fill : uint8_t { kRandom, kOnes };

// The processes that share the ranks of a plan.
struct Processes {
  const mpi::Division& division;
  mpi::Transport& transport;
};

// Runs the plan on values of all ranks. "" when every rank's output is right; else what is wrong: rank,
// element, found and expected. A capacity fault when the buffers need more than this machine's memory.
// `processes`, where not null: they execute the plan together, and each holds the outputs of its ranks to the
// inputs of all, which it makes anew.
std::string check_values(const collectives::Plan& plan, Fill fill, uint64_t seed, const Processes* processes);

}  // namespace opentrn::cli::nccom
