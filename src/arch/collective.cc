#include "arch/collective.h"

#include <algorithm>
#include <bit>
#include <string>

namespace opentrn::arch {

namespace {

// The group of facts of each generation that has one (fabric.toml).
const char* facts_of(Generation generation) {
  return generation == Generation::kV3 ? "collective.trn2." : nullptr;
}

const Chip* chip_of(const Tables& tables, Generation generation) {
  for (const Chip& chip : tables.chips())
    if (chip.generation == generation) return &chip;
  return nullptr;
}

// One pass over the data, or two: all-reduce scatters what it reduces, then gathers it.
int passes_of(CollectiveKind kind) { return kind == CollectiveKind::kAllReduce ? 2 : 1; }

}  // namespace

std::optional<double> collective_us(const Tables& tables, Generation generation, CollectiveKind kind,
                                    double bytes, int64_t ranks, int physical_cores_per_rank) {
  const char* group = facts_of(generation);
  const Chip* chip = chip_of(tables, generation);
  if (ranks <= 1) return 0.0;
  if (!group || !chip) return std::nullopt;
  const auto fact = [&](const char* name) {
    return double{tables.facts().spec<double>(std::string(group) + name)};
  };
  const bool ring = bytes >= fact("rdh_bytes_max"), mesh = bytes < fact("mesh_bytes_max");
  const bool one_hop = mesh || kind == CollectiveKind::kPermute;
  const double hops = one_hop ? 1.0
                      : ring  ? static_cast<double>(ranks - 1)
                              : static_cast<double>(std::bit_width(static_cast<uint64_t>(ranks - 1)));
  // The table gives a range; its middle.
  const double hop_us = (fact("ring_hop_latency_us_min") + fact("ring_hop_latency_us_max")) / 2;

  const double share = kind == CollectiveKind::kPermute || kind == CollectiveKind::kBroadcast
                           ? 1.0
                           : static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  // The table counts accesses per chunk and two ranks.
  const double gather = fact(ring ? "kangaring_hbm_accesses_all_gather" : "ring_hbm_accesses_all_gather") / 2;
  const double scatter =
      fact(ring ? "kangaring_hbm_accesses_reduce_scatter" : "ring_hbm_accesses_reduce_scatter") / 2;
  const double accesses = kind == CollectiveKind::kAllReduce       ? gather + scatter
                          : kind == CollectiveKind::kReduceScatter ? scatter
                                                                   : gather;
  const double hbm_gb_s = double{tables.neuron_core(generation).hbm_bandwidth_gb_s} * physical_cores_per_rank;
  const double ranks_per_chip = static_cast<double>(int{chip->cores}) / physical_cores_per_rank;
  constexpr double kBytesPerUsOfGb = 1e3;
  double us = bytes * share * accesses / (hbm_gb_s * kBytesPerUsOfGb);
  if (static_cast<double>(ranks) > ranks_per_chip) {
    const double link_gb_s =
        double{tables.facts().spec<double>(chip->key + ".neuronlink_intra_gb_s")} / ranks_per_chip;
    us = std::max(us, bytes * share * passes_of(kind) / (link_gb_s * kBytesPerUsOfGb));
  }
  return hops * passes_of(kind) * hop_us + us;
}

}  // namespace opentrn::arch
