// Binomial trees over the ranks of a group, numbered from their root.
#pragma once

#include <bit>

#include "collectives/request.h"

namespace opentrn::collectives {

// Distances from the root double: node i has the children i + 2^k for 2^k > i.
inline int tree_levels(int ranks) {
  return static_cast<int>(std::bit_width(static_cast<uint32_t>(ranks - 1)));
}
inline int tree_rank(const Request& request, int node) { return (node + request.root) % request.ranks; }

}  // namespace opentrn::collectives
