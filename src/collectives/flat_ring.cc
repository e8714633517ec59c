// Flat ring: all ranks of all servers on one directed ring, and several such rings at once. Within a server a
// ring is a chain, whose ends are wired to other servers; each ring opens its chains at another place, so
// that the rings use different EFA adapters. [doc: inter-node collectives]
// There are as many rings as adapters, which leave by different ones and come by different ones; they take
// the cycles of the layout in turn, each in both directions. [assumed]
#include <algorithm>
#include <map>
#include <set>

#include "collectives/ring.h"

namespace opentrn::collectives {

namespace {

constexpr int kRingsMin = 2, kRingsMax = 16;
constexpr int kRingsOfUnknownAdapters = 8;

// Members of each server by chip: in the order of a cycle, else of the chips' numbers.
using ByServer = std::map<int, std::vector<std::vector<int>>>;
ByServer chips_by_server(const Layout& layout, const std::vector<int>& members, size_t cycle_at) {
  // Through one instance of an UltraServer, back through the next.
  const auto place_on_cycle = [&](const Layout::Rank& rank) {
    if (layout.cycles.empty()) return rank.chip;
    const auto& cycle = layout.cycles[cycle_at];
    const auto size = static_cast<int>(cycle.size()), instance = layout.instance(rank);
    const auto at = static_cast<int>(std::ranges::find(cycle, layout.chip_in_instance(rank)) - cycle.begin());
    return instance * size + (instance % 2 == 0 ? at : size - 1 - at);
  };
  std::map<int, std::map<int, std::vector<int>>> found;
  for (size_t i = 0; i < members.size(); ++i) {
    const Layout::Rank& rank = layout.ranks[static_cast<size_t>(members[i])];
    found[rank.server][place_on_cycle(rank)].push_back(static_cast<int>(i));
  }
  ByServer servers;
  for (auto& [server, chips] : found)
    for (auto& [place, list] : chips) servers[server].push_back(std::move(list));
  return servers;
}

// Where each ring opens the cycle that it takes.
class Openings {
 public:
  // `adapters`: [cycle][place on it]. Of each cycle a ring goes forward, the next one backward.
  Openings(const std::vector<std::vector<int>>& adapters, int rings) : adapters_(adapters), rings_(rings) {}

  // The chip that each ring begins with when it goes forward.
  std::vector<int> find() {
    for (most_ = 1;; ++most_) {
      tried_ = 0;
      starts_.clear();
      out_.clear();
      in_.clear();
      if (search(0)) return starts_;
    }
  }

 private:
  // Rings from this one on, so that no adapter is left by more than `most_`, or come by.
  bool search(int ring) {
    if (ring == rings_) return true;
    constexpr int kTriedMax = 20'000;
    const auto& cycle = adapters_[static_cast<size_t>(ring / 2) % adapters_.size()];
    const int chips = static_cast<int>(cycle.size());
    for (int i = 0; i < chips && tried_ < kTriedMax; ++i, ++tried_) {
      const int start = (ring * chips / rings_ + i) % chips;
      int leaves = cycle[static_cast<size_t>((start + chips - 1) % chips)];
      int comes = cycle[static_cast<size_t>(start)];
      if (ring % 2 == 1) std::swap(leaves, comes);
      if (out_[leaves] == most_ || in_[comes] == most_) continue;
      ++out_[leaves], ++in_[comes];
      starts_.push_back(start);
      if (search(ring + 1)) return true;
      starts_.pop_back();
      --out_[leaves], --in_[comes];
    }
    return false;
  }

  const std::vector<std::vector<int>>& adapters_;
  int rings_, most_ = 1, tried_ = 0;
  std::vector<int> starts_;
  std::map<int, int> out_, in_;  // rings by adapter
};

RingOrders orders_of(const Layout& layout, const std::vector<int>& members) {
  std::vector<ByServer> cycles;
  std::vector<std::vector<int>> adapters;  // of the chips of the first server
  std::set<int> different;
  for (size_t cycle = 0; cycle < std::max<size_t>(1, layout.cycles.size()); ++cycle) {
    cycles.push_back(chips_by_server(layout, members, cycle));
    auto& of_cycle = adapters.emplace_back();
    for (const std::vector<int>& chip : cycles.back().begin()->second) {
      const int number = layout.ranks[static_cast<size_t>(members[static_cast<size_t>(chip[0])])].chip;
      of_cycle.push_back(layout.adapters.empty() ? number : layout.adapters[static_cast<size_t>(number)]);
      different.insert(of_cycle.back());
    }
  }
  const int rings = std::clamp(static_cast<int>(different.size()), kRingsMin,
                               layout.adapters.empty() ? kRingsOfUnknownAdapters : kRingsMax);
  const std::vector<int> starts = Openings(adapters, rings).find();
  RingOrders orders(starts.size());
  for (size_t ring = 0; ring < orders.size(); ++ring) {
    for (const auto& [server, lists] : cycles[ring / 2 % cycles.size()])
      for (size_t i = 0; i < lists.size(); ++i) {
        const auto& chip = lists[(i + static_cast<size_t>(starts[ring])) % lists.size()];
        orders[ring].insert(orders[ring].end(), chip.begin(), chip.end());
      }
    if (ring % 2 == 1) std::ranges::reverse(orders[ring]);
  }
  return orders;
}

std::string why_not_flat_ring(const Layout& layout, const std::vector<int>& members) {
  const auto servers = chips_by_server(layout, members, 0);
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
