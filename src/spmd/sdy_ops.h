// Ops of Shardy's dialect (sdy), as the importer of JAX's programs writes them: custom calls.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/module.h"
#include "spmd/cuts.h"
#include "spmd/other_meshes.h"
#include "spmd/partition.h"
#include "spmd/propagate.h"
#include "spmd/sharding.h"

namespace opentrn::spmd {

// sdy.manual_computation: a region that every device runs on its own parts (JAX's shard_map and pmap).
bool is_manual_computation(const graph::Op& op);
bool is_inside_manual_computation(const graph::Function& function, graph::OpId op);
// sdy.sharding_constraint and sdy.reshard: their operand, cut as they say.
bool is_sharding_constraint(const graph::Op& op);
Sharding constraint_of(const graph::Op& op, const Meshes& meshes);
// How a manual computation takes and gives arrays: by its manual axes; others count as whole. Input fault
// where the op is malformed.
struct ManualShardings {
  std::vector<Sharding> in, out;
};
ManualShardings manual_shardings(const graph::Op& op, const Meshes& meshes);

// What a program says itself of how its values lie.
struct ProgramShardings {
  AxisGrid grid;
  StatedCuts values;
  OpenSums open;
  OtherMeshes other;
};
// `inputs`: of the function's arguments; `outputs`: of results where they are stated. Of values in between,
// shardings that the grid of the others does not express are left out: they say where values lie, not what
// they are. NotModelled fault where a mesh has not `devices` devices.
ProgramShardings program_shardings(const graph::Module& module, const graph::Function& function,
                                   std::span<const Sharding> inputs,
                                   std::span<const std::optional<Sharding>> outputs, int64_t devices);

}  // namespace opentrn::spmd
