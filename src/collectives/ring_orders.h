// The ways that directed rings take through members of a group.
#pragma once

#include <vector>

#include "collectives/layout.h"

namespace opentrn::collectives {

// Each an order of members 0, 1, ..., which is closed to a ring. On one server, each cycle of the layout in
// both directions, the ranks of a chip one after the other as the layout says (passes). On all instances of
// an UltraServer, or two that follow each other, a cycle goes through one instance, over a cable to the same
// chip of the next, and back through that one. Else the order of the members in both directions.
std::vector<std::vector<int>> ring_orders(const Layout& layout, const std::vector<int>& members);

}  // namespace opentrn::collectives
