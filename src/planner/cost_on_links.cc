#include "planner/cost_on_links.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::planner {

OnLinks cost_on_links(const arch::Tables& tables, const Job& job, Machine& machine, const Stack& stack,
                      const fabric::Cluster& cluster, size_t most, SearchResult& result) {
  if (machine.kind != Kind::kNeuron)
    throw Fault(FaultKind::kInput, "plan.links",
                fmt::format("the links of a {} are not modelled", machine.instance),
                "Inf2, Trn1, Trn2 or Trn3 instances; or no --links");
  const auto links = std::make_shared<Links>(tables, machine.instance, static_cast<int>(machine.servers()),
                                             machine.cores_per_rank, cluster);
  machine.links = links;
  OnLinks out{.links = links};
  for (size_t i = 0; i < std::min(most, result.best.size()); ++i) {
    Estimate& plan = result.best[i];
    try {
      Estimate made = evaluate(job, machine, stack, plan.layout, plan.layer_times.get());
      made.tiers_s = plan.step_s;
      made.curves_s = plan.curves_s;
      made.layers = plan.layers;
      made.layer_times = plan.layer_times;
      plan = std::move(made);
      ++out.plans;
    } catch (const Fault& fault) {
      if (fault.kind() == FaultKind::kInternal) throw;
      if (std::ranges::find(out.refused, fault.message()) == out.refused.end())
        out.refused.push_back(fault.message());
    }
  }
  std::ranges::stable_sort(result.best, [](const Estimate& a, const Estimate& b) {
    return std::tuple(!a.tiers_s, !a.curves_s, a.step_s) < std::tuple(!b.tiers_s, !b.curves_s, b.step_s);
  });
  return out;
}

}  // namespace opentrn::planner
