// Permute: each source sends its input to its target.
#include "collectives/exchange.h"

namespace opentrn::collectives {

namespace {

std::string why_not_permute(const Request& request, const Layout&) {
  if (request.kind == Kind::kPermute) return "";
  return fmt::format("it serves permute, not {}", name_of(request.kind));
}

Plan plan_permute(const Request& request, const Layout&) {
  Builder builder(request, "permute");
  for (const auto& [source, target] : request.pairs)
    builder.copy(0, {source, {Buffer::kInput, 0}}, {target, {Buffer::kOutput, 0}}, request.bytes);
  return std::move(builder).take();
}

}  // namespace

Algorithm permute() { return {"permute", why_not_permute, plan_permute}; }

}  // namespace opentrn::collectives
