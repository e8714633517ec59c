// Gathering and reducing along given directed rings; ring.cc and flat_ring.cc choose the ways.
#pragma once

#include "collectives/exchange.h"

namespace opentrn::collectives {

// orders[i]: the members as directed ring i passes them, on channel first_channel + i; moves within a rank
// are on the channel behind those.
using RingOrders = std::vector<std::vector<int>>;
void gather_on_rings(Builder& builder, const Exchange& exchange, const RingOrders& orders);
void reduce_on_rings(Builder& builder, const Exchange& exchange, const RingOrders& orders);

// The part of each member in `orders[ring]`'s order, cut among the rings.
std::vector<Ranges> shares_of(const Exchange& exchange, const RingOrders& orders, size_t ring,
                              int element_bytes);

}  // namespace opentrn::collectives
