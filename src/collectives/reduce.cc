// Reduction to the root up a binomial tree: a rank adds what its children sent to its own, and sends the sum.
#include "collectives/exchange.h"
#include "collectives/tree.h"

namespace opentrn::collectives {

namespace {

std::string why_not_reduce(const Request& request, const Layout&) {
  if (request.kind == Kind::kReduce) return "";
  return fmt::format("it serves reduce, not {}", name_of(request.kind));
}

Plan plan_reduce(const Request& request, const Layout&) {
  Builder builder(request, "reduce");
  const int levels = tree_levels(request.ranks);
  std::vector<int64_t> slots;  // of the child at each level
  for (int level = 0; level < levels; ++level) slots.push_back(builder.scratch(request.bytes));
  // Children have higher numbers than their parents.
  for (int node = request.ranks - 1; node >= 0; --node) {
    const int own_level = static_cast<int>(std::bit_width(static_cast<uint32_t>(node)));
    const int rank = tree_rank(request, node);
    std::vector<At> sources = {{rank, {Buffer::kInput, 0}}};
    for (int level = own_level; level < levels && node + (1 << level) < request.ranks; ++level)
      sources.push_back({rank, {Buffer::kScratch, slots[static_cast<size_t>(level)]}});
    At to{rank, {Buffer::kOutput, 0}};
    if (node > 0)
      to = {tree_rank(request, node - (1 << (own_level - 1))),
            {Buffer::kScratch, slots[static_cast<size_t>(own_level - 1)]}};
    builder.combine(0, sources, to, request.bytes);
  }
  return std::move(builder).take();
}

}  // namespace

Algorithm reduce() { return {"reduce", why_not_reduce, plan_reduce}; }

}  // namespace opentrn::collectives
