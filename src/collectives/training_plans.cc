#include "collectives/training_plans.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <set>

#include <fmt/ranges.h>

#include "base/interrupt.h"
#include "collectives/coordinates.h"
#include "collectives/levels.h"
#include "collectives/rules.h"
#include "collectives/symmetric_direct.h"
#include "collectives/training_axes.h"

namespace opentrn::collectives {

namespace {

constexpr int64_t kPsPerSecond = 1'000'000'000'000;
// What is written out in seconds where units do not all do the same.
constexpr int64_t kStepsWritten = 16'000'000;
constexpr int kPipeline = 3;  // parts of an all-reduce over levels, whose stages overlap

[[noreturn]] void refuse_job(const std::string& what, const std::string& hint) {
  throw Fault(FaultKind::kInput, "fabric.job", what, hint);
}

// A level between units, and by how many units its neighbours are apart.
struct PlacedLevel {
  Level level;
  int stride = 1;
};

// A pod that is not filled, and the only one, is one of fewer.
int pod_units(const TrainingJob& job) { return std::min(job.cluster.pod_units, job.units); }

// Whether no unit, and no pod, has links of its own rate: a pod that is not filled, other jobs on some.
bool are_links_alike(const TrainingJob& job) {
  const int pod = pod_units(job);
  return (pod < 1 || job.units % pod == 0) &&
         std::ranges::all_of(job.cluster.taken, [](const fabric::Taken& taken) { return taken.unit < 0; });
}

class Maker {
 public:
  Maker(const arch::Tables& tables, const TrainingJob& job, Extent extent)
      : tables_(tables),
        job_(job),
        extent_(extent),
        platform_(fabric::Platform::make(tables, job.machine,
                                         folds() ? std::min(2, checked(job).units) : checked(job).units,
                                         cluster_of(job, extent))) {
    const int cores = platform_.cores() / platform_.units();
    if (job.cores_per_rank < 1 || platform_.cores_per_chip() % job.cores_per_rank != 0)
      refuse(Rule::kRanks, "{} physical cores a rank, of the {} of a chip", job.cores_per_rank,
             platform_.cores_per_chip());
    for (int core = 0; core < cores; core += job.cores_per_rank) {
      auto& own = unit_cores_.emplace_back();
      for (int i = 0; i < job.cores_per_rank; ++i) own.push_back(core + i);
    }
    axes_.emplace(job.axes, static_cast<int>(unit_cores_.size()), job.units);
  }

  int64_t ranks() const { return int64_t{job_.units} * static_cast<int64_t>(unit_cores_.size()); }

  // Nothing where one unit cannot stand for all.
  std::optional<TrainingPlans> make() {
    for (const TrainingBlock& block : job_.blocks) add_kinds(block.steps);
    if (units_differ_) return std::nullopt;
    out_.ranks = static_cast<int>(ranks());
    out_.units = folds() ? 1 : job_.units;
    out_.graph = timing_graph(platform_, runs_);
    size_t next = 0;
    for (size_t run = 0; run < runs_.size(); ++run)
      for (size_t count = steps_of(runs_[run]); count > 0; --count, ++next) note(next, kind_of_run_[run]);
    for (size_t kind = 0; kind < out_.kinds.size(); ++kind)
      if (out_.kinds[kind].step.compute_ps > 0) add_compute(static_cast<int32_t>(kind));
    out_.written = static_cast<int64_t>(out_.graph.steps.size());
    return std::move(out_);
  }

 private:
  bool folds() const { return extent_ == Extent::kOneUnit; }

  static const TrainingJob& checked(const TrainingJob& job) {
    if (job.units < 1 || job.cluster.pod_units < 0)
      throw Fault(FaultKind::kInput, "fabric.cluster",
                  fmt::format("{} units in pods of {}", job.units, job.cluster.pod_units), "one or more");
    return job;
  }
  static fabric::Cluster cluster_of(const TrainingJob& job, Extent extent) {
    fabric::Cluster cluster = checked(job).cluster;
    if (job.units == 1) return {};
    if (extent == Extent::kOneUnit)
      cluster.pod_units = pod_units(job), cluster.one_in = std::max(1, cluster.pod_units);
    return cluster;
  }

  void add_kinds(const std::vector<TrainingStep>& steps) {
    for (const TrainingStep& step : steps) {
      add_kinds(step.steps);
      if (step.kind || (step.compute_ps > 0 && step.hbm_bytes > 0)) add_kind(step);
    }
  }

  void add_kind(const TrainingStep& step) {
    if (!keys_.insert(key_of(step)).second) return;
    number_ = static_cast<int32_t>(out_.kinds.size());
    TrainingKind& kind = out_.kinds.emplace_back();
    kind.step = step;
    if (!step.kind) return;
    const std::vector<PlacedAxis> over = axes_->over(step, *step.kind == Kind::kPermute);
    kind.use.over = fmt::format("{}", fmt::join(step.over, "+"));
    kind.use.name = step.name.empty() ? std::string(name_of(*step.kind)) : step.name;
    add_collective(kind, over);
  }

  void add_collective(TrainingKind& kind, const std::vector<PlacedAxis>& over) {
    kind.use.ranks = ranks_of_group(over);
    if (kind.step.bytes < 1)
      refuse_job(fmt::format("{} of {} B", kind.use.name, kind.step.bytes), "at least 1 B");
    kind.use.bytes = kind.step.bytes;
    if (kind.use.ranks == 1) {
      kind.use.algorithm = "none";
      return;
    }
    const bool is_alike = is_even(over) && are_units_alike(*kind.step.kind, over);
    if (folds() && !is_alike) {
      units_differ_ = true;
      return;
    }
    if (!is_even(over) || (!is_alike && *kind.step.kind == Kind::kPermute)) return add_anywhere(kind, over);
    const auto groups = axes_->groups_of_unit(over);
    if (groups[0].size() == static_cast<size_t>(kind.use.ranks))
      add_within(kind, groups);
    else
      add_between(kind, groups, levels_of(kind, over));
  }

  // Whether all units send as much to others of their pod and to other pods.
  bool are_units_alike(Kind kind, const std::vector<PlacedAxis>& over) const {
    const int pod = pod_units(job_);
    int inner = 1, outer = 1;
    bool stays_in_pods = true, fills_pods = true;
    for (const PlacedAxis& axis : over) {
      inner *= axis.inner;
      outer *= axis.outer;
      if (pod == 0 || axis.outer == 1 || axis.outer_stride >= pod) continue;
      const int end = axis.outer_stride * axis.outer;
      stays_in_pods &= pod % end == 0;
      fills_pods &= pod % end == 0 || (pod % axis.outer_stride == 0 && end % pod == 0);
    }
    if (kind != Kind::kPermute) return fills_pods;
    return outer == 1 || (inner == 1 && stays_in_pods && over.size() == 1);
  }

  // Of groups of ranks wherever they lie: each rank is a unit of its own to the plan, and levels join
  // neighbours first.
  void add_anywhere(TrainingKind& kind, const std::vector<PlacedAxis>& over) {
    std::vector<PlacedLevel> levels;
    const bool mesh = is_for_mesh(tables_, platform_.generation(), kind.step.bytes);
    const bool in_levels = *kind.step.kind != Kind::kPermute && *kind.step.kind != Kind::kAllToAll;
    std::vector<Level> sizes;
    if (in_levels)
      for (const PlacedAxis& axis : over) add_levels_of_ranks(sizes, axis.size, mesh);
    else
      sizes = {{kind.use.ranks, "ring"}};
    int stride = 1;
    for (const Level& level : sizes) {
      levels.push_back({level, stride});
      stride *= level.size;
    }
    Hierarchy hierarchy = hierarchy_of(kind, levels);
    hierarchy.within.clear();
    hierarchy.pipeline = 1;  // there is nothing within, beside which what is between could run
    const SymmetricPlan& plan = symmetric_.emplace_back(plan_of(kind, hierarchy, simple_layout(1)));
    const Plan* whole = whole_of(plan);
    const Costs costs = costs_of(tables_, platform_.generation(), kind.use.algorithm);
    const std::vector<int> places = places_of(plan, levels);
    for (const std::vector<int>& group : axes_->groups(over)) {
      RankCores cores;
      for (const int place : places) cores.push_back(cores_of_rank(group[static_cast<size_t>(place)]));
      add_all(plan, whole, costs, std::move(cores));
    }
  }

  // By its number in the job.
  std::vector<int> cores_of_rank(int rank) const {
    const int ranks = static_cast<int>(unit_cores_.size());
    return cores_of({rank % ranks}, rank / ranks)[0];
  }

  RankCores cores_of(const std::vector<int>& members, int unit) const {
    RankCores cores;
    const int moved = unit * (platform_.cores() / platform_.units());
    for (const int member : members) {
      auto& own = cores.emplace_back(unit_cores_[static_cast<size_t>(member)]);
      for (int& core : own) core += moved;
    }
    return cores;
  }

  // What divides by the ranks of the group.
  int64_t rounded(Kind kind, int64_t bytes, int ranks) const {
    const int64_t unit =
        int64_t{size_bytes(job_.dtype)} * (kind == Kind::kAllReduce || kind == Kind::kPermute ? 1 : ranks);
    return (bytes + unit - 1) / unit * unit;
  }

  void add_within(TrainingKind& kind, const std::vector<std::vector<int>>& groups) {
    const int ranks = kind.use.ranks;
    kind.use.bytes = rounded(*kind.step.kind, kind.step.bytes, ranks);
    Request request{.kind = *kind.step.kind, .ranks = ranks, .bytes = kind.use.bytes, .dtype = job_.dtype};
    if (request.kind == Kind::kAllGather) request.bytes /= ranks;
    if (request.kind == Kind::kPermute)
      for (int rank = 0; rank < ranks; ++rank) request.pairs.emplace_back(rank, (rank + 1) % ranks);
    check(request);
    for (const auto& members : groups) {
      const RankCores cores = cores_of(members, 0);
      const Layout layout = layout_of(platform_, cores);
      const Choice choice = choose_on(tables_, platform_, request, cores, layout);
      kind.use.algorithm = choice.algorithm.name;
      kind.use.why = choice.why;
      const Plan& plan = plans_.emplace_back(choice.algorithm.plan(request, layout));
      for (int unit = 0; unit < (folds() ? 1 : job_.units); ++unit)
        add_run({&plan,
                 costs_of(tables_, platform_.generation(), choice.algorithm.name),
                 cores_of(members, unit),
                 {},
                 0});
    }
  }

  // Units of a pod first.
  std::vector<PlacedLevel> levels_of(const TrainingKind& kind, const std::vector<PlacedAxis>& over) const {
    const bool mesh = is_for_mesh(tables_, platform_.generation(), kind.step.bytes);
    const int pod = pod_units(job_);
    std::vector<PlacedLevel> out;
    for (const PlacedAxis& axis : over) {
      int in_pod = axis.outer;
      if (pod > 0 && axis.outer_stride >= pod) in_pod = 1;
      if (pod > 0 && axis.outer_stride < pod && axis.outer_stride * axis.outer > pod) {
        // Where they do not fill pods, units are written out, and no level has to end at a pod.
        const int units = pod / axis.outer_stride;
        in_pod = pod % axis.outer_stride == 0 && axis.outer % units == 0 ? units : axis.outer;
      }
      std::vector<Level> levels;
      if (*kind.step.kind == Kind::kPermute) {
        if (axis.outer > 1) levels = {{axis.outer, "ring", in_pod == 1}};
      } else {
        add_levels_by_default(levels, in_pod, mesh, false);
        add_levels_by_default(levels, axis.outer / in_pod, mesh, true);
      }
      int stride = axis.outer_stride;
      for (const Level& level : levels) {
        out.push_back({level, stride});
        stride *= level.size;
      }
    }
    return out;
  }

  void add_between(TrainingKind& kind, const std::vector<std::vector<int>>& groups,
                   const std::vector<PlacedLevel>& levels) {
    const Hierarchy hierarchy = hierarchy_of(kind, levels);
    for (const auto& members : groups) {
      SymmetricPlan& plan =
          symmetric_.emplace_back(plan_of(kind, hierarchy, layout_of(platform_, cores_of(members, 0))));
      const Costs costs = costs_of(tables_, platform_.generation(), kind.use.algorithm);
      if (folds()) {
        Run run{&plan.unit, costs, cores_of(members, 0), {}, 0};
        run.away = &away_.emplace_back(away_of(plan));
        if (!plan.alike.empty()) run.alike = &plan.alike;
        add_run(run);
      } else {
        add_units(plan, costs, members, levels);
      }
    }
  }

  Hierarchy hierarchy_of(const TrainingKind& kind, const std::vector<PlacedLevel>& levels) const {
    Hierarchy hierarchy;
    hierarchy.pipeline = *kind.step.kind == Kind::kAllReduce ? kPipeline : 1;
    for (const PlacedLevel& one : levels) hierarchy.levels.push_back(one.level);
    if (is_for_mesh(tables_, platform_.generation(), kind.step.bytes)) hierarchy.within = "mesh";
    return hierarchy;
  }

  // `unit`: the ranks of a unit of the hierarchy.
  SymmetricPlan plan_of(TrainingKind& kind, const Hierarchy& hierarchy, const Layout& unit) {
    const int inner = static_cast<int>(unit.ranks.size());
    const Kind what = *kind.step.kind;
    if (what == Kind::kPermute) {
      kind.use.algorithm = "permute";
      kind.use.bytes = rounded(what, kind.step.bytes, 1);
      return symmetric_shift(kind.use.bytes, hierarchy.levels[0], inner);
    }
    Request request{.kind = what, .ranks = kind.use.ranks, .bytes = kind.step.bytes, .dtype = job_.dtype};
    if (what == Kind::kAllGather) request.bytes = (request.bytes + request.ranks - 1) / request.ranks;
    request.bytes = symmetric_bytes(hierarchy, what, request.bytes, job_.dtype, inner);
    kind.use.bytes = request.bytes * (what == Kind::kAllGather ? request.ranks : 1);
    check(request);
    if (what == Kind::kAllToAll) {
      kind.use.algorithm = "all_to_all";
      return symmetric_all_to_all(request, hierarchy, inner, folds() ? Written::kAlike : Written::kAll);
    }
    kind.use.algorithm = "hier";
    return symmetric_plan(request, hierarchy, unit);
  }

  // The plan of all units, once for those that the levels do not join.
  void add_units(const SymmetricPlan& plan, const Costs& costs, const std::vector<int>& members,
                 const std::vector<PlacedLevel>& levels) {
    const Plan* whole = whole_of(plan);
    const std::vector<int> units = places_of(plan, levels);
    std::set<int> taken;
    for (int base = 0; base < job_.units; ++base) {
      interrupt::poll();
      if (taken.contains(base)) continue;
      for (const int unit : units) taken.insert(base + unit);
      RankCores cores;
      if (whole != nullptr)
        for (const int member : members)
          for (const int unit : units) cores.push_back(cores_of({member}, base + unit)[0]);
      else
        for (const int unit : units)
          for (auto& own : cores_of(members, base + unit)) cores.push_back(std::move(own));
      add_all(plan, whole, costs, std::move(cores));
    }
  }

  // Where the units of a plan lie, counted in units of the job or in ranks of a group.
  static std::vector<int> places_of(const SymmetricPlan& plan, const std::vector<PlacedLevel>& levels) {
    const Coordinates group(plan.hierarchy);
    std::vector<int> places;
    for (int unit = 0; unit < plan.units(); ++unit) {
      int at = 0;
      for (size_t level = 0; level < levels.size(); ++level)
        at += group.digit(unit, static_cast<int>(level)) * levels[level].stride;
      places.push_back(at);
    }
    return places;
  }

  // Step by step for the reference; null: the plan of one unit is seen from each.
  const Plan* whole_of(const SymmetricPlan& plan) {
    return extent_ == Extent::kAllSteps ? &plans_.emplace_back(expanded(plan)) : nullptr;
  }
  void add_all(const SymmetricPlan& plan, const Plan* whole, const Costs& costs, RankCores cores) {
    Run run{whole != nullptr ? whole : &plan.unit, costs, std::move(cores), {}, 0};
    if (whole == nullptr) run.all_units = &plan;
    add_run(std::move(run));
  }

  static size_t steps_of(const Run& run) {
    return run.plan->step_count() * static_cast<size_t>(run.all_units ? run.all_units->units() : 1);
  }

  void add_run(Run run) {
    steps_ += static_cast<int64_t>(steps_of(run));
    if (steps_ > kStepsWritten)
      refuse_job(fmt::format("collectives of more than {} steps over links", kStepsWritten),
                 "fewer ranks, or groups that lie evenly on instances");
    runs_.push_back(std::move(run));
    kind_of_run_.push_back(number_);
  }

  void note(size_t step, int32_t kind) {
    out_.graph.steps[step].kind = kind;
    out_.kinds[static_cast<size_t>(kind)].steps.push_back(static_cast<int32_t>(step));
  }

  // A transfer through the HBM stacks of each rank that would take as long as the rank computes.
  void add_compute(int32_t kind) {
    const TrainingStep& compute = out_.kinds[static_cast<size_t>(kind)].step;
    const int units = folds() ? 1 : job_.units;
    for (int unit = 0; unit < units; ++unit)
      for (size_t rank = 0; rank < unit_cores_.size(); ++rank) {
        const RankCores cores = cores_of({static_cast<int>(rank)}, unit);
        std::set<fabric::LinkId> stacks;
        for (const int core : cores[0]) stacks.insert(platform_.hbm(core));
        std::vector<fabric::Hop> hops;
        for (const fabric::LinkId stack : stacks)
          hops.push_back(
              {stack, static_cast<int32_t>(fabric::kWholeShare / static_cast<int32_t>(stacks.size()))});
        TimedStep step;
        step.bytes = compute.hbm_bytes;
        const double rate =
            static_cast<double>(compute.hbm_bytes) * kPsPerSecond / static_cast<double>(compute.compute_ps);
        if (rate >= static_cast<double>(fabric::kBytesPerSecondMax))
          refuse_job(fmt::format("{:.6g} GB of HBM in {:.6g} us of compute", double(compute.hbm_bytes) / 1e9,
                                 double(compute.compute_ps) / 1e6),
                     "hbm is what one rank reads and writes in that time");
        step.bytes_per_s_max = static_cast<int64_t>(std::ceil(rate));
        step.priority = 1;
        step.way = out_.graph.add_way(hops, 0);
        out_.graph.steps.push_back(step);
        out_.graph.waits.close();
        note(out_.graph.steps.size() - 1, kind);
      }
  }

  const arch::Tables& tables_;
  const TrainingJob& job_;
  Extent extent_;
  bool units_differ_ = false;
  fabric::Platform platform_;
  RankCores unit_cores_;
  std::optional<PlacedAxes> axes_;
  std::set<std::string> keys_;
  TrainingPlans out_;
  int32_t number_ = 0;
  int64_t steps_ = 0;
  std::deque<Plan> plans_;
  std::deque<SymmetricPlan> symmetric_;
  std::deque<std::vector<std::vector<Away>>> away_;
  std::vector<Run> runs_;
  std::vector<int32_t> kind_of_run_;
};

}  // namespace

std::string key_of(const TrainingStep& step) {
  return step.kind ? fmt::format("{} {} {} {}", name_of(*step.kind), fmt::join(step.over, "+"), step.bytes,
                                 step.name)
                   : fmt::format("compute {} {}", step.compute_ps, step.hbm_bytes);
}

TrainingPlans training_plans(const arch::Tables& tables, const TrainingJob& job, Extent extent) {
  if (extent != Extent::kOneUnit || are_links_alike(job))
    if (auto made = Maker(tables, job, extent).make()) return std::move(*made);
  Maker all(tables, job, Extent::kAllUnits);
  if (all.ranks() > kRanksWrittenOut)
    refuse_job(
        fmt::format("instances that do not all send alike, {} ranks of them", all.ranks()),
        fmt::format("groups that lie evenly on instances and pods, or at most {} ranks", kRanksWrittenOut));
  return std::move(*all.make());
}

}  // namespace opentrn::collectives
