// What a collective among the NeuronCores of one instance costs: an estimate from public latencies and rates.
//
// Nobody has published the time of a collective on Neuron hardware against which this could be held. Small
// messages go over a mesh, larger ones by recursive halving and doubling, the largest around a ring; each
// step costs one hop's latency, and bytes move at the slower of two rates: the core's share of HBM, which
// every hop reads and writes, and, where the ranks are on several chips, the core's share of its chip's
// links.
#pragma once

#include <cstdint>
#include <optional>

#include "arch/tables.h"

namespace opentrn::arch {

enum class CollectiveKind : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kPermute,
  kBroadcast
};

// Microseconds, during which nothing else is thought to run. `bytes`: of the whole array on one rank, the
// gathered one, or the one that is scattered. nullopt for a generation whose latencies no source gives.
std::optional<double> collective_us(const Tables& tables, Generation generation, CollectiveKind kind,
                                    double bytes, int64_t ranks, int physical_cores_per_rank);

}  // namespace opentrn::arch
