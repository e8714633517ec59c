// A model of one logical core whose program both physical cores compute (both_cores.h): it is one on the mesh
// "device=1,core=2", and takes and gives whole arrays.
#pragma once

#include <memory>
#include <string>

#include "compiler/options.h"
#include "graph/module.h"
#include "runtime/settings.h"
#include "spmd/run/sharded_model.h"

namespace opentrn::spmd {

// `settings`: of the logical core. Null where one physical core computes; `why` then says so, but for a
// logical core that is one. Faults of the compiler.
std::shared_ptr<ShardedModel> model_on_both_cores(const graph::Module& module,
                                                  const compiler::Options& options,
                                                  const runtime::Settings& settings, std::string& why);

}  // namespace opentrn::spmd
