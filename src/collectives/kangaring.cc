// KangaRing: pairs of ranks of a chip are one station of a ring. The primary of a pair passes on what both
// bring, so there are half as many hops as ranks, and fewer accesses to HBM: gathering, what was received is
// read once and written twice, to the next primary and to the own secondary; reducing, what was received and
// the inputs of both ranks are summed in one step. Which of a pair is the primary alternates between the
// directed rings, so each rank is in half of them; where ranks are at the ports of links, those whose links a
// ring takes are its primaries.
//
// The first hop of a secondary's part is a step of the secondary here, as steps read memory of their rank
// first [assumed: AWS has the primary read it].
#include <algorithm>
#include <array>
#include <span>

#include "collectives/ring.h"
#include "collectives/ring_orders.h"

namespace opentrn::collectives {

namespace {

constexpr int kKangaringSlots = 2;
constexpr size_t kRanksOfTwoStations = 4;

std::string why_not_kangaring(const Layout& layout, const std::vector<int>& members) {
  const auto place = [&](int member) {
    return layout.ranks[static_cast<size_t>(members[static_cast<size_t>(member)])];
  };
  if (members.size() % 2 != 0) return "its ranks do not make pairs";
  const std::vector<int> order = ring_orders(layout, members)[0];
  for (size_t i = 0; i < order.size(); ++i) {
    if (place(order[i]).server != place(order[0]).server) return "it works within one server";
    if (place(order[i]).chip != place(order[i / 2 * 2]).chip) return "it needs pairs of ranks on each chip";
  }
  return "";
}

int channels_of_kangaring(const Layout& layout, const std::vector<int>& members) {
  return static_cast<int>(ring_orders(layout, members).size()) + 1;
}

struct Station {
  int primary = 0, secondary = 0;  // members
};

struct PairRing {
  const Exchange& exchange;
  int channel;
  std::vector<Station> stations;
  std::vector<Ranges> shares;  // [member]: of this ring

  int size() const { return static_cast<int>(stations.size()); }
  const Station& at(int position) const {
    return stations[static_cast<size_t>((position + 2 * size()) % size())];
  }
  int rank(int member) const { return exchange.members[static_cast<size_t>(member)]; }
  At target(int member, const Range& range) const {
    return {rank(member), exchange.target(member, range.offset)};
  }
  At source(int member, const Range& range) const {
    return {rank(member), exchange.source(member, range.offset)};
  }
};

// The station at a position of a ring. Where ranks are at ports and a chip has two stations, the primaries
// are the ranks at the links that the ring comes and leaves by, which the other rings of the chip have as
// secondaries.
Station station_at(const Layout& layout, const std::vector<int>& members, const std::vector<int>& order,
                   size_t position, size_t ring) {
  const size_t n = order.size();
  const auto is_with = [&](size_t other) {
    const auto chip = [&](size_t at) {
      return layout.ranks[static_cast<size_t>(members[static_cast<size_t>(order[at % n])])].chip;
    };
    return chip(position) == chip(other);
  };
  const Station in_order{order[position], order[position + 1]};
  const Station swapped{order[position + 1], order[position]};
  if (!layout.passes.empty() && n > kRanksOfTwoStations) {
    const bool first = !is_with(position + n - 1), second = !is_with(position + 2);
    if (first && is_with(position + 3) && !is_with(position + 4)) return in_order;
    if (second && is_with(position + n - 2) && !is_with(position + n - 3)) return swapped;
  }
  return (ring % 2 == 0) == (order[position] < order[position + 1]) ? in_order : swapped;
}

std::vector<PairRing> rings_of(const Layout& layout, const Exchange& exchange, int element_bytes) {
  const RingOrders orders = ring_orders(layout, exchange.members);
  std::vector<PairRing> rings;
  for (size_t i = 0; i < orders.size(); ++i) {
    PairRing ring{exchange, exchange.first_channel + static_cast<int>(i), {}, {}};
    const auto shares = shares_of(exchange, orders, i, element_bytes);
    ring.shares.resize(shares.size());
    for (size_t position = 0; position < shares.size(); ++position)
      ring.shares[static_cast<size_t>(orders[i][position])] = shares[position];
    for (size_t position = 0; position < orders[i].size(); position += 2)
      ring.stations.push_back(station_at(layout, exchange.members, orders[i], position, i));
    rings.push_back(std::move(ring));
  }
  return rings;
}

// What station `position` brought is passed on by the station `hop` further, and by that to its secondary.
void pass_on(Builder& builder, const PairRing& ring, int position, int hop) {
  const Station& station = ring.at(position + hop);
  const bool is_last = hop == ring.size() - 1;
  for (const int member : {ring.at(position).primary, ring.at(position).secondary})
    for (const Range& range : ring.shares[static_cast<size_t>(member)]) {
      At from = ring.target(station.primary, range), other = ring.target(station.secondary, range);
      if (hop == 0) {
        from = ring.source(member, range);
        other = ring.target(member == station.primary ? station.secondary : station.primary, range);
      }
      if (is_last)
        builder.copy(ring.channel, from, other, range.bytes);
      else
        builder.copy_twice(ring.channel, from, ring.target(ring.at(position + hop + 1).primary, range), other,
                           range.bytes);
    }
}

void gather_by_kangaring(Builder& builder, const Layout& layout, const Exchange& exchange) {
  const auto rings = rings_of(layout, exchange, builder.element_bytes());
  for (const PairRing& ring : rings)
    for (int hop = 0; hop < ring.size(); ++hop)
      for (int position = 0; position < ring.size(); ++position) pass_on(builder, ring, position - hop, hop);
  keep_own_parts(builder, exchange, exchange.first_channel + static_cast<int>(rings.size()));
}

void reduce_by_kangaring(Builder& builder, const PairRing& ring) {
  int64_t largest = 0;
  for (int position = 0; position < ring.size(); ++position)
    largest = std::max(largest, bytes_of(ring.shares[static_cast<size_t>(ring.at(position).primary)]) +
                                    bytes_of(ring.shares[static_cast<size_t>(ring.at(position).secondary)]));
  int64_t slots[kKangaringSlots];
  for (int64_t& slot : slots) slot = builder.scratch(largest);
  const int last = ring.size() - 1;
  for (int hop = 0; hop <= last; ++hop)
    for (int position = 0; position < ring.size(); ++position) {
      const Station &station = ring.at(position), &owner = ring.at(position - hop - 1);
      int64_t packed = 0;
      for (const int member : {owner.primary, owner.secondary})
        for (const Range& range : ring.shares[static_cast<size_t>(member)]) {
          std::array<At, 3> sources;  // not a vector: there are tens of thousands of steps
          size_t count = 0;
          const int rank = ring.rank(station.primary);
          if (hop > 0)
            sources[count++] = {rank, {Buffer::kScratch, slots[(hop - 1) % kKangaringSlots] + packed}};
          sources[count++] = ring.source(station.primary, range);
          sources[count++] = ring.source(station.secondary, range);
          const At to = hop == last ? ring.target(member, range)
                                    : At{ring.rank(ring.at(position + 1).primary),
                                         {Buffer::kScratch, slots[hop % kKangaringSlots] + packed}};
          builder.combine(ring.channel, std::span(sources).first(count), to, range.bytes);
          packed += range.bytes;
        }
    }
}

void reduce_all(Builder& builder, const Layout& layout, const Exchange& exchange) {
  for (const PairRing& ring : rings_of(layout, exchange, builder.element_bytes()))
    reduce_by_kangaring(builder, ring);
}

}  // namespace

const ExchangeAlgorithm& kangaring_exchange() {
  static const ExchangeAlgorithm kKangaring{"kangaring", why_not_kangaring, channels_of_kangaring,
                                            gather_by_kangaring, reduce_all};
  return kKangaring;
}

}  // namespace opentrn::collectives
