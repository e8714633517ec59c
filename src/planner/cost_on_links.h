// Finalists of a search, with their collectives on the links of the cluster.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "planner/links.h"
#include "planner/search.h"

namespace opentrn::planner {

struct OnLinks {
  size_t plans = 0;                       // that are costed so now
  std::vector<std::string> refused = {};  // why others are not, each reason once
  std::shared_ptr<const Links> links;
};

// Evaluates the first `most` of result.best again with `machine.links` set, each with the layer times that it
// had, and sorts result.best: those on links first, each group by its step. The front stays that of the
// tiers. An input fault for a machine whose links are not modelled.
OnLinks cost_on_links(const arch::Tables& tables, const Job& job, Machine& machine, const Stack& stack,
                      const fabric::Cluster& cluster, size_t most, SearchResult& result);

}  // namespace opentrn::planner
