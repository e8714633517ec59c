// What an op of the model costs whatever the machine.
#pragma once

#include "graph/module.h"

namespace opentrn::compiler {

// Arithmetic of the op as the model states it: 2 per multiply-accumulate of products and convolutions, 1 per
// combined element of reductions and windows, 1 per result element of other arithmetic (a transcendental
// function counts as one), 0 for what only moves, compares types or makes constants. Regions of if_, case_
// and while_ are not looked into: how often they run is not known.
double flops(const graph::Function& function, const graph::Op& op);

// How many terms one element of the result is the sum of; 1 for what is no sum. Of a scatter: at most.
double terms(const graph::Function& function, const graph::Op& op);

}  // namespace opentrn::compiler
