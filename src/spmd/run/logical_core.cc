#include "spmd/run/logical_core.h"

#include "compiler/canonicalise/passes.h"
#include "spmd/core_pairs.h"
#include "spmd/run/both_cores.h"

namespace opentrn::spmd {

std::shared_ptr<ShardedModel> model_on_both_cores(const graph::Module& module,
                                                  const compiler::Options& options,
                                                  const runtime::Settings& settings, std::string& why) {
  if (settings.physical_cores_per_core != kCoresOfPair) return nullptr;
  if (!settings.uses_both_cores) {
    why = "OPENTRN_LOGICAL_CORE=one";
    return nullptr;
  }
  runtime::Settings of_device = settings;
  of_device.cores = {0};  // all are alike
  const runtime::Settings cores = settings_of_cores(of_device);
  const auto both = BothCores::of(module, compiler::inline_calls(module, module.entry()), 1, cores, why);
  if (!both) return nullptr;
  auto made =
      std::make_shared<ShardedModel>(module, core_grid(1).mesh(), both->local(), options, cores, both->way());
  if (made->host_reason().empty()) return made;
  why = made->host_reason();
  return nullptr;
}

}  // namespace opentrn::spmd
