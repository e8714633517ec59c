// Passes that find what one kernel, or one instruction, computes whole, and make it one op.
#pragma once

#include "graph/module.h"

namespace opentrn::compiler {

// x Phi(x) with erf or erfc, its tanh form, and x sigmoid(x), in any order of their products, become
// composites (analysis/activation_op.h); gives how many.
int64_t recognise_activations(graph::Function& function);

// softmax(scale Q K^T + masks) V becomes a composite (analysis/attention_op.h); gives how many.
int64_t recognise_attention(graph::Function& function);

}  // namespace opentrn::compiler
