// Eliminates common subexpressions and dead code: equal results are computed and loaded once, unread ones not
// at all.
//
// SBUF tensors that end up with the same content (content.h) become one: the first keeps its writers, readers
// of the others read it, and what only fed the others goes. AWS's compiler does this for NKI 0.1 kernels
// where memory allows; NKIBench's published counters (zhang677/AccelOpt) show where it does not:
//   * a load that would not leave room stays where it was written (add_rmsnorm_matmul reads its 8.4 MB weight
//     once instead of 32 times; mamba_M7168 loads `delta` again in every state);
//   * results are kept up to a third of the memory even when that makes others spill (mamba's `delta * u`);
//   * the transposes inside one nl.matmul are made when its operands are already fixed, so they are never
//   shared.
#pragma once

#include <memory>

#include "backend/options.h"
#include "isa/program.h"

namespace opentrn::backend {

// The program itself when nothing can be shared, or when it has control flow.
std::shared_ptr<const isa::Program> eliminate_common_subexpressions(
    const std::shared_ptr<const isa::Program>& program, int64_t sbuf_bytes_per_partition, int64_t partitions,
    const Options& options);

}  // namespace opentrn::backend
