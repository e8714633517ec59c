#include "collectives/alike_ranks.h"

#include <algorithm>
#include <utility>

#include "base/interrupt.h"
#include "collectives/signatures.h"
#include "collectives/timing_graph.h"

namespace opentrn::collectives {

namespace {

class RankRefinement {
 public:
  RankRefinement(const WaysOfRanks& ways, const fabric::Network& network) : ways_(ways), network_(network) {}

  std::optional<RankClasses> run() {
    std::vector<uint64_t> signatures(network_.links.size());
    for (size_t i = 0; i < signatures.size(); ++i)
      signatures[i] = mixed(static_cast<uint64_t>(network_.links[i].bytes_per_s));
    links_ = number(signatures, found_.of_link);
    found_.of_rank.assign(static_cast<size_t>(ways_.ranks), 0);
    ranks_ = 1;
    while (pass()) interrupt::poll();
    found_.first_rank = first_of_each(found_.of_rank, ranks_);
    found_.first_link = first_of_each(found_.of_link, links_);
    if (!ranks_are_alike() || !links_are_alike()) return std::nullopt;
    return std::move(found_);
  }

 private:
  // Whether there are more classes than before.
  bool pass() {
    std::vector<uint64_t> of_rank(found_.of_rank.begin(), found_.of_rank.end());
    std::vector<uint64_t> of_link(found_.of_link.begin(), found_.of_link.end());
    for (int32_t rank = 0; rank < ways_.ranks; ++rank) {
      uint64_t& hash = of_rank[static_cast<size_t>(rank)];
      for (int32_t kind = 0; kind < ways_.kinds; ++kind) {
        const uint64_t of_kind = mixed(pair_of(class_of(rank), kind));
        uint64_t way = static_cast<uint64_t>(latency_ps(rank, kind));
        for (const fabric::Hop& hop : ways_.of(rank, kind)) {
          way += mixed(pair_of(class_of_link(hop.link), hop.share));
          of_link[static_cast<size_t>(hop.link)] += of_kind * static_cast<uint64_t>(hop.share);
        }
        hash = mixed(hash, mixed(way));
      }
      for (const int32_t by : ways_.displacements)
        hash = mixed(mixed(hash) + static_cast<uint64_t>(class_of(rank ^ by)));
    }
    // Classes are refined, never joined.
    for (size_t i = 0; i < of_rank.size(); ++i)
      of_rank[i] = mixed(mixed(of_rank[i]), static_cast<uint64_t>(found_.of_rank[i]));
    for (size_t i = 0; i < of_link.size(); ++i)
      of_link[i] = mixed(mixed(of_link[i]), static_cast<uint64_t>(found_.of_link[i]));
    const int32_t ranks_before = std::exchange(ranks_, number(of_rank, found_.of_rank)),
                  links_before = std::exchange(links_, number(of_link, found_.of_link));
    return ranks_ != ranks_before || links_ != links_before;
  }

  int32_t class_of(int32_t rank) const { return found_.of_rank[static_cast<size_t>(rank)]; }
  int32_t class_of_link(fabric::LinkId link) const { return found_.of_link[static_cast<size_t>(link)]; }
  int64_t latency_ps(int32_t rank, int32_t kind) const {
    return ways_
        .latency_ps[static_cast<size_t>(rank) * static_cast<size_t>(ways_.kinds) + static_cast<size_t>(kind)];
  }

  // The classes of a way's links with its shares of them, in their order.
  void read(int32_t rank, int32_t kind, Counts& way) const {
    way.clear();
    for (const fabric::Hop& hop : ways_.of(rank, kind)) way.emplace_back(class_of_link(hop.link), hop.share);
    std::ranges::sort(way);
  }

  bool ranks_are_alike() const {
    Counts own, first;
    for (int32_t rank = 0; rank < ways_.ranks; ++rank) {
      const int32_t of = found_.first_rank[static_cast<size_t>(class_of(rank))];
      if (of == rank) continue;
      for (int32_t kind = 0; kind < ways_.kinds; ++kind) {
        read(rank, kind, own);
        read(of, kind, first);
        if (own != first || latency_ps(rank, kind) != latency_ps(of, kind)) return false;
      }
      for (const int32_t by : ways_.displacements)
        if (class_of(rank ^ by) != class_of(of ^ by)) return false;
    }
    return true;
  }

  // Sums up what each link carries of each kind and class, and holds it against the first link of its class.
  bool links_are_alike() {
    std::vector<std::pair<int32_t, int32_t>> crossings;  // a link, and a hop
    crossings.reserve(ways_.hops.size());
    std::vector<int32_t> what(ways_.hops.size());  // class * kinds + kind of each hop
    for (int32_t rank = 0; rank < ways_.ranks; ++rank)
      for (int32_t kind = 0; kind < ways_.kinds; ++kind)
        for (const fabric::Hop& hop : ways_.of(rank, kind)) {
          what[crossings.size()] = class_of(rank) * ways_.kinds + kind;
          crossings.emplace_back(hop.link, static_cast<int32_t>(crossings.size()));
        }
    const Lists of_link = Lists::of_pairs(network_.links.size(), crossings);
    const int32_t sorts = ranks_ * ways_.kinds;
    found_.loads.resize(static_cast<size_t>(sorts));
    std::vector<Counts> first(static_cast<size_t>(links_));
    Summer sums(sorts);
    for (size_t link = 0; link < network_.links.size(); ++link) {
      for (const int32_t hop : of_link.of(static_cast<int32_t>(link)))
        sums.add(what[static_cast<size_t>(hop)], ways_.hops[static_cast<size_t>(hop)].share);
      const auto of = static_cast<size_t>(found_.of_link[link]);
      const auto representative = static_cast<size_t>(found_.first_link[of]);
      if (representative == link) {
        sums.read(first[of]);
        for (const auto& [sort, share] : first[of])
          found_.loads[static_cast<size_t>(sort)].push_back({static_cast<int32_t>(of), share});
      } else if (!sums.equals(first[of]) ||
                 network_.links[link].bytes_per_s != network_.links[representative].bytes_per_s) {
        return false;
      }
      sums.clear();
    }
    return true;
  }

  const WaysOfRanks& ways_;
  const fabric::Network& network_;
  RankClasses found_;
  int32_t ranks_ = 0, links_ = 0;
};

}  // namespace

std::optional<RankClasses> rank_classes(const WaysOfRanks& ways, const fabric::Network& network) {
  return RankRefinement(ways, network).run();
}

}  // namespace opentrn::collectives
