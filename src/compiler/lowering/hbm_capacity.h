// Whether a program's data fits the memory of a chip.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/generation.h"
#include "graph/module.h"
#include "isa/program.h"

namespace opentrn::compiler {

// HBM of the largest chip of the generation: the limit where nobody says what a core has of it (`of_core`).
// INT64_MAX where no table says.
int64_t hbm_bytes_max(Generation generation);

// All throw Fault{kCapacity, "compiler.hbm"} when it is more than `of_core`, else than hbm_bytes_max().
//
// Each iota and each constant, before it is written out: a splat of any size is one number until then.
// `module` has the locations.
void expect_hbm_for_written(const graph::Module& module, const graph::Function& function,
                            Generation generation, std::optional<int64_t> of_core = {});
// One tensor, before kernels are made for it.
void expect_hbm_for(const isa::Program& program, const isa::Tensor& tensor, Generation generation);
// All tensors that live at the same time: `always` from begin to end (inputs, outputs, constants), others
// from their first use to their last.
void expect_hbm_for(const isa::Program& program, std::span<const isa::TensorId> always, Generation generation,
                    std::optional<int64_t> of_core = {});

// Bytes of HBM that a program's tensors take where they take most, counted the same way.
int64_t hbm_bytes_of(const isa::Program& program, std::span<const isa::TensorId> always);

}  // namespace opentrn::compiler
