// For tests and fuzzers: programs that use every opcode and every form of operand, meaningless but well
// formed.
#pragma once

#include "base/random.h"
#include "isa/executable.h"
#include "isa/program.h"

namespace opentrn::isa {

Program random_program(SplitMix64& random, int instructions);
// A schedule of it with random streams, placements and waits.
Executable random_executable(SplitMix64& random, int instructions);

}  // namespace opentrn::isa
