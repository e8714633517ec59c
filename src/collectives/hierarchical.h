// Hierarchical collectives: one algorithm within each server, another one among the ranks of the same index
// of all servers.
#pragma once

#include <string>

#include "collectives/algorithms.h"

namespace opentrn::collectives {

struct HierarchicalOptions {
  std::string within = "";   // "mesh", "ring", "kangaring", "rdh"; "": kangaring where it serves, else ring
  std::string between = "";  // "ring", "mesh", "rdh"; "": rdh for 2^n servers, else ring
  // All-reduce in this many parts, whose stages overlap: 1 to kPipelineMax.
  int pipeline = 3;
};
inline constexpr int kPipelineMax = 3;

// An input fault for a name that is none, and for a pipeline out of range.
Algorithm hierarchical(const HierarchicalOptions& options);
Algorithm hierarchical();  // by default

}  // namespace opentrn::collectives
