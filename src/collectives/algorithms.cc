#include "collectives/algorithms.h"

#include <algorithm>

#include "collectives/exchange.h"
#include "collectives/hierarchical.h"
#include "collectives/rules.h"

namespace opentrn::collectives {

// One file each.
Algorithm mesh_single_step();
Algorithm all_to_all();
Algorithm all_to_all_v();
Algorithm all_gather_v();
Algorithm permute();
Algorithm broadcast();
Algorithm reduce();

std::span<const Algorithm> algorithms() {
  static const std::vector<Algorithm> kAlgorithms = {
      whole_algorithm(mesh_exchange()),
      mesh_single_step(),
      whole_algorithm(rdh_exchange()),
      whole_algorithm(kangaring_exchange()),
      whole_algorithm(ring_exchange()),
      hierarchical({}),
      whole_algorithm(flat_ring_exchange()),
      all_to_all(),
      all_to_all_v(),
      all_gather_v(),
      permute(),
      broadcast(),
      reduce(),
  };
  return kAlgorithms;
}

const Algorithm& algorithm(const std::string& name) {
  const auto all = algorithms();
  const auto found = std::ranges::find(all, name, &Algorithm::name);
  if (found != all.end()) return *found;
  std::string names;
  for (const Algorithm& one : all) names += (names.empty() ? "" : ", ") + one.name;
  refuse(Rule::kAlgorithm, "there is no algorithm '{}'; there are {}", name, names);
}

Plan make_plan(const std::string& name, const Request& request, const Layout& layout) {
  check(request);
  check(layout, request.ranks);
  const Algorithm& found = algorithm(name);
  if (const std::string reason = found.why_not(request, layout); !reason.empty())
    refuse(Rule::kServes, "'{}' cannot do {} on {} ranks here: {}", name, name_of(request.kind),
           request.ranks, reason);
  return found.plan(request, layout);
}

}  // namespace opentrn::collectives
