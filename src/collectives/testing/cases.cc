#include "collectives/testing/cases.h"

#include <fmt/format.h>

#include "collectives/hierarchical.h"
#include "collectives/testing/samples.h"

namespace opentrn::collectives {

namespace {

struct NamedLayout {
  std::string name;
  Layout layout;
};

std::vector<NamedLayout> layouts(int ranks) {
  std::vector<NamedLayout> all;
  for (const int servers : {1, 2, 3, 4, 8}) {
    if (ranks % servers != 0) continue;
    const int each = ranks / servers;
    for (const int per_chip : {1, 2, 4})
      if (each % per_chip == 0)
        all.push_back({fmt::format("{} on a chip, {} servers", per_chip, servers),
                       simple_servers(servers, each, per_chip)});
    if (each % 16 == 0)
      all.push_back({fmt::format("4x4 torus, {} servers", servers), torus_layout(each / 16, servers)});
  }
  Layout bare = simple_layout(ranks);
  bare.cycles.clear();
  all.push_back({"no cycles", bare});
  Layout uneven = simple_layout(ranks, 3);  // the last chip may have fewer
  all.push_back({"3 on a chip", uneven});
  return all;
}

std::vector<Algorithm> all_algorithms() {
  std::vector<Algorithm> all(algorithms().begin(), algorithms().end());
  for (const char* within : {"mesh", "ring", "kangaring", "rdh"})
    for (const char* between : {"mesh", "ring", "rdh"})
      for (int pipeline = 1; pipeline <= kPipelineMax; ++pipeline) {
        all.push_back(hierarchical({within, between, pipeline}));
        all.back().name = fmt::format("hier of {} and {} in {}", within, between, pipeline);
      }
  return all;
}

std::vector<Request> requests(int ranks, bool every_root) {
  std::vector<Request> all;
  for (int kind = 0; kind < kKindCount; ++kind) {
    const Request request = sample_request(static_cast<Kind>(kind), ranks);
    const bool has_root = request.kind == Kind::kBroadcast || request.kind == Kind::kReduce;
    for (int root = 0; root < (has_root ? ranks : 1); ++root) {
      if (!every_root && root != 0 && root != ranks - 1) continue;
      all.push_back(request);
      all.back().root = root;
    }
  }
  // Parts of unequal sizes, and fewer elements than ranks.
  Request few = sample_request(Kind::kAllReduce, ranks, DType::kFloat32);
  few.bytes = 4 * (ranks / 2);
  all.push_back(few);
  return all;
}

}  // namespace

void for_each_case(int ranks, bool every_root, const std::function<void(const Case&)>& visit) {
  const auto algorithms = all_algorithms();
  const auto wanted = requests(ranks, every_root);
  for (const NamedLayout& place : layouts(ranks))
    for (const Request& request : wanted)
      for (const Algorithm& algorithm : algorithms)
        if (algorithm.why_not(request, place.layout).empty())
          visit({fmt::format("{} {} on {} ranks, {}, root {}", algorithm.name, name_of(request.kind), ranks,
                             place.name, request.root),
                 algorithm, request, place.layout});
}

}  // namespace opentrn::collectives
