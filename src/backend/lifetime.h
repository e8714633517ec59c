// From which to which instruction, in program order, a tensor holds something.
#pragma once

#include <cstdint>
#include <vector>

#include "isa/program.h"

namespace opentrn::backend {

// Begin and end marker of a loop, and the loop around it.
struct Loop {
  isa::InstructionIndex begin = 0;
  isa::InstructionIndex end = 0;
  int32_t parent = -1;
  int32_t depth = 0;
};

// Loops in the order of their begin markers. kProgram when markers do not pair.
std::vector<Loop> find_loops(const isa::Program& program);

struct Lifetime {
  isa::InstructionIndex first = 0;
  isa::InstructionIndex last = 0;
  bool used = false;
  bool overlaps(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};

// By TensorId: first to last access, inclusive. A tensor touched inside a loop lives for the whole of the
// outermost loop, because the next iteration runs the same instructions again; one that the loop makes lives
// within an iteration, but for the whole of loops further in.
std::vector<Lifetime> find_lifetimes(const isa::Program& program, const std::vector<Loop>& loops);

}  // namespace opentrn::backend
