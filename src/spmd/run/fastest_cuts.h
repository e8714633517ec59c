// Cuts of a model that nobody stated: of a few ways to cut it (cut_ways.h), the one whose predicted time is
// least.
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
// list.
FastestCuts fastest_cuts(const graph::Module& module, const Mesh& mesh, const compiler::Options& options,
                         const runtime::Settings& settings);

}  // namespace opentrn::spmd
