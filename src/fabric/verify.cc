#include "fabric/verify.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "fabric/min_cut.h"
#include "fabric/platform_state.h"

namespace opentrn::fabric {

namespace {

bool between_chips(LinkClass kind) {
  return kind == LinkClass::kNeuronLink || kind == LinkClass::kUltraServer || kind == LinkClass::kSwitch;
}

class Verifier {
 public:
  explicit Verifier(const Platform& platform) : p_(platform), s_(platform.state()) {}

  std::vector<std::string> run() {
    ports();
    for (int from : some_cores())
      for (int to : some_cores()) way(from, to);
    for (const std::vector<int>& cycle : p_.hamiltonian_cycles()) round(cycle);
    shift();
    return std::move(findings_);
  }

 private:
  const Link& link(LinkId id) const { return p_.network().links[static_cast<size_t>(id)]; }
  template <typename... T>
  void found(fmt::format_string<T...> text, T&&... args) {
    findings_.push_back(fmt::format(text, std::forward<T>(args)...));
  }

  // All cores of the first and the last chip, the first core of every other chip of the unit, and the first
  // of the next and of the last unit.
  std::vector<int> some_cores() const {
    const int chips = s_.chips_per_unit(), per_chip = s_.cores_per_chip;
    std::vector<int> out;
    for (int chip = 0; chip < chips; ++chip)
      for (int core = 0; core < per_chip; ++core)
        if (core == 0 || chip == 0 || chip == chips - 1) out.push_back(chip * per_chip + core);
    for (int unit : {1, s_.units - 1})
      if (unit > 0 && unit < s_.units && s_.adapters_per_server > 0) out.push_back(unit * chips * per_chip);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  void ports() {
    if (s_.neighbours_by_pair.empty()) return;
    for (int chip = 0; chip < s_.chips_per_server; ++chip) {
      std::vector<int> listed, wired = p_.neighbours(chip);
      for (int pair = 0; pair < s_.pairs_per_chip; ++pair)
        listed.push_back(s_.neighbours_by_pair[static_cast<size_t>(chip * s_.pairs_per_chip + pair)]);
      std::sort(listed.begin(), listed.end());
      std::sort(wired.begin(), wired.end());
      if (listed != wired)
        found("chip {}: its pairs of cores have links to {}, the topology to {}", chip,
              fmt::join(listed, ", "), fmt::join(wired, ", "));
    }
  }

  // Chips whose cores reach every port are one place; else a pair of cores is.
  NodeId place_of(NodeId node) const { return s_.pairs_per_chip > 1 ? node : s_.chip_node_of(node); }

  void way(int from, int to) {
    const std::vector<Route> there = p_.routes(from, to);
    int32_t shares = 0;
    Length longest;
    for (const Route& route : there) {
      shares += route.share;
      longest = std::max(longest, length(route));
      // The first two links are the source's HBM and rings, the last the destination's HBM.
      if (route.links.size() < 3 || route.links.front() != p_.hbm(from) ||
          route.links[1] != p_.dma_rings(from) || route.links.back() != p_.hbm(to))
        found("core {} to {}: the way does not go from HBM to HBM", from, to);
      for (size_t i = 0; i + 1 < route.links.size(); ++i)
        if (place_of(link(route.links[i]).to) != place_of(link(route.links[i + 1]).from))
          found("core {} to {}: link {} does not begin where link {} ends", from, to, route.links[i + 1],
                route.links[i]);
    }
    if (shares != kWholeShare) found("core {} to {}: {} of {} parts arrive", from, to, shares, kWholeShare);
    if (from > to) return;
    Length back;
    for (const Route& route : p_.routes(to, from)) back = std::max(back, length(route));
    if (longest != back)
      found("core {} to {}: {} links and {} ps there, {} and {} back", from, to, longest.first,
            longest.second, back.first, back.second);
  }

  // Links and picoseconds, without the ways across chips: there, bytes turn from row to column at another
  // chip than on the way back, where other pairs of cores may have the links.
  using Length = std::pair<size_t, int64_t>;
  Length length(const Route& route) const {
    Length out;
    for (LinkId id : route.links)
      if (link(id).kind != LinkClass::kOnChip) {
        ++out.first;
        out.second += link(id).latency_ps;
      }
    return out;
  }

  // Transfers between chips of the first server, all at once: what the links between chips carry.
  void permutation(const std::string& what, const std::vector<std::pair<int, int>>& transfers) {
    std::map<LinkId, int64_t> load;
    for (const auto& [from, to] : transfers)
      for (const Hop& hop : p_.path(from * s_.cores_per_chip, to * s_.cores_per_chip).hops)
        if (between_chips(link(hop.link).kind)) load[hop.link] += hop.share;
    for (const auto& [id, share] : load)
      if (share > kWholeShare)
        found("{}: link {} carries {} transfers", what, id, share / double{kWholeShare});
  }

  void round(const std::vector<int>& cycle) {
    for (const bool back : {false, true}) {
      std::vector<std::pair<int, int>> steps;
      for (size_t i = 0; i < cycle.size(); ++i) {
        const int a = cycle[i], b = cycle[(i + 1) % cycle.size()];
        steps.emplace_back(back ? b : a, back ? a : b);
      }
      permutation(back ? "a step back round a cycle" : "a step round a cycle", steps);
    }
    for (size_t i = 0; i < cycle.size(); ++i) {
      const int a = cycle[i], b = cycle[(i + 1) % cycle.size()];
      if (!used_.emplace(a, b).second || (cycle.size() > 2 && !used_.emplace(b, a).second))
        found("two cycles use the link between chips {} and {}", a, b);
    }
  }

  void shift() {
    if (s_.rule != Rule::kTorus || !s_.server_grid.closed) return;
    std::vector<std::pair<int, int>> steps;
    const int columns = s_.server_grid.sizes.back();
    for (int chip = 0; chip < s_.chips_per_server; ++chip)
      steps.emplace_back(chip, chip / columns * columns + (chip + 1) % columns);
    if (columns > 1) permutation("a shift along the rows", steps);
  }

  const Platform& p_;
  const Platform::State& s_;
  std::set<std::pair<int, int>> used_;
  std::vector<std::string> findings_;
};

// More than anything can carry, and far from overflow in sums.
constexpr int64_t kUnlimited = INT64_MAX / 4096;

// The network as a graph, with HBM and rings as edges at the cores. Where any core of a chip reaches any of
// its ports, links leave one vertex of the chip and arrive at another, so that what arrives may pass on, but
// what a core sends to its own chip cannot avoid the way between the stacks.
class Graph {
 public:
  explicit Graph(const Platform& platform)
      : p_(platform), s_(platform.state()), graph_(2 * static_cast<int>(platform.network().nodes.size())) {
    const Network& net = p_.network();
    for (const Link& l : net.links)
      if (l.kind != LinkClass::kHbm && l.kind != LinkClass::kDmaRings && l.bytes_per_s > 0)
        graph_.add_edge(out_of(l.from), into(l.to), l.bytes_per_s);
    for (size_t node = 0; node < net.nodes.size(); ++node)
      graph_.add_edge(into(static_cast<NodeId>(node)), out_of(static_cast<NodeId>(node)), kUnlimited);
  }

  // A vertex from which the core's bytes go, or at which they arrive.
  int sender(int core) {
    const int at = graph_.add_vertex();
    const int64_t rate = std::min(rate_of(p_.hbm(core)), rate_of(p_.dma_rings(core)));
    const NodeId stack = node_of(core), chip = s_.chip_node_of(stack);
    const int inside = graph_.add_vertex();
    graph_.add_edge(at, inside, rate);
    graph_.add_edge(inside, out_of(stack), kUnlimited);
    graph_.add_edge(inside, memory(stack), kUnlimited);
    if (s_.pairs_per_chip == 1 && stack != chip) graph_.add_edge(inside, out_of(chip), kUnlimited);
    return at;
  }
  int receiver(int core) {
    const int at = graph_.add_vertex();
    const NodeId stack = node_of(core), chip = s_.chip_node_of(stack);
    const int inside = graph_.add_vertex();
    graph_.add_edge(into(stack), inside, kUnlimited);
    graph_.add_edge(memory(stack), inside, kUnlimited);
    if (s_.pairs_per_chip == 1 && stack != chip) graph_.add_edge(into(chip), inside, kUnlimited);
    graph_.add_edge(inside, at, rate_of(p_.hbm(core)));
    return at;
  }
  CutGraph& graph() { return graph_; }

 private:
  static int out_of(NodeId node) { return 2 * node; }
  static int into(NodeId node) { return 2 * node + 1; }
  // Cores of one stack pass bytes to each other over no link.
  int memory(NodeId stack) {
    const auto [found, is_new] = memories_.emplace(stack, 0);
    if (is_new) found->second = graph_.add_vertex();
    return found->second;
  }
  NodeId node_of(int core) const { return p_.network().links[static_cast<size_t>(p_.hbm(core))].from; }
  int64_t rate_of(LinkId link) const { return p_.network().links[static_cast<size_t>(link)].bytes_per_s; }

  const Platform& p_;
  const Platform::State& s_;
  CutGraph graph_;
  std::map<NodeId, int> memories_;
};

}  // namespace

std::vector<std::string> verify(const Platform& platform) { return Verifier(platform).run(); }

int64_t min_cut_bytes_per_s(const Platform& platform, std::span<const int> from, std::span<const int> to) {
  Graph graph(platform);
  const int source = graph.graph().add_vertex(), sink = graph.graph().add_vertex();
  for (int core : from) graph.graph().add_edge(source, graph.sender(core), kUnlimited);
  for (int core : to) graph.graph().add_edge(graph.receiver(core), sink, kUnlimited);
  return graph.graph().max_flow(source, sink);
}

// The rate x is possible when from a source that feeds x into each core, every core can get them all: the
// condition of Edmonds for packing spanning trees, which allows that bytes are split and passed on. A core
// needs its own x from nobody.
int64_t all_gather_bytes_per_s(const Platform& platform, std::span<const int> cores) {
  if (cores.size() < 2) return kUnlimited;
  Graph graph(platform);
  CutGraph& g = graph.graph();
  const int source = g.add_vertex();
  std::vector<int> feeds, ends;
  int64_t high = INT64_MAX;
  for (int core : cores) {
    const int sender = graph.sender(core), receiver = graph.receiver(core);
    feeds.push_back(g.add_edge(source, sender, 0));
    // What a core has received it can send on.
    g.add_edge(receiver, sender, kUnlimited);
    ends.push_back(receiver);
    high = std::min(high, platform.network().links[static_cast<size_t>(platform.hbm(core))].bytes_per_s);
  }
  const auto others = static_cast<int64_t>(cores.size()) - 1;
  const auto possible = [&](int64_t rate) {
    for (size_t i = 0; i < cores.size(); ++i) {
      for (size_t k = 0; k < cores.size(); ++k) g.set_capacity(feeds[k], k == i ? 0 : rate);
      if (g.max_flow(source, ends[i]) < others * rate) return false;
    }
    return true;
  };
  int64_t low = 0;
  while (low + 1 < high) {
    const int64_t middle = low + (high - low) / 2;
    (possible(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace opentrn::fabric
