// Ring: each rank passes parts on to the next one. Directed rings run at once, each on a share of every part.
//
// Gathering, a rank sends its own part first, then what it received last. Reducing, the share of a part
// starts at the rank after its owner, and each rank adds its own on the way: it reads what it received and
// its own, and writes the sum to the next rank. A rank receives into two slots in turn; the sender waits for
// a slot to be read before it writes it again.
#include "collectives/ring.h"

#include <algorithm>

#include "collectives/ring_orders.h"

namespace opentrn::collectives {

namespace {

constexpr int kRingSlots = 2;

// One for each directed ring, and one for moves within the rank.
int channels_of_ring(const Layout& layout, const std::vector<int>& members) {
  return static_cast<int>(ring_orders(layout, members).size()) + 1;
}

// One directed ring: the members by their positions on it, and its share of the part of each.
struct Ring {
  const Exchange& exchange;
  const std::vector<int>& order;
  int channel;
  std::vector<Ranges> shares;  // [position]

  int size() const { return static_cast<int>(order.size()); }
  int member(int position) const { return order[static_cast<size_t>((position + size()) % size())]; }
  int rank(int position) const { return exchange.members[static_cast<size_t>(member(position))]; }
  const Ranges& share(int position) const {
    return shares[static_cast<size_t>((position + 2 * size()) % size())];
  }
};

std::vector<Ring> rings_of(const Exchange& exchange, const RingOrders& orders, int element_bytes) {
  std::vector<Ring> rings;
  for (size_t ring = 0; ring < orders.size(); ++ring)
    rings.push_back({exchange, orders[ring], exchange.first_channel + static_cast<int>(ring),
                     shares_of(exchange, orders, ring, element_bytes)});
  return rings;
}

void gather_by_ring(Builder& builder, const Ring& ring) {
  for (int hop = 0; hop + 1 < ring.size(); ++hop)
    for (int position = 0; position < ring.size(); ++position)
      copy_ranges(builder, ring.channel, ring.exchange,
                  hop == 0 ? ring.exchange.source : ring.exchange.target, ring.member(position),
                  ring.member(position + 1), ring.share(position - hop));
}

void reduce_by_ring(Builder& builder, const Ring& ring) {
  int64_t largest = 0;
  for (const Ranges& share : ring.shares) largest = std::max(largest, bytes_of(share));
  int64_t slots[kRingSlots];
  for (int64_t& slot : slots) slot = builder.scratch(largest);
  const Exchange& exchange = ring.exchange;
  const int last = ring.size() - 1;
  for (int hop = 0; hop <= last; ++hop)
    for (int position = 0; position < ring.size(); ++position) {
      int64_t packed = 0;
      for (const Range& range : ring.share(position - hop - 1)) {
        const int rank = ring.rank(position);
        std::vector<At> sources;
        if (hop > 0) sources.push_back({rank, {Buffer::kScratch, slots[(hop - 1) % kRingSlots] + packed}});
        sources.push_back({rank, exchange.source(ring.member(position), range.offset)});
        const At to = hop == last
                          ? At{rank, exchange.target(ring.member(position), range.offset)}
                          : At{ring.rank(position + 1), {Buffer::kScratch, slots[hop % kRingSlots] + packed}};
        builder.combine(ring.channel, sources, to, range.bytes);
        packed += range.bytes;
      }
    }
}

}  // namespace

std::vector<Ranges> shares_of(const Exchange& exchange, const RingOrders& orders, size_t ring,
                              int element_bytes) {
  std::vector<Ranges> shares;
  for (const int member : orders[ring])
    shares.push_back(part_of(exchange.parts[static_cast<size_t>(member)], static_cast<int>(orders.size()),
                             static_cast<int>(ring), element_bytes));
  return shares;
}

void gather_on_rings(Builder& builder, const Exchange& exchange, const RingOrders& orders) {
  for (const Ring& ring : rings_of(exchange, orders, builder.element_bytes())) gather_by_ring(builder, ring);
  keep_own_parts(builder, exchange, exchange.first_channel + static_cast<int>(orders.size()));
}

void reduce_on_rings(Builder& builder, const Exchange& exchange, const RingOrders& orders) {
  for (const Ring& ring : rings_of(exchange, orders, builder.element_bytes())) reduce_by_ring(builder, ring);
}

const ExchangeAlgorithm& ring_exchange() {
  static const ExchangeAlgorithm kRing{
      "ring", [](const Layout&, const std::vector<int>&) { return std::string(); }, channels_of_ring,
      [](Builder& builder, const Layout& layout, const Exchange& exchange) {
        gather_on_rings(builder, exchange, ring_orders(layout, exchange.members));
      },
      [](Builder& builder, const Layout& layout, const Exchange& exchange) {
        reduce_on_rings(builder, exchange, ring_orders(layout, exchange.members));
      }};
  return kRing;
}

}  // namespace opentrn::collectives
