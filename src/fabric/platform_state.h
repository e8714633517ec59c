// How a Platform keeps its links: every unit (an instance, or an UltraServer) has the same ones in the same
// order, so the link of a unit is its number within the unit plus that of the unit's first link.
#pragma once

#include "fabric/platform.h"
#include "fabric/routing.h"

namespace opentrn::fabric {

enum class Rule : uint8_t { kTorus, kPairedSwitches, kTwoLevelSwitch };

// One direction of a wire as links: the parts that leave from, and arrive at, different pairs of cores carry
// equal shares.
struct WireLinks {
  struct Part {
    LinkId link = 0;                        // of unit 0
    int leaves_from = -1, arrives_at = -1;  // pair of cores; -1: any
  };
  std::vector<Part> parts;
};

struct Platform::State {
  std::string name;
  Generation generation = Generation::kV2;
  Network network;

  int units = 1, servers_per_unit = 1, chips_per_server = 1, cores_per_chip = 1;
  int cores_per_stack = 1;
  int pairs_per_chip = 1;  // pairs of cores with a port of their own (SENG); 1: none
  int adapters_per_server = 0;
  bool has_spine = false;

  Rule rule = Rule::kTorus;
  Grid grid;                            // of a unit
  Grid server_grid;                     // of a server
  std::vector<int> neighbours_by_pair;  // chips x pairs, of a server; empty: any pair reaches any link

  LinkId links_per_unit = 0;
  std::vector<NodeId> chip_of_node;  // of unit 0; the node itself where it is not part of a chip
  // By vertex of the unit: the wires that leave it.
  struct Exit {
    int to = 0;
    WireLinks links;
  };
  std::vector<std::vector<Exit>> exits;
  // Of unit 0, by chip and then by stack, core or pair.
  std::vector<LinkId> hbm, rings, out_of_pair, into_pair;
  std::vector<LinkId> between_stacks;            // chip x stack x stack, where there are no pairs
  std::vector<LinkId> to_adapter, from_adapter;  // by chip
  std::vector<LinkId> adapter_out, adapter_in;   // by server and adapter
  std::vector<LinkId> spine_up, spine_down;      // by server
  Cluster cluster;
  std::vector<LinkId> core_up, core_down;  // by pod and rail; of the whole network, not of unit 0
  std::vector<std::pair<LinkClass, const arch::Fact*>> facts;
  std::vector<std::vector<int>> hamiltonian_cycles;
  std::vector<std::vector<LinkId>>
      exchanged_links;  // [instance][link]; where Platform::alike_instances() > 1

  int chips_per_unit() const { return servers_per_unit * chips_per_server; }
  int units_here() const { return cluster.pod_units / cluster.one_in; }  // of a pod
  int rail(int chip) const {
    return chip * adapters_per_server / chips_per_server * cluster.rails / adapters_per_server;
  }
  int stacks_per_chip() const { return cores_per_chip / cores_per_stack; }
  NodeId chip_node_of(NodeId node) const {
    const NodeId per_unit = static_cast<NodeId>(chip_of_node.size());
    return node / per_unit * per_unit + chip_of_node[static_cast<size_t>(node % per_unit)];
  }
  std::vector<Way> ways(int from, int to) const;
  int port(int chip, int other) const;  // of a server's chips; -1: none, or any pair reaches any link
  const WireLinks& wire(int from, int to) const;
};

// Two closed ways over a whole square torus that share no link: row by row to the right, one column further
// in each row, and the same with rows and columns exchanged. A step along that staircase, the exchange and
// the way back map the two to themselves, so what goes round them is equal for many chips, which a search
// does not see to.
std::vector<std::vector<int>> staircases(int side);
// Closed ways over the edges of a small graph that share no edge, at most `count` of them.
std::vector<std::vector<int>> disjoint_cycles(const std::vector<std::vector<int>>& neighbours, int count);

}  // namespace opentrn::fabric
