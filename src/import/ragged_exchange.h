// lax.ragged_all_to_all, which JAX writes as the custom call @ragged_all_to_all: each device sends runs of
// its operand's rows to places in the results of the others.
//
// Source of operands and meaning: jax/_src/lax/parallel.py (ragged_all_to_all): operand, output, input
// offsets, send sizes, output offsets, receive sizes; of each member of the group, in its order, as many
// runs.
#pragma once

#include "graph/module.h"

namespace opentrn::import {

// Replaces the calls by what every device knows how to do: the group's operands are gathered, the runs'
// places and sizes exchanged, and each row of a result is looked up or kept. Where two runs come to one row,
// JAX leaves open which one it has; here it is the greatest of the two by sender and row. Input fault
// "import.ragged_exchange" for a call with other operands or without groups.
void replace_ragged_exchanges(graph::Module& module);

}  // namespace opentrn::import
