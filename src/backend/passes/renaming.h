// Gives a tile that is loaded again and again a place of its own for every load.
//
// A kernel that loads into one SBUF tensor in a loop would have each load wait for the last reader of the
// load before. AWS's compiler does not keep the tensor's one place: rungs 12 to 14 of kernel_transforms.py in
// awslabs/nki-autotune, which load both operands of every nc_matmul into two such tensors, run at 16%
// MFU, 1.33 us per round, where a load and a product alone last over 2 us. It does so for loads only: with
// one PSUM accumulator in place of two the same repository measures 59% instead of 83.7%.
#pragma once

#include <memory>

#include "isa/program.h"

namespace opentrn::backend {

// The program itself when there is nothing to rename, or when it has control flow.
std::shared_ptr<const isa::Program> rename_reloaded_tiles(const std::shared_ptr<const isa::Program>& program);

}  // namespace opentrn::backend
