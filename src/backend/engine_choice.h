// Which engine runs each instruction, and who starts each DMA in which descriptor mode and queue.
//
// What the program states is kept. Otherwise an instruction that only one engine can run goes there; one
// that several can run goes to the legal engine with the least estimated work so far. GpSimd gets what
// only it can do exactly (int32 arithmetic, power): it shares SBUF ports with Vector and cannot reach PSUM.
// Sources: nki.isa docstrings of tensor_copy, tensor_tensor, tensor_scalar, memset, nc_transpose; the DGE
// page for the modes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/options.h"
#include "isa/executable.h"

namespace opentrn::backend {

struct EngineChoice {
  isa::Engine engine = isa::Engine::kUnknown;   // that does the work
  isa::Engine trigger = isa::Engine::kUnknown;  // DMA: whose queue starts it
  isa::DgeMode dge = isa::DgeMode::kNone;       // DMA: how descriptors come to be
  uint8_t queue = 0;                            // DMA queue number
};

// Who gets an instruction that several engines can run: the engine with the least work so far, or the one on
// which it ends first if engines take theirs in the order of the program. The first keeps engines equally
// busy where there is plenty to do; in a short program, whose instructions wait for one another, an engine
// that is idle and slower makes all that follow late.
enum class WorkSharing : uint8_t { kByLoad, kByEnd };

// One choice per instruction. kProgram when the program asks for what the generation does not have.
std::vector<EngineChoice> choose_engines(const isa::Program& program, const isa::Kinds& kinds,
                                         const Options& options, const arch::Tables& tables,
                                         WorkSharing sharing = WorkSharing::kByLoad);

// The program with copies, fills and steps with a number on the engines on which they end first, stated; the
// program itself where it has control flow.
std::shared_ptr<isa::Program> with_engines_by_end(const std::shared_ptr<isa::Program>& program,
                                                  const Options& options);

bool runs_on_dma(const isa::Program& program, const isa::Instruction& instruction);

}  // namespace opentrn::backend
