// Ranks of a unit whose steps are the same, each seen from itself: which of them, and which links, have the
// same times.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fabric/network.h"

namespace opentrn::collectives {

// The ways that the steps of each rank take. Every rank has the same kinds of ways: to the rank at a
// displacement, to other units, within itself.
struct WaysOfRanks {
  int32_t ranks = 0, kinds = 0;
  // That of a rank and a kind is number rank * kinds + kind.
  std::vector<int64_t> first = {0};
  std::vector<fabric::Hop> hops;
  std::vector<int64_t> latency_ps;
  // Of ranks, by exclusive or, that steps lead to or wait for.
  std::vector<int32_t> displacements;

  void add(std::span<const fabric::Hop> way, int64_t latency) {
    hops.insert(hops.end(), way.begin(), way.end());
    first.push_back(static_cast<int64_t>(hops.size()));
    latency_ps.push_back(latency);
  }
  std::span<const fabric::Hop> of(int32_t rank, int32_t kind) const {
    const auto at = static_cast<size_t>(rank) * static_cast<size_t>(kinds) + static_cast<size_t>(kind);
    return std::span(hops).subspan(static_cast<size_t>(first[at]),
                                   static_cast<size_t>(first[at + 1] - first[at]));
  }
};

struct RankClasses {
  std::vector<int32_t> of_rank, of_link;
  std::vector<int32_t> first_rank, first_link;  // of each class
  // What all ranks of a class together put on one link of each class that they cross: [class * kinds + kind].
  struct Load {
    int32_t link = 0;  // a class
    int64_t share = 0;
  };
  std::vector<std::vector<Load>> loads;
};

// Ranks of one class take ways of each kind over links of the same classes with the same shares and latency,
// and have ranks of the same classes at the same displacements; links of one class have one rate and carry
// equal shares of each kind of each class of ranks. With steps that are the same for all ranks this is an
// equitable partition of all steps (classes_of() of timing_graph.h), a class of ranks and a step of the plan
// for each class of steps. Found by colour refinement on hashes, then checked number by number; nothing where
// the check fails.
std::optional<RankClasses> rank_classes(const WaysOfRanks& ways, const fabric::Network& network);

}  // namespace opentrn::collectives
