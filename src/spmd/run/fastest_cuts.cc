#include "spmd/run/fastest_cuts.h"

#include <limits>

#include "base/fault.h"
#include "compiler/canonicalise/passes.h"
#include "graph/verify.h"
#include "spmd/one_device.h"
#include "spmd/run/cut_ways.h"

namespace opentrn::spmd {

using graph::Function;

FastestCuts fastest_cuts(const graph::Module& module, const Mesh& mesh, const compiler::Options& options,
                         const runtime::Settings& settings) {
  graph::verify(module);
  const AxisGrid grid(mesh);
  const Function flat = compiler::inline_calls(module, module.entry());
  if (is_of_one_device(flat))
    throw Fault(FaultKind::kInput, "spmd.one_device",
                "the program is one device's, with collectives of its own: there is nothing to choose",
                "leave auto out, and state how its inputs and results lie");
  FastestCuts best;
  double least = std::numeric_limits<double>::infinity();
  std::vector<std::string> axes;
  for (const Mesh::Axis& axis : mesh.axes) axes.push_back(axis.name);
  for (auto& [name, stated] : cut_ways(flat, grid, axes)) {
    auto made = std::make_shared<ShardedModel>(module, mesh, std::move(stated), options, settings, name);
    const std::optional<double> us = made->host_reason().empty() ? made->cost().device_us : std::nullopt;
    best.ways.push_back({name, us});
    if (best.model && us.value_or(least) >= least && least < std::numeric_limits<double>::infinity())
      continue;
    least = us.value_or(least);
    best.model = std::move(made);
  }
  return best;
}

}  // namespace opentrn::spmd
