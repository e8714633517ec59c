// Vectorises loops: the small instructions that consecutive iterations issue become one wide instruction.
//
// neuronx-cc sees the loops of an NKI 0.1 kernel. What the published counters show of it (zhang677/AccelOpt,
// ucb-bar/autocomp; fidelity/neuronx_cc.md):
//   * a loop of 8 transposes of 128 columns has its copies out of PSUM made four at a time, 512 columns of
//     FP32, a PSUM bank (matmul_K5120: 4608 copies of 512 are the Scalar engine's time);
//   * a loop of 64 products of three columns and their sums becomes one instruction of 64 x 3 each (conv1d
//     best), the same loop of 2048 iterations stays as it is (conv1d reference): 512 columns hold 170
//     iterations, which does not divide 2048.
// So: as many iterations as 512 columns (merged_columns_max of compiler_model.toml) hold of the widest access
// in the body, all of them if they fit, and none when that number does not divide the loop's.
//
// Works on loops that the program marks as independent (isa::WrittenLoop), innermost ones, whose iterations
// issue the same instructions at offsets that advance evenly. The body's statements are taken apart, each
// one's iterations together; that, and what one instruction may do at once, is checked byte by byte. Tiles
// that an iteration makes for itself lie side by side in one tensor then.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/options.h"
#include "isa/program.h"

namespace opentrn::backend {

// The program itself when nothing can be merged, or when it has control flow or states edges.
std::shared_ptr<const isa::Program> vectorise_iterations(const std::shared_ptr<const isa::Program>& program,
                                                         int64_t psum_bank_bytes_per_partition,
                                                         const Options& options = {});

}  // namespace opentrn::backend
