// Arrays that lie over the devices by a mesh which the program's grid does not have: 3 x 2 devices beside
// 2 x 3, or the same devices in another order. They are gathered, or shared out, by their own mesh.
#pragma once

#include <map>

#include "graph/module.h"
#include "spmd/sharding.h"

namespace opentrn::spmd {

// What of a program lies so.
struct OtherMeshes {
  std::map<graph::ValueId, Sharding> arguments;
  std::map<size_t, Sharding> results;  // by place
};

// Of an array of type `whole`, the part that a device has under the sharding.
graph::Type local_type(const graph::Type& whole, const Sharding& sharding);
// Appends to `block` of one device's function what makes all of an array from its parts, and a part of all.
graph::ValueId gathered_by(const Sharding& sharding, graph::ValueId part, const graph::Type& whole,
                           graph::Module& module, graph::Function& function, graph::BlockId block);
graph::ValueId shared_out_by(const Sharding& sharding, graph::ValueId whole, graph::Module& module,
                             graph::Function& function, graph::BlockId block);

}  // namespace opentrn::spmd
