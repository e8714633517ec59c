// Which wires a scale-up topology has, and which ways bytes take over them.
//
// A vertex is a chip of the unit (an instance or an UltraServer), or after the chips a NeuronSwitch. Each
// rule has a file of its own.
#pragma once

#include <vector>

#include "arch/topology.h"
#include "fabric/network.h"

namespace opentrn::fabric {

// What a wire is, which decides its rate.
enum class WireKind : uint8_t {
  kNeuronLink,   // between neighbours on a torus or a chain
  kUltraServer,  // the same, between two instances
  kNear,         // Trn3: to the other chip of the sled, or to the server's switch
  kSwitch,       // Trn3: to the rack's switch
  kRack,         // Trn3: to the other rack
};

// One direction.
struct Wire {
  int from = 0, to = 0;
  WireKind kind = WireKind::kNeuronLink;
};

struct Wiring {
  int vertices = 0;  // chips, then switches
  std::vector<Wire> wires;
};

// One of the ways that the bytes from one chip to another split into.
struct Way {
  std::vector<int> vertices;  // from the first chip to the last
  int32_t share = kWholeShare;
};

// A topology's sizes as numbers: reading them from the table again for each way would take longer than the
// way.
struct Grid {
  std::vector<int> sizes;
  bool closed = true;  // a torus; else a chain
  // The outermost axis is that of the instances of an UltraServer.
  bool across_instances = false;

  int chips() const;
  std::vector<int> coordinates(int chip) const;
  int id(const std::vector<int>& at) const;
};

// Dimension order, the last axis first. Where both directions round an axis are equally long, half of the
// bytes go each way: with that an exchange among all chips of a row, of two rows or of the whole 4x4 torus
// loads all of their links alike.
Wiring torus_wiring(const Grid& grid);
std::vector<Way> torus_ways(const Grid& grid, int from, int to);

// By the destination's address, so that what follows data takes the same way: to the other rack first, then
// to the other side of the sled, then over the switch. [assumed: the order is published nowhere]
Wiring paired_switches_wiring(const Grid& grid);
std::vector<Way> paired_switches_ways(const Grid& grid, int from, int to);

// By the destination's address: to the other rack first, then over the server's switch or the rack's.
// [assumed: the order is published nowhere]
Wiring two_level_switch_wiring(const Grid& grid);
std::vector<Way> two_level_switch_ways(const Grid& grid, int from, int to);

}  // namespace opentrn::fabric
