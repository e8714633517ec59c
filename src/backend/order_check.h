// The slow, obvious check of a compiled program, for tests: every pair of instructions that touch a common
// byte, one of them writing, must be ordered by streams and waits.
#pragma once

#include <string>

#include "isa/executable.h"

namespace opentrn::backend {

// Empty when all is well, else the first pair that is not ordered. Compares all bytes of all pairs:
// for programs of up to some hundred small instructions. Loops are not unrolled.
std::string find_unordered_pair(const isa::Executable& executable);

// Empty, or two on-chip tensors whose lifetimes in program order and whose bytes both meet.
std::string find_shared_bytes(const isa::Executable& executable);

}  // namespace opentrn::backend
