// Shardings as PJRT tells them.
#pragma once

#include <cstdint>
#include <string>

#include "spmd/sharding.h"

namespace opentrn::pjrt {

// A serialised xla.OpSharding for `devices` devices, of an array with `rank` dimensions.
std::string op_sharding(const spmd::Sharding& sharding, int rank, int64_t devices);

}  // namespace opentrn::pjrt
