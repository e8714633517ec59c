// Some ops of a function as a function of their own.
#pragma once

#include <span>
#include <vector>

#include "graph/module.h"

namespace opentrn::spmd {

// The values that the ops read, regions included, and none of them makes; constants are left out. In the
// order of first use.
std::vector<graph::ValueId> values_read(const graph::Function& from, std::span<const graph::OpId> ops);

// A function of `inputs` that runs `ops`, in their order, and returns `outputs`. Constants that they read
// come along. Fault{kNotModelled} where an op reads another value.
graph::Function extract(const graph::Function& from, std::span<const graph::OpId> ops,
                        std::span<const graph::ValueId> inputs, std::span<const graph::ValueId> outputs);

}  // namespace opentrn::spmd
