// How much of an on-chip memory holds something at once.
#pragma once

#include <vector>

#include "backend/lifetime.h"
#include "isa/executable.h"

namespace opentrn::backend {

// Most bytes of a partition that live tensors of `space` take together. A tensor of up to 32 rows counts a
// quarter, of up to 64 rows a half: others can lie beside it.
int64_t peak_live_bytes(const isa::Program& program, const std::vector<Lifetime>& lifetimes,
                        isa::MemorySpace space, int64_t partitions);

// Most banks of `bank_bytes` that hold a live tensor of `space` at once, as they are placed.
int64_t peak_live_banks(const isa::Program& program, const std::vector<Lifetime>& lifetimes,
                        const std::vector<isa::Placement>& placements, isa::MemorySpace space,
                        int64_t bank_bytes);

}  // namespace opentrn::backend
