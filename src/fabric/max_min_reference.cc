#include <algorithm>

#include "fabric/flows.h"

namespace opentrn::fabric {

namespace {

// Raises the rates of the flows of one class together until each has a full link or its limit; `free` is what
// the classes before it left of each link.
void fill(std::span<const Flow> flows, int priority, std::vector<long double>& free,
          std::vector<double>& rates) {
  // Levels that differ by less are one: both are the same fraction, rounded.
  constexpr long double kSame = 1e-15L;
  std::vector<size_t> growing;
  for (size_t i = 0; i < flows.size(); ++i)
    if (flows[i].priority == priority && flows[i].bytes > 0) growing.push_back(i);
  const auto load = [&](const Flow& flow, const Hop& hop) {
    return static_cast<long double>(hop.share) * static_cast<long double>(flow.multiplicity) / kWholeShare;
  };
  while (!growing.empty()) {
    std::vector<long double> wanted(free.size());
    for (size_t i : growing)
      for (const Hop& hop : flows[i].hops)
        wanted[static_cast<size_t>(hop.link)] += flows[i].weight * load(flows[i], hop);
    const auto level_of = [&](size_t i) {
      long double level =
          static_cast<long double>(std::min(flows[i].bytes_per_s_max, kBytesPerSecondMax)) / flows[i].weight;
      for (const Hop& hop : flows[i].hops) {
        const size_t link = static_cast<size_t>(hop.link);
        level = std::min(level, free[link] / wanted[link]);
      }
      return level;
    };
    std::vector<long double> levels;
    for (size_t i : growing) levels.push_back(level_of(i));
    const long double lowest = *std::min_element(levels.begin(), levels.end());
    std::vector<size_t> rest;
    std::vector<size_t> done;
    for (size_t k = 0; k < growing.size(); ++k)
      (levels[k] <= lowest + lowest * kSame ? done : rest).push_back(growing[k]);
    for (size_t i : done) {
      const long double rate = lowest * flows[i].weight;
      rates[i] = static_cast<double>(rate);
      for (const Hop& hop : flows[i].hops) {
        long double& left = free[static_cast<size_t>(hop.link)];
        left = std::max(0.0L, left - rate * load(flows[i], hop));
      }
    }
    growing = std::move(rest);
  }
}

}  // namespace

std::vector<double> max_min_reference(const Network& network, std::span<const Flow> flows) {
  std::vector<long double> free;
  for (const Link& link : network.links) free.push_back(static_cast<long double>(link.bytes_per_s));
  std::vector<int> priorities;
  for (const Flow& flow : flows) priorities.push_back(flow.priority);
  std::sort(priorities.begin(), priorities.end());
  priorities.erase(std::unique(priorities.begin(), priorities.end()), priorities.end());
  std::vector<double> rates(flows.size());
  for (int priority : priorities) fill(flows, priority, free, rates);
  return rates;
}

}  // namespace opentrn::fabric
