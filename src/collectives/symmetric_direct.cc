#include "collectives/symmetric_direct.h"

#include <map>
#include <utility>

#include "collectives/coordinates.h"
#include "collectives/rules.h"

namespace opentrn::collectives {

namespace {

// Displacements of units, and how many of those that are alike each stands for.
std::vector<std::pair<int32_t, int32_t>> displacements(const SymmetricPlan& plan, Written written) {
  std::vector<std::pair<int32_t, int32_t>> out;
  std::map<bool, size_t> of_distance;  // whether it leaves the pod -> in `out`
  const std::vector<bool> leaves = plan.leaving_pod();
  for (int32_t by = 1; by < plan.units(); ++by) {
    const auto [found, is_new] = of_distance.try_emplace(leaves[static_cast<size_t>(by)], out.size());
    if (is_new || written == Written::kAll)
      out.emplace_back(by, 1);
    else
      ++out[found->second].second;
  }
  out.emplace_back(0, 1);
  return out;
}

}  // namespace

SymmetricPlan symmetric_all_to_all(const Request& request, const Hierarchy& hierarchy, int ranks_per_unit,
                                   Written written) {
  SymmetricPlan plan;
  plan.request = request;
  plan.hierarchy = hierarchy;
  const int units = plan.units();
  if (request.kind != Kind::kAllToAll || hierarchy.levels.empty() || request.ranks != units * ranks_per_unit)
    refuse(Rule::kRanks, "{} of {} ranks over {} units of {}", name_of(request.kind), request.ranks, units,
           ranks_per_unit);
  check(request);
  const Coordinates group(hierarchy);
  const auto ranks = static_cast<size_t>(ranks_per_unit);
  const int64_t part = request.bytes / request.ranks;
  plan.unit.request = request;
  plan.unit.request.ranks = ranks_per_unit;
  plan.unit.algorithm = "mesh";
  plan.unit.steps.resize(ranks);
  plan.unit.wait_pool.resize(ranks);
  plan.unit.place_pool.resize(ranks);
  plan.waits_toward.resize(ranks);
  plan.toward.resize(ranks);
  plan.alike.resize(ranks);
  plan.seen = {{}};
  for (const Buffer buffer : {Buffer::kInput, Buffer::kOutput})
    plan.seen[0].push_back({buffer, 0, request.bytes, part * units, 0, false, true});
  const auto all = displacements(plan, written);
  for (int rank = 0; rank < ranks_per_unit; ++rank) {
    const auto r = static_cast<size_t>(rank);
    // The rank itself last, as all_to_all has it.
    for (const auto& [by, count] : all)
      for (int next = 1; next <= ranks_per_unit; ++next) {
        const int to = (rank + next) % ranks_per_unit;
        Step step;
        step.peer = to;
        step.from = {Buffer::kInput, part * (int64_t{to} * units + by)};
        step.to = {Buffer::kOutput, part * (int64_t{rank} * units + group.negated(by))};
        step.bytes = part;
        step.channel = static_cast<int32_t>(plan.unit.steps[r].size());
        plan.unit.steps[r].push_back(step);
        plan.toward[r].push_back(by);
        plan.alike[r].push_back(count);
      }
    plan.stage.emplace_back(plan.unit.steps[r].size(), int16_t{0});
  }
  plan.unit.channels = static_cast<int>(plan.unit.steps[0].size());
  if (written == Written::kAll) plan.alike.clear();
  return plan;
}

SymmetricPlan symmetric_shift(int64_t bytes, const Level& level, int ranks_per_unit) {
  SymmetricPlan plan;
  plan.hierarchy.levels = {level};
  plan.hierarchy.pipeline = 1;
  const int units = plan.units();
  Request& request = plan.request;
  request = {.kind = Kind::kPermute, .ranks = units * ranks_per_unit, .bytes = bytes};
  const Coordinates group(plan.hierarchy);
  for (int rank = 0; rank < ranks_per_unit; ++rank)
    for (int unit = 0; unit < units; ++unit)
      request.pairs.emplace_back(rank * units + unit, rank * units + group.add(unit, group.at(0, 1)));
  check(request);
  plan.unit.request = {.kind = Kind::kPermute, .ranks = ranks_per_unit, .bytes = bytes};
  plan.unit.algorithm = "permute";
  const auto ranks = static_cast<size_t>(ranks_per_unit);
  plan.unit.steps.resize(ranks);
  plan.unit.wait_pool.resize(ranks);
  plan.unit.place_pool.resize(ranks);
  plan.waits_toward.resize(ranks);
  for (int rank = 0; rank < ranks_per_unit; ++rank) {
    Step step;
    step.peer = rank;
    step.from = {Buffer::kInput, 0};
    step.to = {Buffer::kOutput, 0};
    step.bytes = bytes;
    plan.unit.steps[static_cast<size_t>(rank)] = {step};
    plan.unit.request.pairs.emplace_back(rank, rank);
    plan.toward.push_back({group.at(0, 1)});
    plan.stage.push_back({-1});
  }
  return plan;
}

}  // namespace opentrn::collectives
