// What a program of one device does with its sums over devices, in an order that moves fewer bytes.
// Partitioners write each sum where its terms are made, and what is done with it behind it: gradients are
// summed whole, for each micro-batch by itself, and transposed, scaled and cut afterwards.
#pragma once

#include <cstdint>

#include "graph/module.h"

namespace opentrn::spmd {

// All of what follows and scatter_sums (scatter_sums.h), in `function`, the program of one device of
// `devices`, which has no calls.
void rearrange_sums(graph::Module& module, graph::Function& function, int64_t devices);

// transpose(sum(product)) becomes the sum of the product with its operands exchanged, which costs nothing;
// `sum` is an all_reduce or a reduce_scatter that nothing else reads. Returns how many there were.
int turn_products(graph::Function& function);

// sum(a) + sum(b) becomes sum(a + b), where nothing else reads either, for sums of one kind among the same
// devices: one collective for the gradients of several micro-batches, as XLA's reassociation has it. Terms
// are added in another order. Returns how many additions there were.
int join_sums(graph::Function& function);

// All-reduces of results of one loop, among the same devices, become one of several values: all its operands
// are there at one moment, so that nothing waits longer, and one collective begins in place of many. Returns
// how many there were.
int join_behind_loops(graph::Function& function);

// Parts that a device cuts (dynamic_slice) out of what transpositions and element-wise ops make of a sum are
// cut out of the sum, and the ops done on the part: f(sum)[part] becomes f(sum[part]), to the same bits.
// Returns how many ops were moved.
int cut_early(graph::Function& function);

}  // namespace opentrn::spmd
