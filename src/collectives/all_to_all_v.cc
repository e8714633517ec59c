// All-to-all with sizes of their own: every rank sends to every other at once; parts of 0 bytes are no step.
#include "collectives/exchange.h"

namespace opentrn::collectives {

namespace {

std::string why_not_all_to_all_v(const Request& request, const Layout&) {
  if (request.kind == Kind::kAllToAllV) return "";
  return fmt::format("it serves all_to_all_v, not {}", name_of(request.kind));
}

Plan plan_all_to_all_v(const Request& request, const Layout&) {
  Builder builder(request, "mesh");
  const int ranks = request.ranks;
  const auto at = [ranks](int i, int j) {
    return static_cast<size_t>(i) * static_cast<size_t>(ranks) + static_cast<size_t>(j);
  };
  // Where each part begins: [source][target] in the input of its source, and in the output of its target.
  std::vector<int64_t> sent(request.counts.size()), received(sent);
  for (int i = 0; i < ranks; ++i)
    for (int j = 1; j < ranks; ++j) {
      sent[at(i, j)] = sent[at(i, j - 1)] + request.counts[at(i, j - 1)];
      received[at(j, i)] = received[at(j - 1, i)] + request.counts[at(j - 1, i)];
    }
  for (int distance = 1; distance <= ranks; ++distance)
    for (int from = 0; from < ranks; ++from) {
      const size_t part = at(from, (from + distance) % ranks);
      builder.copy(distance - 1, {from, {Buffer::kInput, sent[part]}},
                   {(from + distance) % ranks, {Buffer::kOutput, received[part]}}, request.counts[part]);
    }
  return std::move(builder).take();
}

}  // namespace

Algorithm all_to_all_v() { return {"all_to_all_v", why_not_all_to_all_v, plan_all_to_all_v}; }

}  // namespace opentrn::collectives
