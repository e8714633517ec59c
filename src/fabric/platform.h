// The fabrics of AWS's instances, UltraServers and clusters as networks, with the way between any two cores.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "arch/tables.h"
#include "fabric/network.h"

namespace opentrn::fabric {

// Where a physical NeuronCore stands. `seng`: the pair of cores that shares an HBM stack and owns a link, on
// chips that have such pairs; else 0.
struct Place {
  int server = 0, chip = 0, seng = 0, core = 0;  // chip: within the server; core: within the chip
  friend bool operator==(const Place&, const Place&) = default;
};

// Part of the rate of links that other jobs take all the time.
struct Taken {
  LinkClass kind = LinkClass::kEfa;
  double share = 0;  // 0 to below 1; of what is left by those before it
  int unit = -1;     // of this unit (with kCore, of its pod); -1: of all
};

// The network above the units. Nothing public says how AWS's is built above the adapters: a Clos of pods is
// assumed, whose core may be oversubscribed.
struct Cluster {
  int pod_units = 0;            // units of a pod; 0: one network joins all
  int one_in = 1;               // a platform that has one of so many units of each pod, for all of them
  int rails = 1;                // the core in parts: adapter i of a server is on rail i * rails / adapters
  double oversubscription = 1;  // adapters of a pod over what its links to the core carry
  std::vector<Taken> taken;
};

class Platform {
 public:
  // `name`: an instance ("trn1n.32xlarge"), an UltraServer ("Trn2 UltraServer") or a target ("trn2"), for
  // which the table `fabric_target` names a machine. `count`: how many of them, joined by EFA. An input fault
  // for a name or a wiring that is unknown.
  static Platform make(const arch::Tables& tables, const std::string& name, int count = 1);
  // The same in a cluster; an input fault for a cluster that is none.
  static Platform make(const arch::Tables& tables, const std::string& name, int count,
                       const Cluster& cluster);
  ~Platform();
  Platform(Platform&&) noexcept;

  const std::string& name() const;
  Generation generation() const;
  const Network& network() const;
  int servers() const;           // of one operating system each
  int servers_per_unit() const;  // of an UltraServer; else 1
  int chips_per_server() const;
  int cores_per_chip() const;  // physical
  int cores() const;           // physical, of all servers
  // Cores count through a chip, then through a server, then through the servers.
  Place place(int core) const;
  // Chips that are wired to this one directly, in neuron-ls order. `chip`: within the server.
  std::vector<int> neighbours(int chip) const;
  // From the HBM of one core to that of another by the DMA engines of the first. HBM that is read and written
  // by the same path, as with `from` == `to`, has twice the share. Chips of different instances that no
  // NeuronLink joins reach each other over EFA: kUnspecified where no page says what network there is.
  Path path(int from, int to) const;
  // The same, way by way.
  std::vector<Route> routes(int from, int to) const;
  // Closed ways through all chips of a server that share no link in the same direction, as rings use them;
  // each can be walked both ways. Empty where there is none (a chain).
  const std::vector<std::vector<int>>& hamiltonian_cycles() const;
  // The same of some chips of a server, over links between these chips only: of a row of a torus one, of two
  // rows one, of a 4x4 torus two. Two chips that are neighbours are a cycle, of which both directions are the
  // same two links. Empty where there is none.
  std::vector<std::vector<int>> cycles(std::vector<int> chips) const;
  // The pair of cores (Place::seng) of a chip that has the link to a neighbour in its server; -1 where any
  // core reaches any link.
  int port(int chip, int neighbour) const;
  int pairs_per_chip() const;  // 1: it has none
  // Rows and columns of a server's chips on a torus of two axes; 1 and the number of chips elsewhere.
  int rows() const;
  int columns() const;
  // What a core's transfers load beside the path between chips. A reduction reads its HBM stack more often
  // than a copy: whoever makes such a flow raises the share of that hop.
  LinkId hbm(int core) const;
  LinkId dma_rings(int core) const;
  int units() const;
  LinkId links_per_unit() const;
  // How many instances of a unit do the same when all do: exchanging them by exclusive or of their numbers
  // maps an UltraServer's torus to itself, each link to one of its rate and latency. 1 where that is not so.
  int alike_instances() const;
  // Of a link of such a unit, the one that it is as seen from the first instance, when all are exchanged so
  // that `instance` is the first. A link of another unit stays in it.
  LinkId seen_from(int instance, LinkId link) const;
  int one_in() const;  // of the cluster
  // Where the rates of the links of a class come from, in the order of the tables; empty: no such links.
  std::vector<const arch::Fact*> facts(LinkClass kind) const;

  struct State;  // platform_state.h, for the files of this folder
  const State& state() const { return *state_; }

 private:
  explicit Platform(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace opentrn::fabric
