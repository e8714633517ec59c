// Broadcast down a binomial tree: who has the data sends it to one that has not, so holders double each step.
#include "collectives/exchange.h"
#include "collectives/tree.h"

namespace opentrn::collectives {

namespace {

std::string why_not_broadcast(const Request& request, const Layout&) {
  if (request.kind == Kind::kBroadcast) return "";
  return fmt::format("it serves broadcast, not {}", name_of(request.kind));
}

Plan plan_broadcast(const Request& request, const Layout&) {
  Builder builder(request, "broadcast");
  for (int level = 0; level < tree_levels(request.ranks); ++level)
    for (int node = 0; node < 1 << level; ++node) {
      const int child = node + (1 << level);
      if (child >= request.ranks) break;
      const Buffer held = node == 0 ? Buffer::kInput : Buffer::kOutput;
      builder.copy(0, {tree_rank(request, node), {held, 0}},
                   {tree_rank(request, child), {Buffer::kOutput, 0}}, request.bytes);
    }
  builder.copy(1, {request.root, {Buffer::kInput, 0}}, {request.root, {Buffer::kOutput, 0}}, request.bytes);
  return std::move(builder).take();
}

}  // namespace

Algorithm broadcast() { return {"broadcast", why_not_broadcast, plan_broadcast}; }

}  // namespace opentrn::collectives
