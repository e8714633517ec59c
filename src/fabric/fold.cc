#include "fabric/fold.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::fabric {

namespace {

[[noreturn]] void refuse(std::string what) {
  throw Fault(FaultKind::kInput, "fabric.orbits", "these are not orbits of a symmetry: " + std::move(what),
              "try: the run without folding");
}

// The members of each orbit, in order.
std::vector<std::vector<size_t>> members(std::span<const int32_t> orbit_of) {
  std::vector<std::vector<size_t>> out;
  for (size_t i = 0; i < orbit_of.size(); ++i) {
    if (orbit_of[i] < 0) continue;
    const size_t orbit = static_cast<size_t>(orbit_of[i]);
    if (out.size() <= orbit) out.resize(orbit + 1);
    out[orbit].push_back(i);
  }
  return out;
}

bool alike(const Flow& a, const Flow& b) {
  return a.bytes == b.bytes && a.bytes_per_s_max == b.bytes_per_s_max && a.priority == b.priority &&
         a.weight == b.weight;
}

}  // namespace

Folded fold(const Network& network, std::span<const int32_t> orbit_of_link, std::span<const Flow> flows,
            std::span<const int32_t> orbit_of_flow) {
  OPENTRN_CHECK(orbit_of_link.size() == network.links.size() && orbit_of_flow.size() == flows.size(),
                "{} orbits for {} links, {} for {} flows", orbit_of_link.size(), network.links.size(),
                orbit_of_flow.size(), flows.size());
  Folded out;
  out.network.nodes = network.nodes;
  const std::vector<std::vector<size_t>> links = members(orbit_of_link);
  for (const std::vector<size_t>& orbit : links) {
    if (orbit.empty()) refuse("the numbers of the orbits of links have a gap");
    const Link& first = network.links[orbit.front()];
    for (size_t i : orbit)
      if (network.links[i].bytes_per_s != first.bytes_per_s)
        refuse(fmt::format("links {} and {} have different rates", orbit.front(), i));
    out.network.links.push_back(first);
  }
  std::vector<int64_t> load(network.links.size());  // of the images of one flow
  for (const std::vector<size_t>& orbit : members(orbit_of_flow)) {
    if (orbit.empty()) refuse("the numbers of the orbits of flows have a gap");
    Flow flow = flows[orbit.front()];
    std::vector<LinkId> crossed;
    for (size_t i : orbit) {
      if (!alike(flows[i], flow)) refuse(fmt::format("flows {} and {} differ", orbit.front(), i));
      for (const Hop& hop : flows[i].hops) {
        int64_t& sum = load[static_cast<size_t>(hop.link)];
        if (sum == 0) crossed.push_back(hop.link);
        sum += hop.share * flows[i].multiplicity;
      }
    }
    std::vector<std::pair<int32_t, int64_t>> hops;  // orbit, load of one of its links
    int64_t common = 0;
    for (LinkId link : crossed) {
      const int32_t link_orbit = orbit_of_link[static_cast<size_t>(link)];
      if (link_orbit < 0) refuse(fmt::format("link {} is crossed and is in no orbit", link));
      const int64_t sum = load[static_cast<size_t>(link)];
      for (size_t other : links[static_cast<size_t>(link_orbit)])
        if (load[other] != sum && load[other] >= 0)
          refuse(fmt::format("the flows of one orbit load link {} and link {} unequally", link, other));
      if (sum < 0) continue;
      hops.emplace_back(link_orbit, sum);
      common = std::gcd(common, sum);
      for (size_t other : links[static_cast<size_t>(link_orbit)]) load[other] = -sum;  // done
    }
    for (LinkId link : crossed)
      for (size_t other : links[static_cast<size_t>(orbit_of_link[static_cast<size_t>(link)])])
        load[other] = 0;
    // Shares have 32 bits; what all have in common is the multiplicity.
    flow.multiplicity = std::max<int64_t>(common, 1);
    flow.hops.clear();
    for (const auto& [link_orbit, sum] : hops) {
      const int64_t share = sum / flow.multiplicity;
      OPENTRN_CHECK(share <= std::numeric_limits<int32_t>::max(), "a folded share of {}", share);
      flow.hops.push_back({link_orbit, static_cast<int32_t>(share)});
    }
    out.flows.push_back(std::move(flow));
  }
  return out;
}

}  // namespace opentrn::fabric
