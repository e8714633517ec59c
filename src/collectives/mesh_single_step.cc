// Single-step mesh: every rank sends its whole input to all others, and each reduces all of it for itself.
// One step instead of two, for many times the bytes: for the smallest all-reduces.
#include "collectives/exchange.h"

namespace opentrn::collectives {

namespace {

std::string why_not_mesh_single_step(const Request& request, const Layout&) {
  if (request.kind == Kind::kAllReduce) return "";
  return fmt::format("it serves all_reduce, not {}", name_of(request.kind));
}

Plan plan_mesh_single_step(const Request& request, const Layout&) {
  Builder builder(request, "mesh");
  const int ranks = request.ranks;
  std::vector<int64_t> slots;
  for (int distance = 1; distance < ranks; ++distance) slots.push_back(builder.scratch(request.bytes));
  const auto received = [&](int from, int to) {
    return At{to, {Buffer::kScratch, slots[static_cast<size_t>((from - to + ranks) % ranks - 1)]}};
  };
  for (int distance = 1; distance < ranks; ++distance)
    for (int from = 0; from < ranks; ++from) {
      const int to = (from + distance) % ranks;
      builder.copy(distance - 1, {from, {Buffer::kInput, 0}}, received(from, to), request.bytes);
    }
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<At> sources;
    for (int from = 0; from < ranks; ++from)
      sources.push_back(from == rank ? At{rank, {Buffer::kInput, 0}} : received(from, rank));
    builder.combine(ranks - 1, sources, {rank, {Buffer::kOutput, 0}}, request.bytes);
  }
  return std::move(builder).take();
}

}  // namespace

Algorithm mesh_single_step() { return {"mesh_single_step", why_not_mesh_single_step, plan_mesh_single_step}; }

}  // namespace opentrn::collectives
