// Passes that find what one kernel, or one instruction, computes whole, and make it one op.
#pragma once

#include "graph/module.h"

namespace opentrn::compiler {

// x Phi(x) with erf or erfc, its tanh form, and x sigmoid(x), in any order of their products, become
// composites (analysis/activation_op.h); gives how many.
int64_t recognise_activations(graph::Function& function);

// Sorts of rows of floats in descending order, of which only the first few elements and their places are
// read, become chlo.top_k; gives how many.
int64_t recognise_top_k(graph::Function& function);

// softmax(scale Q K^T + masks) V becomes a composite (analysis/attention_op.h); gives how many.
int64_t recognise_attention(graph::Function& function);

}  // namespace opentrn::compiler
