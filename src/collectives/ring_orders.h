// The ways that directed rings take through members of a group.
#pragma once

#include <vector>

#include "collectives/layout.h"

namespace opentrn::collectives {

// Each an order of members 0, 1, ..., which is closed to a ring. On one server, each cycle of the layout in
// both directions, the ranks of a chip one after the other as the layout says (passes); else the order of the
// members in both directions.
std::vector<std::vector<int>> ring_orders(const Layout& layout, const std::vector<int>& members);

}  // namespace opentrn::collectives
