#include "collectives/verify.h"

#include <fmt/format.h>

#include "base/fault.h"
#include "collectives/data_flow.h"
#include "collectives/step_graph.h"
#include "collectives/structure.h"

namespace opentrn::collectives {

namespace {

std::string name_of_node(std::span<const Placed> plans, const StepGraph& graph, StepGraph::Node node) {
  if (!graph.is_step(node)) return "a handshake";
  const StepGraph::Place place = graph.place_of(node);
  const std::string prefix = plans.size() == 1 ? "" : fmt::format("plan {} ", place.plan);
  return prefix + describe(*plans[static_cast<size_t>(place.plan)].plan, place.step);
}

Finding deadlock(std::span<const Placed> plans, const StepGraph& graph) {
  constexpr size_t kNamed = 8;
  const auto circle = graph.circle();
  Finding finding{"deadlock", fmt::format("{} steps wait for each other: ", circle.size()), {}};
  for (size_t i = 0; i < circle.size(); ++i) {
    if (i < kNamed) finding.text += (i ? " waits for " : "") + name_of_node(plans, graph, circle[i]);
    if (graph.is_step(circle[i])) finding.steps.push_back(graph.place_of(circle[i]).step);
  }
  finding.text +=
      circle.size() > kNamed ? " waits for ..." : " waits for " + name_of_node(plans, graph, circle[0]);
  return finding;
}

}  // namespace

std::vector<Finding> verify_together(std::span<const Placed> plans,
                                     std::span<const std::vector<int>> issue_order) {
  for (const Placed& placed : plans) {
    try {
      check(placed.plan->request);
    } catch (const Fault& fault) {
      return {{"bad_request", fault.message(), {}}};
    }
    if (auto findings = check_structure(*placed.plan); !findings.empty()) return findings;
  }
  std::vector<Finding> findings = check_issue_order(plans, issue_order);
  if (!findings.empty()) return findings;
  StepGraph graph(plans, issue_order);
  if (graph.has_circle()) return {deadlock(plans, graph)};
  return DataFlow(plans, graph).run();
}

std::vector<Finding> verify(const Plan& plan) {
  Placed placed{&plan, {}};
  const std::vector<std::vector<int>> order(plan.steps.size(), {0});
  for (size_t rank = 0; rank < plan.steps.size(); ++rank) placed.ranks.push_back(static_cast<int>(rank));
  return verify_together({&placed, 1}, order);
}

}  // namespace opentrn::collectives
