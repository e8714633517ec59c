// Instances of an NKI 0.1 launch grid that write different values to one place.
//
// AWS assumes that "kernel instances in the spmd grid [...] can be executed in parallel [and that each] will
// write to a different memory location" (nki.errors.rst of NKI 0.1, err_unexpected_output_dependencies). Its
// own samples launch kernels whose instances all write the whole output with equal values
// (resize_nearest_fixed_dma_kernel), so, as for two cores (docs/decisions/0030-core-races.md), equal values
// are no race. Here instances run one after another on one machine; where their writes overlap, the recorded
// program is executed once more, and what such writes change is compared.
#pragma once

#include <span>
#include <vector>

#include "isa/program.h"
#include "nki/machine.h"

namespace opentrn::nki {

// begins: the first instruction of every instance, in order. The tensors in HBM with an element that several
// instances write. Left out: accesses whose place is known only at run time, and DMAs that add to what is
// there.
std::vector<isa::TensorId> tensors_of_several(const isa::Program& program,
                                              std::span<const isa::InstructionIndex> begins);

// Throws Fault{kProgram} "grid.race" at the first write that changes what another instance has written, and
// names both. Executes what is pending. Says nothing of kernels with device loops, and of values that depend
// on an input that the kernel overwrites.
void check_instances(Machine& machine, std::span<const isa::InstructionIndex> begins);

}  // namespace opentrn::nki
