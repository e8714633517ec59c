// The rules of the instruction set, numbered: what an instruction's operands may be.
//
// check() runs when an instruction is recorded, so a broken rule is reported at the user's line. A rule
// has a label, "<instruction>.C<n>", or "isa.C<n>" for the rules that all instructions share; the label
// stands in the check, in the message, in constraints() and in the test that provokes it
// (constraints_test.cc fails for a label without one). An instruction's own rules stand in its row
// (isa/instructions/<family>.cc), the shared ones in constraints.cc. Where the documentation is ambiguous the
// check is lenient: it refuses only what a source says cannot be.
#pragma once

#include <span>

#include "base/generation.h"
#include "isa/definitions.h"
#include "isa/program.h"

namespace opentrn::isa {

// In opcode order, the shared rules first; numbered from 1 without gaps.
std::span<const Constraint> constraints();

// Checks one instruction of `program` against every rule that can be decided without values.
// Throws Fault{kProgram}, or Fault{kCapacity} for isa.C8; the caller sets the fault's location.
// `moves_rows`: whoever places the program's tensors also moves rows to partitions that an engine takes
// (neuronx-cc does for kernels of NKI 0.1), so isa.C7 and isa.C11 hold only for tensors that the program
// places.
void check(const Program& program, const Instruction& instruction, Generation generation,
           bool moves_rows = false);

}  // namespace opentrn::isa
