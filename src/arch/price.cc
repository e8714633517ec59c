#include "arch/price.h"

#include <algorithm>

namespace opentrn::arch {

std::map<std::string, std::optional<double>> usd_per_core_hour(const Tables& tables, std::string_view target,
                                                               int physical_cores_per_core) {
  const Generation generation = tables.resolve_target(target);
  const bool is_instance =
      std::ranges::any_of(tables.instances(), [&](const Instance& each) { return each.name == target; });
  std::map<std::string, std::optional<double>> rates{
      {"on_demand", std::nullopt}, {"reserved", std::nullopt}, {"capacity_block", std::nullopt}};
  for (const Instance& instance : tables.instances()) {
    const Chip& chip = tables.chip(instance.chip);
    if (chip.generation != generation || (is_instance && instance.name != target)) continue;
    const double cores = double(int{instance.chips}) * int{chip.cores} / physical_cores_per_core;
    const auto take = [&](const char* kind, const Spec<double>& rate) {
      if (!rate.known()) return;
      std::optional<double>& least = rates[kind];
      least = std::min(least.value_or(rate / cores), rate / cores);
    };
    take("on_demand", instance.price.on_demand_usd_h);
    take("reserved", instance.price.reserved_usd_h);
    take("capacity_block", instance.price.capacity_block_usd_h);
  }
  return rates;
}

}  // namespace opentrn::arch
