// One device's program from a program of all: the SPMD form, in which every device runs the same function on
// its parts, with collectives where they need each other's.
//
// Each op runs on the parts that its dimension rule lets devices hold; operands that lie otherwise are moved
// first (reshard.h), and terms of sums are combined by an all_reduce behind the op. An op without a rule runs
// whole on every device. Parts of one dimension have one size: where the devices do not divide it, the last
// parts end in padding, which holds anything, and which reductions and collectives leave out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/literal.h"
#include "graph/module.h"
#include "spmd/cuts.h"
#include "spmd/other_meshes.h"
#include "spmd/propagate.h"

namespace opentrn::spmd {

// A constant of the program that devices hold parts of: an argument of the function, behind its own.
struct HeldConstant {
  std::string name;  // that of the op's place in the model; may be empty
  graph::Literal whole;
  Sharding sharding;
};

// Sums that stay open between devices: axes along which they hold terms. Of a value that lies in parts along
// them each device's term is its part, zero elsewhere; of one that all hold whole the first term is the
// value.
struct OpenSums {
  std::map<graph::ValueId, Axes> arguments;
  std::map<graph::ValueId, Axes>
      values;                      // of ops that say how their operand is to lie (sdy.sharding_constraint)
  std::map<size_t, Axes> results;  // by place
};

struct SpmdModule {
  graph::Module module;  // of one device; the entry is "main"
  std::vector<Sharding> inputs, outputs;
  std::vector<HeldConstant> constants;
};

// `function` of `module` has no calls. `stated`: cuts of values that are kept as they are said; those of
// others are propagated. `outputs`: stated cuts of results, or null where one may lie as it comes; empty for
// all such. `other`: arguments and results that lie by another mesh than the grid's. NotModelled fault for
// arrays with dynamic dimensions.
SpmdModule partition(const graph::Module& module, const graph::Function& function, const AxisGrid& grid,
                     const StatedCuts& stated, const std::vector<const Cuts*>& outputs = {},
                     const OpenSums& open = {}, const OtherMeshes& other = {});

}  // namespace opentrn::spmd
