#include "collectives/algorithms.h"

#include <algorithm>

#include "collectives/exchange.h"
#include "collectives/rules.h"

namespace opentrn::collectives {

// One file each.
#define OPENTRN_STAGE(stem)
#define OPENTRN_EXCHANGE(stem)
#define OPENTRN_ALGORITHM(stem) Algorithm stem();
#include "collectives/algorithms.def"
#undef OPENTRN_STAGE
#undef OPENTRN_EXCHANGE
#undef OPENTRN_ALGORITHM

std::span<const Algorithm> algorithms() {
  static const std::vector<Algorithm> kAlgorithms = {
#define OPENTRN_STAGE(stem) whole_algorithm(stem##_exchange()),
#define OPENTRN_EXCHANGE(stem) whole_algorithm(stem##_exchange()),
#define OPENTRN_ALGORITHM(stem) stem(),
#include "collectives/algorithms.def"
#undef OPENTRN_STAGE
#undef OPENTRN_EXCHANGE
#undef OPENTRN_ALGORITHM
  };
  return kAlgorithms;
}

const std::vector<const ExchangeAlgorithm*>& stages() {
  static const std::vector<const ExchangeAlgorithm*> kStages = {
#define OPENTRN_STAGE(stem) &stem##_exchange(),
#define OPENTRN_EXCHANGE(stem)
#define OPENTRN_ALGORITHM(stem)
#include "collectives/algorithms.def"
#undef OPENTRN_STAGE
#undef OPENTRN_EXCHANGE
#undef OPENTRN_ALGORITHM
  };
  return kStages;
}

const ExchangeAlgorithm* find_stage(const std::string& name) {
  const auto found = std::ranges::find(stages(), name, &ExchangeAlgorithm::name);
  return found == stages().end() ? nullptr : *found;
}

std::string names_of_stages() {
  std::string names;
  for (const ExchangeAlgorithm* one : stages()) names += (names.empty() ? "" : ", ") + one->name;
  return names;
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
