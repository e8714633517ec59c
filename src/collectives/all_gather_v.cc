// All-gather of parts with sizes of their own, by mesh: every rank sends its part to all others at once.
#include "collectives/exchange.h"

namespace opentrn::collectives {

namespace {

std::string why_not_all_gather_v(const Request& request, const Layout&) {
  if (request.kind == Kind::kAllGatherV) return "";
  return fmt::format("it serves all_gather_v, not {}", name_of(request.kind));
}

Plan plan_all_gather_v(const Request& request, const Layout& layout) {
  Builder builder(request, "mesh");
  Exchange exchange;
  exchange.members = all_ranks(request.ranks);
  int64_t offset = 0;
  for (const int64_t count : request.counts) {
    exchange.parts.push_back({{offset, count}});
    offset += count;
  }
  exchange.source = [&exchange](int member, int64_t position) {
    return Slice{Buffer::kInput, position - exchange.parts[static_cast<size_t>(member)][0].offset};
  };
  exchange.target = view_of(Buffer::kOutput);
  mesh_exchange().gather(builder, layout, exchange);
  return std::move(builder).take();
}

}  // namespace

Algorithm all_gather_v() { return {"all_gather_v", why_not_all_gather_v, plan_all_gather_v}; }

}  // namespace opentrn::collectives
