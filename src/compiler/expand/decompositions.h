// Custom calls that are decompositions (graph/solver_call.h), written as loops and products.
#pragma once

#include <span>

#include "compiler/expand/expand.h"

namespace opentrn::compiler {

std::span<const Expansion> decomposition_expansions();
// All of a function at once, before complex values that loops carry are split. True when there was one.
bool expand_decompositions(graph::Function& function);

}  // namespace opentrn::compiler
