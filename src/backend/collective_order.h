// Collectives keep the order of the program.
//
// A core's collectives run one after the other, in the order of its program, and end when the other ranks
// have come to them, too. An engine's queue stops at an instruction that waits for one. If such an
// instruction is ahead of a copy that triggers this collective or an earlier one, each waits for the other:
// the order that estimates suggest (order.h) can be such, because they take a collective's copies for copies.
// The same holds for instructions at which the cores of a logical core meet.
//
// Required of an order, where a program has collectives: what depends on a collective comes after all copies
// of it, and of those before it in the program, and after the rendezvous before it; a rendezvous comes after
// all copies of the collectives before it. The copies themselves may go early: nothing waits at them.
#pragma once

#include <span>
#include <vector>

#include "backend/dependencies.h"
#include "isa/collective_copies.h"

namespace opentrn::backend {

// Changes `order`, a topological order of the dependencies, into one as above that stays close to it:
// whatever must wait for a copy is put behind it, the rest keeps its sequence. `in_order`: compute engines
// keep program order. Without collectives nothing is changed.
void keep_collectives_in_order(const isa::Program& program, const std::vector<EngineChoice>& choices,
                               const Dependencies& dependencies,
                               std::span<const isa::CollectiveCopies> collectives, bool in_order,
                               std::vector<isa::InstructionIndex>& order);

}  // namespace opentrn::backend
