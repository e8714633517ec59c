#include "planner/links.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/fault.h"
#include "collectives/training.h"

namespace opentrn::planner {
namespace {

constexpr double kPsPerS = 1e12;

int64_t ranks_of_one(const arch::Tables& tables, const std::string& unit, int cores_per_rank) {
  return fabric::Platform::make(tables, unit, 1).cores() / cores_per_rank;
}

collectives::TrainingTime time_of(const arch::Tables& tables, const collectives::TrainingJob& job,
                                  int64_t ranks, int64_t stride) {
  try {
    return collectives::training_time(tables, job, collectives::Extent::kOneUnit);
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kInput) throw;
    throw Fault(FaultKind::kInput, "plan.links",
                fmt::format("groups of {} ranks, {} apart: {}", ranks, stride, fault.message()),
                fault.hint());
  }
}

}  // namespace

Links::Links(const arch::Tables& tables, std::string unit, int units, int cores_per_rank,
             fabric::Cluster cluster)
    : tables_(tables),
      unit_(std::move(unit)),
      units_(units),
      cores_per_rank_(cores_per_rank),
      ranks_of_unit_(ranks_of_one(tables, unit_, cores_per_rank)),
      ranks_(ranks_of_unit_ * units),
      cluster_(std::move(cluster)) {}

double Links::seconds(collectives::Kind kind, Group group, double bytes) {
  if (group.ranks <= 1 || bytes <= 0) return 0;
  const Asked asked{kind, group.ranks, group.stride, static_cast<int64_t>(std::ceil(bytes))};
  const std::lock_guard lock(mutex_);
  const auto [found, fresh] = known_.try_emplace(asked, 0);
  if (!fresh) return found->second;
  try {
    return found->second = simulated_s(asked);
  } catch (...) {
    known_.erase(found);
    throw;
  }
}

double Links::simulated_s(const Asked& asked) {
  // A ring of sends that lies in units and between them: neighbours of both kinds send at once.
  const int64_t end = asked.ranks * asked.stride;
  if (asked.kind == collectives::Kind::kPermute && asked.stride < ranks_of_unit_ && end > ranks_of_unit_) {
    Asked inside = asked, between = asked;
    inside.ranks = ranks_of_unit_ / asked.stride;
    between.ranks = end / ranks_of_unit_;
    between.stride = ranks_of_unit_;
    return std::max(inside.ranks > 1 ? one_s(inside) : 0, one_s(between));
  }
  return one_s(asked);
}

double Links::one_s(const Asked& asked) {
  if (ranks_ % (asked.ranks * asked.stride) != 0)
    throw Fault(FaultKind::kInput, "plan.links",
                fmt::format("groups of {} ranks, {} apart, of {} ranks", asked.ranks, asked.stride, ranks_),
                "a layout whose degrees divide the ranks; or no --links");
  const auto size = [](int64_t value) { return static_cast<int>(value); };
  collectives::TrainingJob job;
  job.machine = unit_;
  job.units = units_;
  job.cores_per_rank = cores_per_rank_;
  job.cluster = cluster_;
  job.axes = {{"before", size(asked.stride)},
              {"group", size(asked.ranks)},
              {"behind", size(ranks_ / (asked.ranks * asked.stride))}};
  collectives::TrainingStep step;
  step.kind = asked.kind;
  step.over = {"group"};
  step.bytes = asked.bytes;
  job.blocks = {{.name = "collective", .steps = {step}}};
  const collectives::TrainingTime time = time_of(tables_, job, asked.ranks, asked.stride);
  ++simulated_;
  written_ = std::max(written_, time.written);
  classes_ = std::max(classes_, time.classes);
  return static_cast<double>(time.end_ps) / kPsPerS;
}

}  // namespace opentrn::planner
