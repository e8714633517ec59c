#include "planner/links.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::planner {
namespace {

constexpr double kPsPerS = 1e12;

int64_t ranks_of_one(const arch::Tables& tables, const std::string& unit, int cores_per_rank) {
  return fabric::Platform::make(tables, unit, 1).cores() / cores_per_rank;
}

collectives::TrainingTime simulated_time(const arch::Tables& tables, const collectives::TrainingJob& job,
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
  const Asked asked = bounded({kind, group.ranks, group.stride, static_cast<int64_t>(std::ceil(bytes))});
  const std::lock_guard lock(mutex_);
  const auto [found, fresh] = known_.try_emplace(asked, 0);
  if (!fresh) return found->second;
  try {
    return found->second = one_s(asked);
  } catch (...) {
    known_.erase(found);
    throw;
  }
}

// A ring of sends that lies in units and between them is written out. Of more ranks than that is done for,
// those between units take the longest where they are all of a rank's: so long at most.
Links::Asked Links::bounded(Asked asked) const {
  const int64_t end = asked.ranks * asked.stride;
  if (asked.kind != collectives::Kind::kPermute || ranks_ <= collectives::kRanksWrittenOut ||
      asked.stride >= ranks_of_unit_ || end <= ranks_of_unit_ || ranks_of_unit_ % asked.stride != 0)
    return asked;
  asked.ranks = end / ranks_of_unit_;
  asked.stride = ranks_of_unit_;
  return asked;
}

Links::Asked Links::asked_of(const Call& call) const {
  return bounded(
      {call.kind, call.group.ranks, call.group.stride, static_cast<int64_t>(std::ceil(call.bytes))});
}

// Pairs of stages, of which there is an odd number, make whole pairs on twice as many units.
int Links::units_for(const Asked& asked) const {
  const bool are_odd = asked.ranks == 2 && ranks_ % asked.stride == 0 && ranks_ / asked.stride % 2 == 1 &&
                       ranks_ > asked.stride;
  return are_odd ? 2 * units_ : units_;
}

collectives::TrainingJob Links::job_of(std::span<const Asked> calls) const {
  const int units = std::transform_reduce(
      calls.begin(), calls.end(), units_, [](int a, int b) { return std::max(a, b); },
      [&](const Asked& each) { return units_for(each); });
  const int64_t all = ranks_of_unit_ * units;
  std::set<int64_t> ends{1, all};
  for (const Asked& each : calls) ends.insert({each.stride, each.stride * each.ranks});
  collectives::TrainingJob job;
  job.machine = unit_;
  job.units = units;
  job.cores_per_rank = cores_per_rank_;
  job.cluster = cluster_;
  for (auto from = ends.begin(), to = std::next(from); to != ends.end(); from = to++) {
    if (*to % *from != 0)
      throw Fault(FaultKind::kInput, "plan.links",
                  fmt::format("groups of {} ranks, {} apart, of {} ranks", calls.back().ranks,
                              calls.back().stride, ranks_),
                  "a layout whose degrees divide the ranks; or no --links");
    job.axes.push_back({fmt::format("from {}", *from), static_cast<int>(*to / *from)});
  }
  return job;
}

collectives::TrainingStep Links::step_of(const collectives::TrainingJob& job, const Asked& asked) const {
  collectives::TrainingStep step;
  step.kind = asked.kind;
  step.bytes = asked.bytes;
  int64_t at = 1;
  for (const collectives::Axis& axis : job.axes) {
    if (at >= asked.stride && at < asked.stride * asked.ranks) step.over.push_back(axis.name);
    at *= axis.size;
  }
  return step;
}

double Links::time_of(const collectives::TrainingJob& job, const Asked& asked) {
  const collectives::TrainingTime time = simulated_time(tables_, job, asked.ranks, asked.stride);
  ++simulated_;
  if (std::tuple(time.units_written, time.written) > std::tuple(units_written_, written_)) {
    units_written_ = time.units_written;
    written_ = time.written;
    classes_ = time.classes;
  }
  return static_cast<double>(time.end_ps) / kPsPerS;
}

double Links::one_s(const Asked& asked) {
  collectives::TrainingJob job = job_of(std::span(&asked, 1));
  job.blocks = {{.name = "collective", .steps = {step_of(job, asked)}}};
  return time_of(job, asked);
}

double Links::added_s(double compute_s, std::span<const Call> inside, std::span<const Call> hidden) {
  std::vector<Asked> calls;
  int64_t parts = 0;
  const auto add = [&](std::span<const Call> from) {
    for (const Call& call : from)
      if (call.group.ranks > 1 && call.bytes > 0) calls.insert(calls.end(), call.count, asked_of(call));
  };
  add(inside);
  parts = static_cast<int64_t>(calls.size());
  add(hidden);
  if (parts == static_cast<int64_t>(calls.size())) return 0;
  const std::lock_guard lock(mutex_);
  const auto part_ps = static_cast<int64_t>(compute_s * kPsPerS / double(std::max<int64_t>(1, parts)));
  std::vector<Asked> key = calls;
  key.push_back({.ranks = parts});
  const auto [found, fresh] = known_added_.try_emplace({part_ps, std::move(key)}, 0);
  if (!fresh) return found->second;
  try {
    collectives::TrainingJob job = job_of(calls);
    collectives::TrainingBlock work{.name = "work"}, alone = work;
    for (auto call = calls.begin() + parts; call != calls.end(); ++call) {
      work.steps.push_back(step_of(job, *call));
      work.steps.back().beside = true;
    }
    for (int64_t i = 0; i < std::max<int64_t>(1, parts); ++i) {
      collectives::TrainingStep compute;
      compute.compute_ps = part_ps;
      if (part_ps > 0) alone.steps.push_back(compute);
      if (i < parts) alone.steps.push_back(step_of(job, calls[i]));
    }
    work.steps.insert(work.steps.end(), alone.steps.begin(), alone.steps.end());
    job.blocks = {work};
    const double both = time_of(job, calls.back());
    job.blocks = {alone};
    const double before = alone.steps.empty() ? 0 : time_of(job, calls.back());
    return found->second = std::max(0.0, both - before);
  } catch (...) {
    known_added_.erase(found);
    throw;
  }
}

}  // namespace opentrn::planner
