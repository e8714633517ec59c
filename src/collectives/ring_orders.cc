#include "collectives/ring_orders.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace opentrn::collectives {

namespace {

// Members of an instance in the order in which the cycle passes their chips; fewer where it does not pass
// all.
std::vector<int> along(size_t at, const Layout& layout, const std::vector<int>& members, int instance) {
  const std::vector<int>& cycle = layout.cycles[at];
  std::vector<int> order;
  for (size_t position = 0; position < cycle.size(); ++position) {
    const int chip = cycle[position];
    const auto turn_of = [&](int member) {
      const int slot = layout.ranks[static_cast<size_t>(members[static_cast<size_t>(member)])].slot;
      if (layout.passes.empty()) return slot;
      const std::vector<int>& slots = layout.passes[at][position];
      return static_cast<int>(std::ranges::find(slots, slot) - slots.begin());
    };
    const size_t first = order.size();
    for (size_t i = 0; i < members.size(); ++i) {
      const Layout::Rank& rank = layout.ranks[static_cast<size_t>(members[i])];
      if (layout.instance(rank) == instance && layout.chip_in_instance(rank) == chip)
        order.push_back(static_cast<int>(i));
    }
    std::sort(order.begin() + static_cast<std::ptrdiff_t>(first), order.end(),
              [&](int a, int b) { return turn_of(a) < turn_of(b); });
  }
  return order;
}

// The instances that a ring goes through: one, or an even number, each wired to the one before, round the
// UltraServer. Empty: there is no such ring.
std::vector<int> instances_of_ring(const Layout& layout, const std::vector<int>& members) {
  std::set<int> found;
  for (const int member : members) found.insert(layout.instance(layout.ranks[static_cast<size_t>(member)]));
  std::vector<int> instances(found.begin(), found.end());
  const auto steps = static_cast<int>(instances.size()) - 1;
  const bool follow = instances.back() - instances.front() == steps;
  const bool is_even = steps % 2 == 1;
  return steps == 0 || (follow && is_even) ? instances : std::vector<int>{};
}

// One way through all members that a cycle of the layout makes; fewer of them where it does not pass all.
std::vector<int> through(size_t cycle, const Layout& layout, const std::vector<int>& members) {
  std::vector<int> order;
  bool back = false;
  for (const int instance : instances_of_ring(layout, members)) {
    std::vector<int> part = along(cycle, layout, members, instance);
    if (std::exchange(back, !back)) std::ranges::reverse(part);
    order.insert(order.end(), part.begin(), part.end());
  }
  return order;
}

}  // namespace

std::vector<std::vector<int>> ring_orders(const Layout& layout, const std::vector<int>& members) {
  const bool one_server = std::ranges::all_of(members, [&](int rank) {
    return layout.ranks[static_cast<size_t>(rank)].server ==
           layout.ranks[static_cast<size_t>(members[0])].server;
  });
  std::vector<std::vector<int>> orders;
  if (one_server)
    for (size_t cycle = 0; cycle < layout.cycles.size(); ++cycle)
      if (auto order = through(cycle, layout, members); order.size() == members.size())
        orders.push_back(std::move(order));
  if (orders.empty()) {
    orders.emplace_back(members.size());
    std::iota(orders[0].begin(), orders[0].end(), 0);
  }
  if (members.size() == 2) return {orders[0]};  // both directions are the same ring
  for (size_t i = 0, forward = orders.size(); i < forward; ++i)
    orders.emplace_back(orders[i].rbegin(), orders[i].rend());
  return orders;
}

}  // namespace opentrn::collectives
