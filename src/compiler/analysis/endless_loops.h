// Loops that can be seen never to end.
#pragma once

#include "graph/module.h"

namespace opentrn::compiler {

// Fault{kProgram} "model.endless_loop", with its place, for a `while` whose condition is true or reads
// nothing that the body changes: it runs not at all or for ever.
void refuse_endless_loops(const graph::Module& module, const graph::Function& function);

}  // namespace opentrn::compiler
