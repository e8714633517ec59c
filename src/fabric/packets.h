// Packets instead of rates: slow, and what the flow model is held against.
//
// Every link sends one packet at a time and takes turns between flows, a packet each. A packet is handed on
// when all of it has arrived (store and forward), and a link sends one only when the next link has room for
// it, so what is held up at a narrow link holds up its source and nobody else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fabric/network.h"

namespace opentrn::fabric {

struct PacketFlow {
  std::vector<Route> routes;  // packets take them in turn, by share
  int64_t bytes = 0;
  int64_t start_ps = 0;
};

struct PacketOptions {
  int64_t packet_bytes = 4096;
  int room = 4;  // packets of one flow and route that a link holds
};

// When the last packet of each flow has arrived.
std::vector<int64_t> packet_ends_ps(const Network& network, std::span<const PacketFlow> flows,
                                    const PacketOptions& options = {});

}  // namespace opentrn::fabric
