// Sums of which every device keeps its own part only: all_reduces that are cut at once become
// reduce_scatters, which move half of the bytes. Partitioners write the pair (Shardy for every gradient that
// ZeRO cuts), and so do programs of `shard_map`.
#pragma once

#include <cstdint>

#include "graph/module.h"

namespace opentrn::spmd {

// In `function`, the program of one device of `devices`, which has no calls. An all_reduce becomes
// reduce_scatters where all that read it cut the same part out (dynamic_slice), where each part begins
// depends on the device alone, and the parts of the devices of each group make up the whole, each held as
// often. One reduce_scatter for each dimension that is cut, between the nearest devices first; an all_reduce
// of the part where several devices of a group keep the same one. Returns how many were replaced.
//
// The terms of each element are the same. Where there are several steps they are added in another order.
int scatter_sums(graph::Module& module, graph::Function& function, int64_t devices);

}  // namespace opentrn::spmd
