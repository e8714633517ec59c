// Random kernels that mean something: every instruction is legal, every value read was written.
#pragma once

#include <memory>
#include <vector>

#include "base/random.h"
#include "isa/program.h"

namespace opentrn::fuzz {

struct Kernel {
  std::shared_ptr<const isa::Program> program;
  std::vector<isa::TensorId> inputs;   // HBM, float32
  std::vector<isa::TensorId> outputs;  // HBM, written entirely
};

// `loops`: it may have some.
Kernel random_kernel(SplitMix64& random, bool loops = true);

}  // namespace opentrn::fuzz
