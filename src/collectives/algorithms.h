// The algorithms: each makes a plan of a request, knowing nothing of links and time but the layout.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "collectives/layout.h"
#include "collectives/plan.h"

namespace opentrn::collectives {

struct Algorithm {
  std::string name;  // Plan::algorithm is nccom-test's word, which several may share
  // "" when the algorithm can serve the request on this layout; else why not, as a clause.
  std::function<std::string(const Request&, const Layout&)> why_not;
  // The request has been checked, and why_not() is "".
  std::function<Plan(const Request&, const Layout&)> plan;
};

// All of them; one file each.
std::span<const Algorithm> algorithms();
const Algorithm& algorithm(const std::string& name);  // an input fault that lists the names otherwise

// Checks the request and the layout, and plans: an input fault when one is wrong or the algorithm cannot
// serve it.
Plan make_plan(const std::string& algorithm, const Request& request, const Layout& layout);

}  // namespace opentrn::collectives
