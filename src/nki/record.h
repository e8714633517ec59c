// What a launch recorded, as one isa::Kernel: for models that the kernel stands in.
//
// A model is one program. The two programs of an LNC2 launch become one: core 0's part up to the next
// rendezvous, then core 1's, then both instructions that meet, and so on; flags say whose an instruction is
// (isa::kFlagCore0). One core executes it for values; to be timed it is taken apart again (backend/pair.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "isa/kernel.h"
#include "nki/machine.h"

namespace opentrn::nki {

struct Recorded {
  std::string name;
  std::vector<int64_t> grid;
  // The cores of one launch, which has ended.
  std::vector<std::shared_ptr<Machine>> machines;
  std::vector<TensorView> inputs;   // host tensors, whole
  std::vector<TensorView> outputs;  // core 0's HBM tensors, or inputs that it writes
  bool filled = false;              // unwritten memory may be read: isa::Tensor::filled
};

// Faults: kProgram "kernel.result" for a result that is no whole HBM tensor; kNotModelled "kernel.cores" for
// cores that meet inside a device loop.
isa::Kernel record(const Recorded& launch);

}  // namespace opentrn::nki
