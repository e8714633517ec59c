// `nccom-test --check`: whether the plan of a collective computes what the operation is defined to.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/plan.h"

namespace opentrn::cli::nccom {

enum class Fill : uint8_t { kRandom, kOnes };

// Runs the plan on values of all ranks. "" when every rank's output is right; else what is wrong: rank,
// element, found and expected. A capacity fault when the buffers of all ranks need more than this machine's
// memory.
std::string check_values(const collectives::Plan& plan, Fill fill, uint64_t seed);

}  // namespace opentrn::cli::nccom
