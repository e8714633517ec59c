// A program that is one device's already: its own arrays, and collectives in which it meets the others.
//
// PyTorch's programs with functional collectives are such, and any StableHLO that states no shardings and has
// collectives. Every device of a mesh runs it as it stands.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/module.h"
#include "spmd/annotations.h"
#include "spmd/cuts.h"
#include "spmd/partition.h"

namespace opentrn::spmd {

// Whether ops of the function, outside of manual computations, meet or name other devices.
bool is_of_one_device(const graph::Function& function);

// `function` of `module`, which has no calls and is of one device. `stated`: how the whole arrays that a user
// gives and gets lie over the devices; those of which nothing is said are the same on every device. Input
// faults: "spmd.mesh" where a collective's groups are not of the grid's devices, "spmd.one_device" for cuts
// of weights, which the program has for one device.
SpmdModule of_one_device(const graph::Module& module, const graph::Function& function, const AxisGrid& grid,
                         const Stated& stated);

// The array of which each device has `local`.
graph::Type whole_of(const graph::Type& local, const Sharding& sharding);

// The groups of devices, one of which these are in this order: those that differ along the same axes of the
// mesh. Input fault "spmd.group" where they are no such group.
std::vector<std::vector<int64_t>> groups_with(const Mesh& mesh, std::span<const int64_t> devices);

}  // namespace opentrn::spmd
