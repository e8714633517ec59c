// Which engine runs each instruction, and who starts each DMA in which descriptor mode and queue.
//
// What the program states is kept. Otherwise an instruction that only one engine can run goes there; one
// that several can run goes to the legal engine with the least estimated work so far. GpSimd gets what
// only it can do exactly (int32 arithmetic, power): it shares SBUF ports with Vector and cannot reach PSUM.
// Sources: nki.isa docstrings of tensor_copy, tensor_tensor, tensor_scalar, memset, nc_transpose; the DGE
// page for the modes.
#pragma once

#include <cstdint>
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

// One choice per instruction. kProgram when the program asks for what the generation does not have.
std::vector<EngineChoice> choose_engines(const isa::Program& program, const Options& options,
                                         const arch::Tables& tables);

bool runs_on_dma(const isa::Program& program, const isa::Instruction& instruction);

}  // namespace opentrn::backend
