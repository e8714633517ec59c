#include "fabric/platform.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "arch/closest.h"
#include "base/units.h"
#include "fabric/flows.h"
#include "fabric/platform_state.h"

namespace opentrn::fabric {

namespace {

constexpr double kBitsPerByte = 8;
constexpr double kOversubscriptionMax = 1e6;

// What the tables say of a platform, whatever kind of name was asked for.
struct Machine {
  std::string name, chip, topology, fabric;
  int servers = 1, chips_per_server = 1;
  const arch::Instance* server = nullptr;
};

Machine of_instance(const arch::Instance& instance) {
  return {instance.name,  instance.chip, instance.topology.value(), instance.fabric.value(), 1,
          instance.chips, &instance};
}

Machine of_ultraserver(const arch::Tables& tables, const arch::UltraServer& unit) {
  return {unit.name,
          unit.chip,
          unit.topology.value(),
          unit.fabric.value(),
          unit.servers,
          unit.chips_per_server,
          &tables.instance(unit.instance)};
}

Machine find(const arch::Tables& tables, const std::string& name) {
  const arch::Fact* target = tables.facts().find("fabric_target." + name);
  const std::string wanted = target == nullptr ? name : target->as<std::string>();
  if (const arch::Instance* instance = tables.find_instance(wanted)) return of_instance(*instance);
  if (const arch::UltraServer* unit = tables.find_ultraserver(wanted)) return of_ultraserver(tables, *unit);
  std::vector<std::string> known = tables.facts().items("fabric_target");
  for (const arch::Instance& instance : tables.instances()) known.push_back(instance.name);
  for (const arch::UltraServer& unit : tables.ultraservers()) known.push_back(unit.name);
  throw Fault(FaultKind::kInput, "fabric.machine",
              fmt::format("there is no instance or UltraServer '{}'", name),
              arch::did_you_mean(name, known, "`opentrn ls` lists all names"));
}

Grid grid_of(const arch::Topology& topology, int servers) {
  Grid grid;
  grid.sizes = topology.sizes();
  grid.closed = topology.rule.value() != "chain";
  grid.across_instances = servers > 1;
  return grid;
}

// The grid of one server: the axes of the unit without that of the instances.
Grid server_grid_of(const Grid& unit, Rule rule, int chips_per_server) {
  if (rule != Rule::kTorus || !unit.across_instances) {
    Grid grid = unit;
    if (rule == Rule::kPairedSwitches) grid.sizes = {1, 1, unit.sizes[2], unit.sizes[3]};
    if (rule == Rule::kTwoLevelSwitch) grid.sizes = {1, 1, unit.sizes[2]};
    return grid;
  }
  Grid grid{{unit.sizes.begin() + 1, unit.sizes.end()}, unit.closed, false};
  OPENTRN_CHECK(grid.chips() == chips_per_server, "the first axis of a torus is not that of the servers");
  return grid;
}

// Makes the links of one unit, and then those of the others.
class PlatformBuilder {
 public:
  PlatformBuilder(const arch::Tables& tables, const Machine& machine, int count, const Cluster& cluster)
      : tables_(tables), machine_(machine), key_("fabric." + machine.fabric + ".") {
    const arch::Chip& chip = tables.chip(machine.chip);
    state_->name = machine.name;
    state_->generation = chip.generation;
    state_->units = count;
    state_->cluster = cluster;
    state_->servers_per_unit = machine.servers;
    state_->chips_per_server = machine.chips_per_server;
    state_->cores_per_chip = chip.cores;
    const arch::Topology& topology = tables.topology(machine.topology);
    state_->rule = topology.rule.value() == "paired_switches"    ? Rule::kPairedSwitches
                   : topology.rule.value() == "two_level_switch" ? Rule::kTwoLevelSwitch
                                                                 : Rule::kTorus;
    state_->grid = grid_of(topology, machine.servers);
    state_->server_grid = server_grid_of(state_->grid, state_->rule, machine.chips_per_server);
  }

  std::unique_ptr<Platform::State> build() {
    chips();
    wires();
    network();
    repeat();
    core();
    for (const Taken& taken : state_->cluster.taken) take(taken);
    return std::move(state_);
  }

 private:
  // -- reading -------------------------------------------------------------------------------------
  double number(const std::string& name) { return tables_.facts().at(key_ + name).as<double>(); }
  bool has(const std::string& name) const { return tables_.facts().find(key_ + name) != nullptr; }
  void remember(LinkClass kind, const std::string& key) {
    const std::pair<LinkClass, const arch::Fact*> entry = {kind, &tables_.facts().at(key)};
    if (std::find(state_->facts.begin(), state_->facts.end(), entry) == state_->facts.end())
      state_->facts.push_back(entry);
  }
  static int64_t bytes_per_s(double gb_s) { return std::llround(gb_s * kBytesPerGb); }
  int64_t rate(LinkClass kind, const std::string& name) {
    remember(kind, key_ + name);
    return bytes_per_s(number(name));
  }
  int64_t nominal_rate(LinkClass kind, const std::string& name) {
    remember(kind, key_ + name);
    remember(kind, key_ + "link_efficiency");
    return bytes_per_s(number(name) * number("link_efficiency"));
  }
  int64_t latency(LinkClass kind, const std::string& name) {
    remember(kind, key_ + name);
    return std::llround(number(name) * kPsPerNs);
  }

  // -- links ---------------------------------------------------------------------------------------
  NodeId node(std::string name) {
    state_->network.nodes.push_back({std::move(name)});
    const NodeId at = static_cast<NodeId>(state_->network.nodes.size()) - 1;
    state_->chip_of_node.push_back(at);
    return at;
  }
  LinkId link(NodeId from, NodeId to, int64_t rate, int64_t latency, LinkClass kind) {
    state_->network.links.push_back({from, to, rate, latency, kind});
    return static_cast<LinkId>(state_->network.links.size()) - 1;
  }
  std::string chip_name(int chip) const {
    return fmt::format("server {} chip {}", chip / state_->chips_per_server, chip % state_->chips_per_server);
  }

  // Cores with their rings, stacks of HBM, pairs with their way across the chip.
  void chips() {
    Platform::State& s = *state_;
    const std::string core_key = fmt::format("neuron_core.{}.", table_key(s.generation));
    const std::string timing_key = fmt::format("timing.{}.constant.", table_key(s.generation));
    const std::string cores_key = has("hbm_cores_per_stack") ? key_ : timing_key;
    s.cores_per_stack = tables_.facts().at(cores_key + "hbm_cores_per_stack").as<int>();
    // The sustained rate of timing.v1 is a core's share; of the others, a stack's.
    const double sustained = tables_.facts().at(timing_key + "hbm_sustained_gb_s").as<double>();
    const bool share = has("hbm_cores_per_stack");
    const int64_t hbm_rate = bytes_per_s(share ? sustained * s.cores_per_stack : sustained);
    remember(LinkClass::kHbm, timing_key + "hbm_sustained_gb_s");
    int64_t ring_rate = 0;
    if (has("dma_gb_s")) {
      ring_rate = bytes_per_s(number("dma_gb_s"));
      remember(LinkClass::kDmaRings, key_ + "dma_gb_s");
    } else {
      const arch::NeuronCore& core = tables_.neuron_core(s.generation);
      ring_rate = bytes_per_s(core.dma_engines * core.dma_engine_gb_s);
      remember(LinkClass::kDmaRings, core_key + "dma_engines");
      remember(LinkClass::kDmaRings, core_key + "dma_engine_gb_s");
    }
    // Chips whose cores are in pairs, each with a stack and a port, have a way across the chip.
    s.pairs_per_chip = s.cores_per_stack == 2 ? s.stacks_per_chip() : 1;
    if (s.stacks_per_chip() > 1) {
      on_chip_rate_ = rate(LinkClass::kOnChip, "on_chip_gb_s");
      on_chip_latency_ = latency(LinkClass::kOnChip, "on_chip_latency_ns");
    }
    for (int chip = 0; chip < s.chips_per_unit(); ++chip) one_chip(chip, hbm_rate, ring_rate);
  }

  void one_chip(int chip, int64_t hbm_rate, int64_t ring_rate) {
    Platform::State& s = *state_;
    const NodeId whole = node(chip_name(chip));
    vertex_nodes_.push_back(whole);
    std::vector<NodeId> stacks;
    for (int stack = 0; stack < s.stacks_per_chip(); ++stack) {
      const NodeId at =
          s.stacks_per_chip() == 1 ? whole : node(fmt::format("{} hbm {}", chip_name(chip), stack));
      stacks.push_back(at);
      s.chip_of_node[static_cast<size_t>(at)] = whole;
      s.hbm.push_back(link(at, at, hbm_rate, 0, LinkClass::kHbm));
    }
    for (int core = 0; core < s.cores_per_chip; ++core) {
      const NodeId at = stacks[static_cast<size_t>(core / s.cores_per_stack)];
      s.rings.push_back(link(at, at, ring_rate, 0, LinkClass::kDmaRings));
    }
    if (s.pairs_per_chip > 1) {
      pair_nodes_.insert(pair_nodes_.end(), stacks.begin(), stacks.end());
      // Half of the latency on each side, because a transfer crosses both.
      for (NodeId at : stacks) {
        s.out_of_pair.push_back(link(at, whole, on_chip_rate_, on_chip_latency_ / 2, LinkClass::kOnChip));
        s.into_pair.push_back(link(whole, at, on_chip_rate_, on_chip_latency_ / 2, LinkClass::kOnChip));
      }
      return;
    }
    for (NodeId a : stacks)
      for (NodeId b : stacks)
        s.between_stacks.push_back(a == b ? -1
                                          : link(a, b, on_chip_rate_, on_chip_latency_, LinkClass::kOnChip));
  }

  void wires() {
    Platform::State& s = *state_;
    Wiring wiring;
    switch (s.rule) {
      case Rule::kTorus: wiring = torus_wiring(s.grid); break;
      case Rule::kPairedSwitches: wiring = paired_switches_wiring(s.grid); break;
      case Rule::kTwoLevelSwitch: wiring = two_level_switch_wiring(s.grid); break;
    }
    for (int vertex = s.chips_per_unit(); vertex < wiring.vertices; ++vertex)
      vertex_nodes_.push_back(node(fmt::format("switch {}", vertex - s.chips_per_unit())));
    if (has("ports.neighbours_by_pair") && s.chips_per_server > 1) {
      for (double chip : tables_.facts().at(key_ + "ports.neighbours_by_pair").as<std::vector<double>>())
        s.neighbours_by_pair.push_back(static_cast<int>(chip));
      const int wanted = s.chips_per_server * s.pairs_per_chip;
      if (static_cast<int>(s.neighbours_by_pair.size()) != wanted)
        throw Fault(FaultKind::kInput, key_ + "ports.neighbours_by_pair",
                    fmt::format("{} chips are listed", s.neighbours_by_pair.size()),
                    fmt::format("try: {}, one for each pair of cores of each chip", wanted));
    }
    s.exits.resize(static_cast<size_t>(wiring.vertices));
    for (const Wire& wire : wiring.wires)
      s.exits[static_cast<size_t>(wire.from)].push_back({wire.to, links_of(wire)});
  }

  // The pair of cores of `chip` that has the link to `other`, both of one server.
  int port(int chip, int other) const {
    const Platform::State& s = *state_;
    if (s.neighbours_by_pair.empty()) return -1;
    const int pair = s.port(chip % s.chips_per_server, other % s.chips_per_server);
    if (pair >= 0) return pair;
    throw Fault(FaultKind::kInput, key_ + "ports.neighbours_by_pair",
                fmt::format("no pair of cores of chip {} has the link to chip {}", chip % s.chips_per_server,
                            other % s.chips_per_server),
                "try: each neighbour of a chip once in its row");
  }

  WireLinks links_of(const Wire& wire) {
    Platform::State& s = *state_;
    WireLinks out;
    const auto end_at = [&](int vertex, int pair) {
      return pair < 0 ? vertex_nodes_[static_cast<size_t>(vertex)]
                      : pair_nodes_[static_cast<size_t>(vertex * s.pairs_per_chip + pair)];
    };
    const auto add = [&](int64_t rate, int64_t latency, LinkClass kind, int leaves_from, int arrives_at) {
      out.parts.push_back(
          {link(end_at(wire.from, leaves_from), end_at(wire.to, arrives_at), rate, latency, kind),
           leaves_from, arrives_at});
    };
    switch (wire.kind) {
      case WireKind::kNeuronLink:
        // What was measured, where something was.
        add(has("neuronlink_gb_s") ? rate(LinkClass::kNeuronLink, "neuronlink_gb_s")
                                   : nominal_rate(LinkClass::kNeuronLink, "neuronlink_nominal_gb_s"),
            latency(LinkClass::kNeuronLink, "neuronlink_latency_ns"), LinkClass::kNeuronLink,
            port(wire.from, wire.to), port(wire.to, wire.from));
        break;
      case WireKind::kUltraServer: {
        // Cables alternate round the ring of instances; each ends at two pairs of cores, the same ones on
        // both sides. [assumed: which pair is joined to which is published nowhere]
        const int a = wire.from / s.chips_per_server, b = wire.to / s.chips_per_server;
        const int lower = (a + 1) % s.servers_per_unit == b ? a : b;
        const bool left = s.servers_per_unit == 2 || lower % 2 == 0;
        const std::string pairs_key = left ? "ports.left_cable_pairs" : "ports.right_cable_pairs";
        const auto pairs = tables_.facts().at(key_ + pairs_key).as<std::vector<double>>();
        const int64_t whole = nominal_rate(LinkClass::kUltraServer, "ultraserver_nominal_gb_s");
        for (double pair : pairs)
          add(whole / static_cast<int64_t>(pairs.size()),
              latency(LinkClass::kUltraServer, "ultraserver_latency_ns"), LinkClass::kUltraServer,
              static_cast<int>(pair), static_cast<int>(pair));
        break;
      }
      case WireKind::kNear:
      case WireKind::kSwitch: {
        const bool near = wire.kind == WireKind::kNear;
        const bool direct = wire.to < s.chips_per_unit() && wire.from < s.chips_per_unit();
        const LinkClass kind = direct ? LinkClass::kNeuronLink : LinkClass::kSwitch;
        // A switch's latency is on the way into it.
        const int64_t time = direct                           ? latency(kind, "rack_latency_ns")
                             : wire.from < s.chips_per_unit() ? latency(kind, "switch_latency_ns")
                                                              : 0;
        add(nominal_rate(kind, near ? "near_nominal_gb_s" : "switch_nominal_gb_s"), time, kind, -1, -1);
        break;
      }
      case WireKind::kRack:
        add(nominal_rate(LinkClass::kUltraServer, "rack_nominal_gb_s"),
            latency(LinkClass::kUltraServer, "rack_latency_ns"), LinkClass::kUltraServer, -1, -1);
        break;
    }
    return out;
  }

  // PCIe, adapters and what is above them. Left out for one unit whose network no page names.
  void network() {
    Platform::State& s = *state_;
    const arch::Instance& server = *machine_.server;
    if (!server.network_gbps.known()) return;
    const bool efa = server.efa_adapters.listed();
    s.adapters_per_server = efa ? int{server.efa_adapters} : 1;
    const double gbps = efa ? double{server.efa_adapter_gbps} : double{server.network_gbps};
    remember(LinkClass::kEfa, server.key + (efa ? ".efa_adapter_gbps" : ".network_gbps"));
    remember(LinkClass::kEfa, key_ + "efa_efficiency");
    const int64_t adapter_rate = bytes_per_s(gbps / kBitsPerByte * number("efa_efficiency"));
    const int64_t pcie_rate = rate(LinkClass::kPcie, "pcie_gb_s");
    const int64_t pcie_latency = latency(LinkClass::kPcie, "pcie_latency_ns");
    const int64_t efa_latency = latency(LinkClass::kEfa, "efa_latency_ns");
    const double oversubscription = number("spine_oversubscription");
    s.has_spine = oversubscription > 1;
    const NodeId core_network = node("network");
    for (int server_index = 0; server_index < s.servers_per_unit; ++server_index) {
      std::vector<NodeId> adapters;
      const NodeId above = s.has_spine ? node(fmt::format("server {} leaf", server_index)) : core_network;
      for (int i = 0; i < s.adapters_per_server; ++i) {
        adapters.push_back(node(fmt::format("server {} adapter {}", server_index, i)));
        s.adapter_out.push_back(link(adapters.back(), above, adapter_rate, efa_latency, LinkClass::kEfa));
        s.adapter_in.push_back(link(above, adapters.back(), adapter_rate, efa_latency, LinkClass::kEfa));
      }
      for (int chip = 0; chip < s.chips_per_server; ++chip) {
        const NodeId at = vertex_nodes_[static_cast<size_t>(server_index * s.chips_per_server + chip)];
        const NodeId adapter =
            adapters[static_cast<size_t>(chip * s.adapters_per_server / s.chips_per_server)];
        s.to_adapter.push_back(link(at, adapter, pcie_rate, pcie_latency, LinkClass::kPcie));
        s.from_adapter.push_back(link(adapter, at, pcie_rate, pcie_latency, LinkClass::kPcie));
      }
      if (!s.has_spine) continue;
      const int64_t shared =
          std::llround(static_cast<double>(adapter_rate) * s.adapters_per_server / oversubscription);
      const int64_t time = latency(LinkClass::kSpine, "spine_latency_ns");
      remember(LinkClass::kSpine, key_ + "spine_oversubscription");
      s.spine_up.push_back(link(above, core_network, shared, time, LinkClass::kSpine));
      s.spine_down.push_back(link(core_network, above, shared, time, LinkClass::kSpine));
    }
    network_node_ = core_network;
  }

  // The other units: the same links. All share the node of the network.
  void repeat() {
    Platform::State& s = *state_;
    Network& net = s.network;
    const size_t links = net.links.size(), nodes = net.nodes.size();
    s.links_per_unit = static_cast<LinkId>(links);
    net.links.reserve(links * static_cast<size_t>(s.units));
    net.nodes.reserve(nodes * static_cast<size_t>(s.units));
    for (int unit = 1; unit < s.units; ++unit) {
      const NodeId first = static_cast<NodeId>(net.nodes.size());
      const auto moved = [&](NodeId at) { return at == network_node_ ? at : at + first; };
      for (size_t i = 0; i < nodes; ++i) {
        const std::string& base = net.nodes[i].name;
        net.nodes.push_back({fmt::format("unit {} {}", unit, base)});
      }
      for (size_t i = 0; i < links; ++i) {
        Link copy = net.links[i];
        copy.from = moved(copy.from);
        copy.to = moved(copy.to);
        net.links.push_back(copy);
      }
    }
  }

  // The links of each pod to the core of the Clos.
  void core() {
    Platform::State& s = *state_;
    const Cluster& cluster = s.cluster;
    if (cluster.pod_units == 0) return;
    if (s.adapters_per_server == 0) refuse_cluster("no public page says what network joins its instances");
    // The last pod need not be full. Its links to the core are those of a full one [assumed].
    const bool makes_pods = cluster.pod_units >= 1 && cluster.pod_units % cluster.one_in == 0;
    if (!makes_pods || (cluster.one_in > 1 && s.units % s.units_here() != 0))
      refuse_cluster(fmt::format("{} units do not make pods of {}", s.units, cluster.pod_units),
                     "a number of units in a pod that divides them");
    if (cluster.rails < 1 || s.adapters_per_server % cluster.rails != 0)
      refuse_cluster(fmt::format("{} rails, with {} adapters a server", cluster.rails, s.adapters_per_server),
                     fmt::format("a divisor of {}", s.adapters_per_server));
    if (!(cluster.oversubscription >= 1 && cluster.oversubscription <= kOversubscriptionMax))
      refuse_cluster(fmt::format("an oversubscription of {}", cluster.oversubscription),
                     fmt::format("1, a network that does not block, to {}", kOversubscriptionMax));
    const double adapters =
        static_cast<double>(s.adapters_per_server) * s.servers_per_unit * cluster.pod_units / cluster.rails;
    const auto adapter_rate =
        static_cast<double>(s.network.links[static_cast<size_t>(s.adapter_out[0])].bytes_per_s);
    const double whole = adapters * adapter_rate / cluster.oversubscription;
    if (whole > static_cast<double>(kBytesPerSecondMax))
      refuse_cluster(fmt::format(
          "pods with {:.0f} TB/s a rail to the core; 70 TB/s is the most, so take more rails", whole / 1e12));
    const int64_t rate = std::llround(whole);
    const int64_t time = latency(LinkClass::kCore, "spine_latency_ns");
    for (int pod = 0; pod * s.units_here() < s.units; ++pod)
      for (int rail = 0; rail < cluster.rails; ++rail) {
        s.network.nodes.push_back({fmt::format("pod {} rail {}", pod, rail)});
        const auto at = static_cast<NodeId>(s.network.nodes.size()) - 1;
        s.core_up.push_back(link(at, network_node_, rate, time, LinkClass::kCore));
        s.core_down.push_back(link(network_node_, at, rate, time, LinkClass::kCore));
      }
  }

  void take(const Taken& taken) {
    Platform::State& s = *state_;
    if (!(taken.share >= 0 && taken.share < 1))
      refuse_cluster(fmt::format("other jobs take {} of links", taken.share),
                     "a share of at least 0 and less than 1");
    if (taken.unit >= s.units)
      refuse_cluster(fmt::format("other jobs use links of unit {}, and there are {}", taken.unit, s.units),
                     fmt::format("units 0 to {}", s.units - 1));
    bool found = false;
    for (size_t i = 0; i < s.network.links.size(); ++i) {
      Link& one = s.network.links[i];
      if (one.kind != taken.kind) continue;
      found = true;
      const bool of_unit = taken.kind == LinkClass::kCore
                               ? taken.unit / s.units_here() == pod_of_core_link(i)
                               : taken.unit == static_cast<int>(i) / s.links_per_unit;
      if (taken.unit < 0 || of_unit)
        one.bytes_per_s = std::llround(static_cast<double>(one.bytes_per_s) * (1 - taken.share));
    }
    if (!found) refuse_cluster("other jobs take a part of links of a class that it does not have");
  }
  int pod_of_core_link(size_t link) const {
    const Platform::State& s = *state_;
    return static_cast<int>(link - static_cast<size_t>(s.core_up[0])) / 2 / s.cluster.rails;
  }

  [[noreturn]] void refuse_cluster(const std::string& what,
                                   std::string hint = "what docs/fabric.md, Clusters, says of it") const {
    throw Fault(FaultKind::kInput, "fabric.cluster", fmt::format("{}: {}", state_->name, what),
                std::move(hint));
  }

  const arch::Tables& tables_;
  const Machine& machine_;
  std::string key_;
  std::unique_ptr<Platform::State> state_ = std::make_unique<Platform::State>();
  // Of unit 0: by vertex, and by chip and pair of cores.
  std::vector<NodeId> vertex_nodes_, pair_nodes_;
  NodeId network_node_ = -1;
  int64_t on_chip_rate_ = 0, on_chip_latency_ = 0;
};

// Of each instance and each link of a unit: the link that takes its place when each instance has that of the
// instance whose number differs by exclusive or with this one.
std::vector<std::vector<LinkId>> exchanged_links(const Platform::State& s) {
  std::vector<std::vector<LinkId>> out;
  for (int by = 0; by < s.servers_per_unit; ++by) {
    auto& map = out.emplace_back(static_cast<size_t>(s.links_per_unit), -1);
    // Lists have the same number of links for each instance, one instance behind the other.
    const auto exchange = [&](const std::vector<LinkId>& links) {
      const size_t of_one = links.size() / static_cast<size_t>(s.servers_per_unit);
      for (size_t i = 0; i < links.size(); ++i) {
        const size_t instance = i / of_one ^ static_cast<size_t>(by);
        if (links[i] >= 0) map[static_cast<size_t>(links[i])] = links[instance * of_one + i % of_one];
      }
    };
    for (const auto* links :
         {&s.hbm, &s.rings, &s.out_of_pair, &s.into_pair, &s.between_stacks, &s.to_adapter, &s.from_adapter,
          &s.adapter_out, &s.adapter_in, &s.spine_up, &s.spine_down})
      exchange(*links);
    const auto exchanged = [&](int chip) {
      return (chip / s.chips_per_server ^ by) * s.chips_per_server + chip % s.chips_per_server;
    };
    for (int chip = 0; chip < s.chips_per_unit(); ++chip)
      for (const Platform::State::Exit& exit : s.exits[static_cast<size_t>(chip)]) {
        const auto& parts = s.wire(exchanged(chip), exchanged(exit.to)).parts;
        for (size_t i = 0; i < exit.links.parts.size(); ++i)
          map[static_cast<size_t>(exit.links.parts[i].link)] = parts[i].link;
      }
    OPENTRN_CHECK(std::ranges::find(map, -1) == map.end(), "{}: a link that no instance has", s.name);
  }
  return out;
}

}  // namespace

Platform Platform::make(const arch::Tables& tables, const std::string& name, int count) {
  return make(tables, name, count, {});
}

Platform Platform::make(const arch::Tables& tables, const std::string& name, int count,
                        const Cluster& cluster) {
  const Machine machine = find(tables, name);
  if (count < 1)
    throw Fault(FaultKind::kInput, "fabric.machine",
                fmt::format("{} units of {} are not a platform", count, machine.name),
                "try: a count of 1 or more");
  Platform platform(PlatformBuilder(tables, machine, count, cluster).build());
  std::vector<int> all;
  for (int chip = 0; chip < platform.chips_per_server(); ++chip) all.push_back(chip);
  platform.state_->hamiltonian_cycles = platform.cycles(all);
  if (platform.alike_instances() > 1) platform.state_->exchanged_links = exchanged_links(*platform.state_);
  return platform;
}

Platform::Platform(std::unique_ptr<State> state) : state_(std::move(state)) {}
Platform::~Platform() = default;
Platform::Platform(Platform&&) noexcept = default;

const std::string& Platform::name() const { return state_->name; }
Generation Platform::generation() const { return state_->generation; }
const Network& Platform::network() const { return state_->network; }
int Platform::units() const { return state_->units; }
LinkId Platform::links_per_unit() const { return state_->links_per_unit; }
int Platform::alike_instances() const {
  const State& s = *state_;
  const int n = s.servers_per_unit;
  return s.rule == Rule::kTorus && s.grid.across_instances && s.grid.closed && (n == 2 || n == 4) ? n : 1;
}

LinkId Platform::seen_from(int instance, LinkId link) const {
  const State& s = *state_;
  if (link < 0 || link >= s.units * s.links_per_unit) return link;  // above the pods
  const LinkId first = link / s.links_per_unit * s.links_per_unit;
  return first + s.exchanged_links.at(static_cast<size_t>(instance))[static_cast<size_t>(link - first)];
}

int Platform::one_in() const { return state_->cluster.one_in; }
int Platform::servers() const { return state_->units * state_->servers_per_unit; }
int Platform::servers_per_unit() const { return state_->servers_per_unit; }
int Platform::chips_per_server() const { return state_->chips_per_server; }
int Platform::cores_per_chip() const { return state_->cores_per_chip; }
int Platform::cores() const { return servers() * chips_per_server() * cores_per_chip(); }

Place Platform::place(int core) const {
  if (core < 0 || core >= cores())
    throw Fault(FaultKind::kInput, "fabric.place", fmt::format("core {} is not on {}", core, name()),
                fmt::format("use 0 to {}", cores() - 1));
  const State& s = *state_;
  Place out;
  out.core = core % s.cores_per_chip;
  out.chip = core / s.cores_per_chip % s.chips_per_server;
  out.server = core / s.cores_per_chip / s.chips_per_server;
  if (s.pairs_per_chip > 1) out.seng = out.core / s.cores_per_stack;
  return out;
}

std::vector<int> Platform::neighbours(int chip) const {
  const State& s = *state_;
  if (chip < 0 || chip >= s.chips_per_server)
    throw Fault(FaultKind::kInput, "fabric.place",
                fmt::format("chip {} is not in a server of {}", chip, name()),
                fmt::format("use 0 to {}", s.chips_per_server - 1));
  std::vector<int> out;
  // neuron-ls order on a torus: the chip before along each axis, then the one after.
  if (s.rule == Rule::kTorus) {
    const std::vector<int> at = s.server_grid.coordinates(chip);
    for (int step : {-1, 1})
      for (size_t axis = 0; axis < at.size(); ++axis) {
        const int n = s.server_grid.sizes[axis];
        std::vector<int> next = at;
        next[axis] += step;
        if (!s.server_grid.closed && (next[axis] < 0 || next[axis] >= n)) continue;
        next[axis] = (next[axis] + n) % n;
        const int other = s.server_grid.id(next);
        if (other != chip && std::find(out.begin(), out.end(), other) == out.end()) out.push_back(other);
      }
    return out;
  }
  for (int other = 0; other < s.chips_per_server; ++other)
    if (other != chip && s.ways(chip, other).front().vertices.size() <=
                             (s.ways(chip, other).front().vertices[1] < s.chips_per_unit() ? 2u : 3u))
      out.push_back(other);
  return out;
}

int Platform::pairs_per_chip() const { return state_->pairs_per_chip; }
int Platform::port(int chip, int neighbour) const { return state_->port(chip, neighbour); }

int Platform::State::port(int chip, int other) const {
  if (neighbours_by_pair.empty()) return -1;
  for (int pair = 0; pair < pairs_per_chip; ++pair)
    if (neighbours_by_pair[static_cast<size_t>(chip * pairs_per_chip + pair)] == other) return pair;
  return -1;
}

const std::vector<std::vector<int>>& Platform::hamiltonian_cycles() const {
  return state_->hamiltonian_cycles;
}

int Platform::rows() const {
  const std::vector<int>& n = state_->server_grid.sizes;
  return state_->rule == Rule::kTorus && n.size() == 2 ? n[0] : 1;
}
int Platform::columns() const { return chips_per_server() / rows(); }

std::vector<const arch::Fact*> Platform::facts(LinkClass kind) const {
  std::vector<const arch::Fact*> out;
  for (const auto& [of, fact] : state_->facts)
    if (of == kind) out.push_back(fact);
  return out;
}

}  // namespace opentrn::fabric
