#include "planner/communication.h"

#include <algorithm>
#include <cmath>

#include "planner/links.h"

namespace opentrn::planner {
namespace {

struct Placed {
  double inside = 1;  // ranks of the group in one domain
  double domains = 1;
};

Placed placed(const Machine& machine, Group group) {
  const double room = std::max<double>(1, double(machine.domain) / double(group.stride));
  const double inside = std::min<double>(double(group.ranks), std::floor(room));
  return {inside, std::ceil(double(group.ranks) / inside)};
}

// Of the part of a group that shares a domain.
const Tier& inside_tier(const Machine& machine, double ranks) {
  if (machine.inside_by_group.empty()) return machine.inside;
  const auto index = static_cast<size_t>(std::ceil(std::log2(std::max(1.0, ranks))));
  return machine.inside_by_group[std::min(index, machine.inside_by_group.size() - 1)];
}

// What a ring through the group passes each rank per second. All groups of the job run at once: the ranks of
// a group in one domain share the network of all of them with nobody, and every group its part.
double ring_bytes_s(const Machine& machine, const Placed& at) {
  const double inside = inside_tier(machine, at.inside).bytes_s;
  if (at.domains <= 1) return inside;
  const double across = machine.across.bytes_s * machine.across_ring_share * at.inside;
  return at.inside > 1 ? std::min(inside, across) : across;
}

// Steps of a ring inside and a tree across: collectives libraries change to trees where latency counts.
double latency_s(const Machine& machine, const Placed& at) {
  return (at.inside - 1) * inside_tier(machine, at.inside).latency_s +
         (at.domains > 1 ? 2 * std::ceil(std::log2(at.domains)) * machine.across.latency_s : 0);
}

using Collective = collectives::Kind;

double on_links_s(const Machine& machine, Collective kind, Group group, double bytes) {
  return machine.links_factor * machine.links->seconds(kind, group, bytes);
}

}  // namespace

double all_gather_s(const Machine& machine, Group group, double bytes) {
  if (machine.links) return on_links_s(machine, Collective::kAllGather, group, bytes);
  if (group.ranks <= 1 || bytes <= 0) return 0;
  const Placed at = placed(machine, group);
  const double n = double(group.ranks);
  return bytes * (n - 1) / n / ring_bytes_s(machine, at) + latency_s(machine, at);
}

double all_reduce_s(const Machine& machine, Group group, double bytes) {
  if (machine.links) return on_links_s(machine, Collective::kAllReduce, group, bytes);
  return 2 * all_gather_s(machine, group, bytes);
}

double all_to_all_s(const Machine& machine, Group group, double bytes) {
  if (machine.links) return on_links_s(machine, Collective::kAllToAll, group, bytes);
  if (group.ranks <= 1 || bytes <= 0) return 0;
  const Placed at = placed(machine, group);
  const double n = double(group.ranks), inside = bytes * (at.inside - 1) / n,
               across = bytes * (n - at.inside) / n;
  return std::max(inside / inside_tier(machine, at.inside).bytes_s, across / machine.across.bytes_s) +
         (at.domains > 1 ? machine.across.latency_s : machine.inside.latency_s);
}

double forwarded_s(const Machine& machine, Group group, double bytes, double copies) {
  if (machine.links || group.ranks <= 1 || bytes <= 0) return all_to_all_s(machine, group, bytes);
  const Placed at = placed(machine, group);
  if (at.domains <= 1) return all_to_all_s(machine, group, bytes);
  // Of copies that go anywhere with the same probability, the domains that at least one goes to.
  const double met = at.domains * (1 - std::pow(1 - 1 / at.domains, copies));
  const double across = bytes / copies * met * (at.domains - 1) / at.domains;
  const double inside = bytes * (at.inside - 1) / at.inside;
  return std::max(inside / inside_tier(machine, at.inside).bytes_s, across / machine.across.bytes_s) +
         machine.across.latency_s + machine.inside.latency_s;
}

double inside_rank_s(const Machine& machine, double bytes) {
  const double cores = machine.cores_per_rank;
  if (cores <= 1 || machine.inside_rank.bytes_s <= 0 || bytes <= 0) return 0;
  return bytes * (cores - 1) / cores / machine.inside_rank.bytes_s +
         (cores - 1) * machine.inside_rank.latency_s;
}

double send_s(const Machine& machine, Group group, double bytes) {
  if (machine.links) return on_links_s(machine, Collective::kPermute, group, bytes);
  if (group.ranks <= 1) return 0;
  const Tier& tier = group.stride * 2 <= machine.domain ? machine.inside : machine.across;
  return bytes / tier.bytes_s + tier.latency_s;
}

double beside_s(const Machine& machine, double compute_s, std::span<const Call> inside, const Call& hidden) {
  if (machine.links)
    return machine.links_factor *
           machine.links->added_s(compute_s / machine.links_factor, inside, std::span(&hidden, 1));
  const auto alone = [&] {
    switch (hidden.kind) {
      case Collective::kAllReduce: return all_reduce_s(machine, hidden.group, hidden.bytes);
      case Collective::kAllToAll: return all_to_all_s(machine, hidden.group, hidden.bytes);
      case Collective::kPermute: return send_s(machine, hidden.group, hidden.bytes);
      default: return all_gather_s(machine, hidden.group, hidden.bytes);
    }
  };
  return std::max(0.0, double(hidden.count) * alone() - compute_s);
}

}  // namespace opentrn::planner
