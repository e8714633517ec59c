// Whether a program's data fits the memory of a chip.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "arch/generation.h"
#include "graph/module.h"
#include "isa/program.h"

namespace opentrn::compiler {

// HBM of the largest chip of the generation, all of which one core can address; INT64_MAX where no table
// says.
int64_t hbm_bytes_max(arch::Generation generation);

// All throw Fault{kCapacity, "compiler.hbm"} when it is more than hbm_bytes_max().
//
// Each iota, before it is written out; `module` has the locations.
void expect_hbm_for_iotas(const graph::Module& module, const graph::Function& function,
                          arch::Generation generation);
// One tensor, before kernels are made for it.
void expect_hbm_for(const isa::Program& program, const isa::Tensor& tensor, arch::Generation generation);
// All tensors that live at the same time: `always` from begin to end (inputs, outputs, constants), others
// from their first use to their last.
void expect_hbm_for(const isa::Program& program, std::span<const isa::TensorId> always,
                    arch::Generation generation);

}  // namespace opentrn::compiler
