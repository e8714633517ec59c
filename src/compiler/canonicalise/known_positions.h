// Numbers of a tensor's elements that are written out in arithmetic of iotas.
#pragma once

#include <cstdint>

#include "graph/module.h"

namespace opentrn::compiler {

// What adds up iotas times the strides of a tensor, as counters of random bits do (JAX: in 64 bits, as two
// words), is one iota seen in another shape; the bits above what it reaches are zeros. Of tensors too large
// to be folded. Gives the number of ops replaced.
int64_t number_positions(graph::Function& function);

}  // namespace opentrn::compiler
