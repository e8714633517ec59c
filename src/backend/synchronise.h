// Streams, and what each instruction waits for.
//
// Most dependencies need no semaphore: the engine's own order gives them, or something already waited for
// comes later than the producer. Each stream carries a vector clock (how far each compute engine is known
// to be complete); a wait is kept only if the clock does not already tell. DMA queues complete in any
// order, so a DMA is known to be complete only where it was waited for.
#pragma once

#include <span>
#include <vector>

#include "backend/dependencies.h"
#include "isa/collective_copies.h"
#include "isa/executable.h"

namespace opentrn::backend {

// Fills streams, schedule, waits and semaphore_count of `executable`, whose program is there.
void synchronise(const std::vector<EngineChoice>& choices, const Dependencies& dependencies,
                 const std::vector<isa::InstructionIndex>& order,
                 std::span<const isa::CollectiveCopies> collectives, isa::Executable& executable);

}  // namespace opentrn::backend
