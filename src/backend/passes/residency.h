// Makes a program fit into on-chip memory by moving what is not needed soon elsewhere.
//
// Walks a program without control flow in order and keeps a set of resident tensors. When the next
// instruction needs more bytes than are left, the tensor whose next use is farthest goes (Belady's rule): out
// of SBUF by a DMA to HBM, or by nothing at all when it holds what loads from unchanged HBM put there, which
// are then repeated; out of PSUM by a copy to SBUF, which its readers then use.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "backend/options.h"
#include "isa/program.h"

namespace opentrn::backend {

struct Spilled {
  std::shared_ptr<const isa::Program> program;
  int64_t saved_bytes = 0;     // to HBM
  int64_t reloaded_bytes = 0;  // from where they were saved
  int64_t repeated_bytes = 0;  // by loads of the kernel done again
};

// At most `budget_bytes` per partition of `space` (kSbuf or kPsum) live at once. Nothing when that cannot be
// reached: control flow, tensors with addresses, or one instruction that needs more by itself.
std::optional<Spilled> fit(const std::shared_ptr<const isa::Program>& program, isa::MemorySpace space,
                           int64_t budget_bytes, int64_t partitions, const Options& options);

}  // namespace opentrn::backend
