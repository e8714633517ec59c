// Ops that no device kernel takes, and that the host's evaluator does: each, with the neighbours that share
// values no device holds, becomes a call of the host in the middle of the program. The call is a custom
// operator whose name is the ops themselves, as a StableHLO module (runtime/host_ops.h runs it).
#pragma once

#include <set>
#include <string>

#include "graph/module.h"

namespace opentrn::compiler {

// Beside the ops without a kernel (has_lowering), those in `also`. Regions of loops and branches that have
// kernels are looked through. Ops that the evaluator cannot do (unknown custom calls, what leaves the
// program, shapes that data decide) stay, and lowering refuses them. How many calls were made.
int64_t move_to_host(const graph::Module& module, graph::Function& function,
                     const std::set<graph::OpId>& also = {});

}  // namespace opentrn::compiler
