// Cuts of a model that nobody stated: of a few ways to cut it, the one whose predicted time is least.
//
//   whole                every device computes all; what the others have to beat
//   results by dim 0, 1  cuts of the results' batch, or of what follows it, propagated backwards
//   products by columns  each product with a weight that no cut before it reaches makes a part of its
//   columns; what
//                        follows keeps them until another product sums over them (Megatron's cuts of
//                        attention and MLP come out of this)
//   batch and columns    the first on the mesh's first axis, the last on its others
//
// Each way is partitioned, compiled and timed as a stated one would be, so that the choice rests on nothing
// else.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "spmd/run/sharded_model.h"

namespace opentrn::spmd {

struct FastestCuts {
  std::shared_ptr<ShardedModel> model;  // its choice() names the way
  struct Way {
    std::string name;
    std::optional<double> us;  // nullopt where the timing model cannot tell before a run
  };
  std::vector<Way> ways;  // that were timed
};

// Faults as of ShardedModel. A way of which no time is known is taken where none has one: the last of the
// list above.
FastestCuts fastest_cuts(const graph::Module& module, const Mesh& mesh, const compiler::Options& options,
                         const runtime::Settings& settings);

}  // namespace opentrn::spmd
