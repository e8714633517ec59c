// Flat ring: all ranks of all servers on one directed ring, and several such rings at once. Within a server a
// ring is a chain, whose ends are wired to other servers; each ring begins its chains at another chip, so
// that the rings use different EFA adapters. [doc: inter-node collectives]
// Odd rings run the other way, and there are at most 8. [assumed]
#include <algorithm>
#include <map>

#include "collectives/ring.h"

namespace opentrn::collectives {

namespace {

constexpr size_t kRingsMax = 8;

// Members of each server by chip: in the order of the first cycle, else of the chips' numbers.
std::map<int, std::vector<std::vector<int>>> chips_by_server(const Layout& layout,
                                                             const std::vector<int>& members) {
  // Through one instance of an UltraServer, back through the next.
  const auto place_on_cycle = [&](const Layout::Rank& rank) {
    if (layout.cycles.empty()) return rank.chip;
    const auto& cycle = layout.cycles[0];
    const auto size = static_cast<int>(cycle.size()), instance = layout.instance(rank);
    const auto at = static_cast<int>(std::ranges::find(cycle, layout.chip_in_instance(rank)) - cycle.begin());
    return instance * size + (instance % 2 == 0 ? at : size - 1 - at);
  };
  std::map<int, std::map<int, std::vector<int>>> found;
  for (size_t i = 0; i < members.size(); ++i) {
    const Layout::Rank& rank = layout.ranks[static_cast<size_t>(members[i])];
    found[rank.server][place_on_cycle(rank)].push_back(static_cast<int>(i));
  }
  std::map<int, std::vector<std::vector<int>>> servers;
  for (auto& [server, chips] : found)
    for (auto& [place, list] : chips) servers[server].push_back(std::move(list));
  return servers;
}

RingOrders orders_of(const Layout& layout, const std::vector<int>& members) {
  const auto servers = chips_by_server(layout, members);
  const size_t chips = servers.begin()->second.size();
  RingOrders orders(std::clamp<size_t>(chips, 2, kRingsMax));
  for (size_t ring = 0; ring < orders.size(); ++ring) {
    for (const auto& [server, lists] : servers)
      for (size_t i = 0; i < lists.size(); ++i) {
        const auto& chip = lists[(i + ring * chips / orders.size()) % lists.size()];
        orders[ring].insert(orders[ring].end(), chip.begin(), chip.end());
      }
    if (ring % 2 == 1) std::ranges::reverse(orders[ring]);
  }
  return orders;
}

std::string why_not_flat_ring(const Layout& layout, const std::vector<int>& members) {
  const auto servers = chips_by_server(layout, members);
  if (servers.size() < 2) return "it joins several servers, and there is one";
  for (const auto& [server, chips] : servers)
    if (chips.size() != servers.begin()->second.size()) return "the servers have different numbers of chips";
  return "";
}

}  // namespace

const ExchangeAlgorithm& flat_ring_exchange() {
  static const ExchangeAlgorithm kFlatRing{
      "flat_ring", why_not_flat_ring,
      [](const Layout& layout, const std::vector<int>& members) {
        return static_cast<int>(orders_of(layout, members).size()) + 1;
      },
      [](Builder& builder, const Layout& layout, const Exchange& exchange) {
        gather_on_rings(builder, exchange, orders_of(layout, exchange.members));
      },
      [](Builder& builder, const Layout& layout, const Exchange& exchange) {
        reduce_on_rings(builder, exchange, orders_of(layout, exchange.members));
      }};
  return kFlatRing;
}

}  // namespace opentrn::collectives
