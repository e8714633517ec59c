// All-to-all, as AWS's mesh does it: every rank sends to every other at once.
#include "collectives/exchange.h"

namespace opentrn::collectives {

namespace {

std::string why_not_all_to_all(const Request& request, const Layout&) {
  if (request.kind == Kind::kAllToAll) return "";
  return fmt::format("it serves all_to_all, not {}", name_of(request.kind));
}

Plan plan_all_to_all(const Request& request, const Layout&) {
  Builder builder(request, "mesh");
  const int64_t part = request.bytes / request.ranks;
  // The rank itself last: the links are what takes time.
  for (int distance = 1; distance <= request.ranks; ++distance)
    for (int from = 0; from < request.ranks; ++from) {
      const int to = (from + distance) % request.ranks;
      builder.copy(distance - 1, {from, {Buffer::kInput, part * to}}, {to, {Buffer::kOutput, part * from}},
                   part);
    }
  return std::move(builder).take();
}

}  // namespace

Algorithm all_to_all() { return {"all_to_all", why_not_all_to_all, plan_all_to_all}; }

}  // namespace opentrn::collectives
