// A program that holds kernels on both cores of a logical one (LNC2), as the programs of its two cores.
//
//   const std::vector<CorePart> parts = core_parts(program);  // one part: nothing runs on the second core
//
// Core 0 has the whole program but what is flagged as core 1's (isa::kFlagCore1). Core 1 has that, and the
// loop markers around it. Where one core touches HBM that the other wrote outside of the launch (an operand
// that the program computes, a result that it goes on with), both meet at a core_barrier before or after it.
#pragma once

#include <memory>
#include <vector>

#include "isa/program.h"

namespace opentrn::backend {

inline constexpr isa::InstructionIndex kNotMerged = 0xFFFFFFFFu;

struct CorePart {
  std::shared_ptr<const isa::Program> program;
  // Where its instructions stand in the whole program; kNotMerged for a rendezvous that was put in. Empty: it
  // is the whole program.
  std::vector<isa::InstructionIndex> merged;
};

std::vector<CorePart> core_parts(std::shared_ptr<const isa::Program> program);

}  // namespace opentrn::backend
