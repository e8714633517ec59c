#include <algorithm>

#include "fabric/platform_state.h"

namespace opentrn::fabric {

namespace {

// Routes under construction.
class PathBuilder {
 public:
  void begin_way(int32_t share) { routes_.push_back({{}, share}); }
  void add(LinkId link) { routes_.back().links.push_back(link); }
  std::vector<Route> take() { return std::move(routes_); }

 private:
  std::vector<Route> routes_;
};

// Where bytes are on a chip: at a pair of cores, or where any pair reaches what they need.
constexpr int kAnyPair = -1;

}  // namespace

std::vector<Way> Platform::State::ways(int from, int to) const {
  switch (rule) {
    case Rule::kTorus: return torus_ways(grid, from, to);
    case Rule::kPairedSwitches: return paired_switches_ways(grid, from, to);
    case Rule::kTwoLevelSwitch: return two_level_switch_ways(grid, from, to);
  }
  return {};
}

const WireLinks& Platform::State::wire(int from, int to) const {
  for (const Exit& exit : exits[static_cast<size_t>(from)])
    if (exit.to == to) return exit.links;
  OPENTRN_CHECK(false, "{}: no wire from vertex {} to {}", name, from, to);
}

LinkId Platform::hbm(int core) const {
  const State& s = *state_;
  const int per_unit = s.chips_per_unit() * s.cores_per_chip;
  return core / per_unit * s.links_per_unit + s.hbm[static_cast<size_t>(core % per_unit / s.cores_per_stack)];
}

LinkId Platform::dma_rings(int core) const {
  const State& s = *state_;
  const int per_unit = s.chips_per_unit() * s.cores_per_chip;
  return core / per_unit * s.links_per_unit + s.rings[static_cast<size_t>(core % per_unit)];
}

std::vector<Route> Platform::routes(int from, int to) const {
  const State& s = *state_;
  const int per_unit = s.chips_per_unit() * s.cores_per_chip;
  const int unit_a = from / per_unit, unit_b = to / per_unit;
  const int chip_a = from % per_unit / s.cores_per_chip, chip_b = to % per_unit / s.cores_per_chip;
  const Place a = place(from), b = place(to);
  const int pair_a = s.pairs_per_chip > 1 ? a.seng : kAnyPair;
  const int pair_b = s.pairs_per_chip > 1 ? b.seng : kAnyPair;
  PathBuilder out;

  // From one pair of cores of a chip to another.
  const auto cross = [&](int unit, int chip, int here, int there) {
    if (here == there) return;
    const LinkId base = unit * s.links_per_unit;
    const size_t first = static_cast<size_t>(chip * s.pairs_per_chip);
    if (here != kAnyPair) out.add(base + s.out_of_pair[first + static_cast<size_t>(here)]);
    if (there != kAnyPair) out.add(base + s.into_pair[first + static_cast<size_t>(there)]);
  };
  const auto begin = [&](int32_t share) {
    out.begin_way(share);
    out.add(hbm(from));
    out.add(dma_rings(from));
  };
  const auto end = [&] { out.add(hbm(to)); };

  if (unit_a != unit_b) {
    if (s.adapters_per_server == 0)
      throw Fault(FaultKind::kUnspecified, "fabric.network",
                  "no public page says what network joins " + s.name + " instances",
                  "set one for a what-if run: --set instance." + s.name + ".network_gbps=<value>");
    const auto adapter = [&](const Place& at) {
      return static_cast<size_t>(at.server % s.servers_per_unit * s.adapters_per_server +
                                 at.chip * s.adapters_per_server / s.chips_per_server);
    };
    const LinkId base_a = unit_a * s.links_per_unit, base_b = unit_b * s.links_per_unit;
    begin(kWholeShare);
    cross(unit_a, chip_a, pair_a, kAnyPair);
    out.add(base_a + s.to_adapter[static_cast<size_t>(chip_a)]);
    out.add(base_a + s.adapter_out[adapter(a)]);
    if (s.has_spine) {
      out.add(base_a + s.spine_up[static_cast<size_t>(a.server % s.servers_per_unit)]);
    }
    if (!s.core_up.empty()) {
      const int pod_a = unit_a / s.units_here(), pod_b = unit_b / s.units_here();
      if (pod_a != pod_b) {
        out.add(s.core_up[static_cast<size_t>(pod_a * s.cluster.rails + s.rail(a.chip))]);
        out.add(s.core_down[static_cast<size_t>(pod_b * s.cluster.rails + s.rail(b.chip))]);
      }
    }
    if (s.has_spine) out.add(base_b + s.spine_down[static_cast<size_t>(b.server % s.servers_per_unit)]);
    out.add(base_b + s.adapter_in[adapter(b)]);
    out.add(base_b + s.from_adapter[static_cast<size_t>(chip_b)]);
    cross(unit_b, chip_b, kAnyPair, pair_b);
    end();
    return out.take();
  }

  const LinkId base = unit_a * s.links_per_unit;
  if (chip_a == chip_b) {
    begin(kWholeShare);
    if (s.pairs_per_chip > 1) {
      cross(unit_a, chip_a, pair_a, pair_b);
    } else if (a.core / s.cores_per_stack != b.core / s.cores_per_stack) {
      const int n = s.stacks_per_chip();
      out.add(base + s.between_stacks[static_cast<size_t>((chip_a * n + a.core / s.cores_per_stack) * n +
                                                          b.core / s.cores_per_stack)]);
    }
    end();
    return out.take();
  }

  for (const Way& way : s.ways(chip_a, chip_b)) {
    // A wire that leaves from two pairs of cores carries half of the bytes from each.
    size_t parts = 1;
    for (size_t i = 0; i + 1 < way.vertices.size(); ++i)
      parts = std::max(parts, s.wire(way.vertices[i], way.vertices[i + 1]).parts.size());
    for (size_t part = 0; part < parts; ++part) {
      begin(way.share / static_cast<int32_t>(parts));
      int at = pair_a;
      for (size_t i = 0; i + 1 < way.vertices.size(); ++i) {
        const WireLinks& wire = s.wire(way.vertices[i], way.vertices[i + 1]);
        const WireLinks::Part& used = wire.parts[part % wire.parts.size()];
        // Vertices after the chips are switches, which bytes cross as a whole.
        if (way.vertices[i] < s.chips_per_unit()) cross(unit_a, way.vertices[i], at, used.leaves_from);
        out.add(base + used.link);
        at = used.arrives_at;
      }
      cross(unit_a, chip_b, at, pair_b);
      end();
    }
  }
  return out.take();
}

Path Platform::path(int from, int to) const {
  Path path;
  for (const Route& route : routes(from, to)) {
    int64_t latency_ps = 0;
    for (LinkId link : route.links) {
      latency_ps += state_->network.links[static_cast<size_t>(link)].latency_ps;
      const auto known =
          std::find_if(path.hops.begin(), path.hops.end(), [&](const Hop& hop) { return hop.link == link; });
      if (known == path.hops.end())
        path.hops.push_back({link, route.share});
      else
        known->share += route.share;
    }
    path.latency_ps = std::max(path.latency_ps, latency_ps);
  }
  return path;
}

}  // namespace opentrn::fabric
