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
void check(const Program& program, const Instruction& instruction, int generation);

}  // namespace opentrn::isa
