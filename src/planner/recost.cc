#include "planner/recost.h"

#include <algorithm>
#include <cmath>

namespace opentrn::planner {

bool has_moved(const Estimate& plan) {
  return plan.curves_s && std::abs(plan.step_s / *plan.curves_s - 1) > kMovedBy;
}

Recost recost(const Job& job, const Machine& machine, const Stack& stack, size_t most, LayerSource& source,
              SearchResult& result) {
  Recost out;
  std::vector<Layout> layouts;
  for (size_t i = 0; i < std::min(most, result.best.size()); ++i) layouts.push_back(result.best[i].layout);
  source.prepare(job, machine, layouts);
  for (size_t i = 0; i < std::min(most, result.best.size()); ++i) {
    Estimate& plan = result.best[i];
    std::string why;
    const auto layers = source.layers(job, machine, plan.layout, why);
    if (!layers) {
      if (std::ranges::find(out.refused, why) == out.refused.end()) out.refused.push_back(why);
      continue;
    }
    const double curves_s = plan.step_s;
    const Layout layout = plan.layout;
    plan = evaluate(job, machine, stack, layout, &*layers);
    plan.layer_times = std::make_shared<const LayerTimes>(*layers);
    for (const auto& way : layers->other_ways) {
      Estimate other = evaluate(job, machine, stack, layout, way.get());
      other.layer_times = way;
      if (other.step_s < plan.step_s) plan = std::move(other);
    }
    plan.curves_s = curves_s;
    plan.layers = source.name();
    ++out.plans;
    out.moved += has_moved(plan) ? 1 : 0;
  }
  std::ranges::stable_sort(result.best, [](const Estimate& a, const Estimate& b) {
    return std::pair(!a.curves_s, a.step_s) < std::pair(!b.curves_s, b.step_s);
  });
  return out;
}

}  // namespace opentrn::planner
