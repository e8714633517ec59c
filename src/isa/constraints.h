// The rules of the instruction set, numbered: what an instruction's operands may be.
//
// check() runs when an instruction is recorded, so a broken rule is reported at the user's line. A rule
// has a label, "<instruction>.C<n>", or "isa.C<n>" for the rules that all instructions share; the label
// stands in the check, in the message, in constraints() and in the test that provokes it
// (constraints_test.cc fails for a label without one). Where the documentation is ambiguous the check is
// lenient: it refuses only what a source says cannot be.
#pragma once

#include <span>
#include <string_view>

#include "isa/program.h"

namespace opentrn::isa {

struct Constraint {
  std::string_view label;   // "nc_matmul.C3"
  std::string_view rule;    // one sentence
  std::string_view source;  // where the rule is written
};

// In opcode order, the shared rules first; numbered from 1 without gaps.
std::span<const Constraint> constraints();

// Checks one instruction of `program` against every rule that can be decided without values.
// Throws Fault{kProgram}, or Fault{kCapacity} for isa.C8; the caller sets the fault's location.
// `moves_rows`: whoever places the program's tensors also moves rows to partitions that an engine takes
// (neuronx-cc does for kernels of NKI 0.1), so isa.C7 and isa.C11 hold only for tensors that the program
// places.
void check(const Program& program, const Instruction& instruction, int generation, bool moves_rows = false);

}  // namespace opentrn::isa
