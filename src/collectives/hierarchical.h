// Hierarchical collectives: one algorithm within each server, another one among the ranks of the same index
// of all servers; of one UltraServer, within each instance and among instances.
#pragma once

#include <string>

#include "collectives/exchange.h"

namespace opentrn::collectives {

struct HierarchicalOptions {
  std::string within = "";   // "mesh", "ring", "kangaring", "rdh"; "": default_within()
  std::string between = "";  // "ring", "mesh", "rdh"; "": rdh for 2^n servers, else ring
  // All-reduce in this many parts, whose stages overlap: 1 to kPipelineMax.
  int pipeline = 3;
};
inline constexpr int kPipelineMax = 3;

// The exchange within the members' server by default: KangaRing where it serves, else rings; on several
// instances of an UltraServer, that within each of them, then by halves between the instances over the cables
// of each chip, where they are 2^n, else in a ring [assumed: it is published nowhere].
const ExchangeAlgorithm& default_within(const Layout& layout, const std::vector<int>& members);

// An input fault for a name that is none, and for a pipeline out of range.
Algorithm hierarchical(const HierarchicalOptions& options);
Algorithm hierarchical();  // by default

}  // namespace opentrn::collectives
