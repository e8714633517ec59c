#include "collectives/ring_orders.h"

#include <algorithm>
#include <numeric>

namespace opentrn::collectives {

namespace {

// Members in the order in which the cycle passes their chips; fewer where it does not pass all.
std::vector<int> along(const std::vector<int>& cycle, const Layout& layout, const std::vector<int>& members) {
  std::vector<int> order;
  for (const int chip : cycle) {
    const size_t first = order.size();
    for (size_t i = 0; i < members.size(); ++i)
      if (layout.ranks[static_cast<size_t>(members[i])].chip == chip) order.push_back(static_cast<int>(i));
    std::sort(order.begin() + static_cast<std::ptrdiff_t>(first), order.end(), [&](int a, int b) {
      return layout.ranks[static_cast<size_t>(members[static_cast<size_t>(a)])].slot <
             layout.ranks[static_cast<size_t>(members[static_cast<size_t>(b)])].slot;
    });
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
    for (const std::vector<int>& cycle : layout.cycles)
      if (auto order = along(cycle, layout, members); order.size() == members.size())
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
