#include "collectives/timing_graph.h"

#include "base/interrupt.h"
#include "collectives/simulation.h"
#include "fabric/alike_flows.h"
#include "fabric/recurring_flows.h"

namespace opentrn::collectives {

Lists Lists::of_pairs(size_t lists, std::span<const std::pair<int32_t, int32_t>> pairs) {
  Lists out;
  out.first.assign(lists + 1, 0);
  for (const auto& [list, item] : pairs) ++out.first[static_cast<size_t>(list) + 1];
  for (size_t list = 0; list < lists; ++list) out.first[list + 1] += out.first[list];
  out.items.resize(pairs.size());
  std::vector<int64_t> at(out.first.begin(), out.first.end() - 1);
  for (const auto& [list, item] : pairs)
    out.items[static_cast<size_t>(at[static_cast<size_t>(list)]++)] = item;
  return out;
}

Lists Lists::turned() const {
  Lists out;
  out.first.assign(size() + 1, 0);
  for (const int32_t item : items) ++out.first[static_cast<size_t>(item) + 1];
  for (size_t item = 0; item < size(); ++item) out.first[item + 1] += out.first[item];
  out.items.resize(items.size());
  std::vector<int64_t> at(out.first.begin(), out.first.end() - 1);
  for (size_t list = 0; list < size(); ++list) {
    interrupt::poll();
    for (const int32_t item : of(static_cast<int32_t>(list)))
      out.items[static_cast<size_t>(at[static_cast<size_t>(item)]++)] = static_cast<int32_t>(list);
  }
  return out;
}

int32_t TimingGraph::add_way(std::span<const fabric::Hop> way, int64_t latency_ps) {
  hops.insert(hops.end(), way.begin(), way.end());
  way_first.push_back(static_cast<int64_t>(hops.size()));
  way_latency_ps.push_back(latency_ps);
  return static_cast<int32_t>(way_latency_ps.size()) - 1;
}

namespace {

template <typename TheFlows>
std::optional<GraphTimes> simulated_over(const TimingGraph& graph) {
  return SimulationOver<TheFlows>(graph).run_while_it_pays();
}

}  // namespace

GraphTimes simulate(const TimingGraph& graph) {
  // Where so many steps are simulated, much of it is alike at one time. Where there are fewer, some of them
  // classes of alike ones, the same flows come together time and again. What is tried in vain is a small
  // part.
  constexpr size_t kMany = 200'000;
  auto times = graph.steps.size() >= kMany ? simulated_over<fabric::AlikeFlows>(graph)
                                           : simulated_over<fabric::RecurringFlows>(graph);
  return times ? std::move(*times) : Simulation(graph).run();
}

}  // namespace opentrn::collectives
