#include "spmd/other_meshes.h"

#include <span>

#include "spmd/cuts.h"
#include "spmd/reshard.h"

namespace opentrn::spmd {

namespace {

AxisGrid grid_of(const Sharding& sharding) { return AxisGrid(sharding.mesh, std::span(&sharding, 1)); }

}  // namespace

graph::Type local_type(const graph::Type& whole, const Sharding& sharding) {
  const AxisGrid grid = grid_of(sharding);
  return grid.local(whole, grid.cuts_of(sharding, whole.rank()));
}

graph::ValueId gathered_by(const Sharding& sharding, graph::ValueId part, const graph::Type& whole,
                           graph::Module& module, graph::Function& function, graph::BlockId block) {
  const AxisGrid grid = grid_of(sharding);
  const Cuts cuts = grid.cuts_of(sharding, whole.rank());
  return Resharder(module, function, grid).reshard(part, whole, cuts, Cuts(cuts.size()), block);
}

graph::ValueId shared_out_by(const Sharding& sharding, graph::ValueId whole, graph::Module& module,
                             graph::Function& function, graph::BlockId block) {
  const AxisGrid grid = grid_of(sharding);
  const graph::Type type = function.type(whole);
  const Cuts cuts = grid.cuts_of(sharding, type.rank());
  return Resharder(module, function, grid).reshard(whole, type, Cuts(cuts.size()), cuts, block);
}

}  // namespace opentrn::spmd
