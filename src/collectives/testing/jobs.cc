#include "collectives/testing/jobs.h"

#include <algorithm>
#include <iterator>

#include <fmt/ranges.h>

#include "base/fault.h"

namespace opentrn::collectives {
namespace {

constexpr int64_t kPsPerUs = 1'000'000;

struct Machine {
  const char* name;
  int cores_per_rank, ranks;
};
constexpr Machine kMachines[] = {{"trn1.32xlarge", 1, 32},
                                 {"trn1.32xlarge", 2, 16},
                                 {"trn2.48xlarge", 1, 128},
                                 {"trn2.48xlarge", 2, 64},
                                 {"trn2.48xlarge", 8, 16}};
constexpr const char* kAxes[] = {"tp", "cp", "ep", "dp", "pp"};

uint32_t below(SplitMix64& random, size_t count) { return random.below(static_cast<uint32_t>(count)); }

int64_t some_bytes(SplitMix64& random) {
  const int64_t most[] = {2'000, 200'000, 20'000'000};
  return 1 + random.below(static_cast<uint32_t>(most[random.below(3)]));
}

// Each prime factor goes to an axis.
std::vector<Axis> random_axes(SplitMix64& random, int ranks) {
  std::vector<Axis> axes;
  for (const char* name : kAxes) axes.push_back({name, 1});
  for (int factor = 2; ranks > 1; ++factor)
    for (; ranks % factor == 0; ranks /= factor) axes[below(random, axes.size())].size *= factor;
  if (random.below(4) == 0) std::swap(axes[below(random, axes.size())], axes[below(random, axes.size())]);
  std::erase_if(axes, [](const Axis& axis) { return axis.size == 1; });
  return axes;
}

TrainingStep random_collective(SplitMix64& random, const std::vector<Axis>& axes, size_t axis) {
  constexpr Kind kKinds[] = {Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter, Kind::kAllToAll,
                             Kind::kPermute};
  TrainingStep step;
  step.over = {axes[axis].name};
  step.kind = axes[axis].name == "ep"   ? Kind::kAllToAll
              : axes[axis].name == "pp" ? Kind::kPermute
                                        : kKinds[below(random, std::size(kKinds))];
  // An all-to-all of thousands has millions of transfers.
  if (step.kind == Kind::kAllToAll && axes[axis].size > 64) step.kind = Kind::kAllGather;
  const bool joins = step.kind != Kind::kPermute && step.kind != Kind::kAllToAll;
  if (joins && axes.size() > 1 && random.below(4) == 0)
    step.over.push_back(axes[(axis + 1) % axes.size()].name);
  step.bytes = some_bytes(random);
  step.beside = random.below(3) == 0;
  return step;
}

}  // namespace

TrainingJob random_job(SplitMix64& random, int least, int most) {
  const auto has = [&](const Machine& machine) {
    return most / machine.ranks * machine.ranks >= std::max(least, 1);
  };
  OPENTRN_CHECK(std::ranges::any_of(kMachines, has), "no machine has {} to {} ranks", least, most);
  TrainingJob job;
  for (;;) {
    const Machine& machine = kMachines[below(random, std::size(kMachines))];
    job.machine = machine.name;
    job.cores_per_rank = machine.cores_per_rank;
    const int units = most / machine.ranks;
    if (units < 1) continue;
    job.units = 1 + static_cast<int>(below(random, static_cast<size_t>(units)));
    if (job.units * machine.ranks < least) continue;
    job.axes = random_axes(random, job.units * machine.ranks);
    break;
  }
  if (job.units > 1 && random.below(3) == 0) {
    job.cluster.pod_units = 1 + static_cast<int>(below(random, static_cast<size_t>(job.units)));
    job.cluster.oversubscription = 1 + random.below(4);
  }
  TrainingBlock block{"", 1 + random.below(3), {}};
  for (size_t axis = 0; axis < job.axes.size(); ++axis) {
    block.steps.push_back(random_collective(random, job.axes, axis));
    TrainingStep compute;
    compute.compute_ps = (1 + random.below(200)) * kPsPerUs;
    compute.hbm_bytes = random.below(2) * random.below(50'000'000);
    block.steps.push_back(compute);
  }
  job.blocks = {block};
  return job;
}

namespace {

TrainingJob job_of(const Machine& machine, int units, int tp, int pp) {
  TrainingJob job;
  job.machine = machine.name;
  job.cores_per_rank = machine.cores_per_rank;
  job.units = units;
  TrainingBlock block{"", 2, {}};
  const auto add = [&](const char* name, int size, Kind kind, int64_t bytes, bool beside) {
    if (size == 1) return;
    job.axes.push_back({name, size});
    TrainingStep step;
    step.kind = kind;
    step.over = {name};
    step.bytes = bytes;
    step.beside = beside;
    block.steps.push_back(step);
    TrainingStep compute;
    compute.compute_ps = 40 * kPsPerUs;
    compute.hbm_bytes = 5'000'000;
    block.steps.push_back(compute);
  };
  add("tp", tp, Kind::kAllReduce, 2'000'003, false);
  add("pp", pp, Kind::kPermute, 777'777, false);
  add("dp", units * machine.ranks / tp / pp, Kind::kReduceScatter, 3'000'017, true);
  job.blocks = {block};
  return job;
}

}  // namespace

std::vector<TrainingJob> every_job(int most) {
  std::vector<TrainingJob> jobs;
  const auto add_all = [&](const Machine& machine, int units) {
    const int ranks = units * machine.ranks;
    for (int tp = 1; ranks <= most && tp <= ranks; ++tp)
      for (int pp = 1; ranks % tp == 0 && pp <= ranks / tp; ++pp) {
        if (ranks / tp % pp != 0) continue;
        TrainingJob& job = jobs.emplace_back(job_of(machine, units, tp, pp));
        if (units == 1 || jobs.size() % 3 != 0) continue;
        job.cluster.pod_units = (units + 1) / 2;
        job.cluster.oversubscription = 2;
      }
  };
  for (const Machine& machine : kMachines)
    for (int units = 1; units * machine.ranks <= most; units *= 2) {
      add_all(machine, units);
      if (units > 1) add_all(machine, units / 2 * 3);
    }
  return jobs;
}

std::string text_of(const TrainingJob& job) {
  std::string text = fmt::format("{} x {}, {} cores a rank", job.machine, job.units, job.cores_per_rank);
  if (job.cluster.pod_units > 0)
    text += fmt::format(", pods of {} over {}", job.cluster.pod_units, job.cluster.oversubscription);
  for (const Axis& axis : job.axes) text += fmt::format(" {}{}", axis.name, axis.size);
  for (const TrainingStep& step : job.blocks[0].steps)
    if (step.kind)
      text += fmt::format("; {} over {} of {} B{}", name_of(*step.kind), fmt::join(step.over, "+"),
                          step.bytes, step.beside ? " beside" : "");
  return text;
}

std::string difference(const TrainingTime& folded, const TrainingTime& written) {
  if (folded.end_ps != written.end_ps)
    return fmt::format("{} ps folded, {} ps written out", folded.end_ps, written.end_ps);
  if (folded.exposed_ps != written.exposed_ps)
    return fmt::format("exposed: {} ps folded, {} ps written out", folded.exposed_ps, written.exposed_ps);
  if (folded.collectives.size() != written.collectives.size()) return "collectives";
  for (size_t i = 0; i < folded.collectives.size(); ++i) {
    const CollectiveUse &a = folded.collectives[i], &b = written.collectives[i];
    if (a.mean_ps != b.mean_ps || a.alone_ps != b.alone_ps || a.bytes != b.bytes || a.ranks != b.ranks)
      return fmt::format("{} over {}: {} ps folded, {} ps written out", a.name, a.over, a.mean_ps, b.mean_ps);
  }
  return "";
}

}  // namespace opentrn::collectives
