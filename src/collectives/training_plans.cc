#include "collectives/training_plans.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <set>

#include <fmt/ranges.h>

#include "base/interrupt.h"
#include "collectives/choose.h"
#include "collectives/coordinates.h"
#include "collectives/levels.h"
#include "collectives/rules.h"
#include "collectives/symmetric_direct.h"

namespace opentrn::collectives {

namespace {

constexpr int64_t kPsPerSecond = 1'000'000'000'000;
// What is written out in seconds where units do not all do the same.
constexpr int kUnitsWritten = 256;
constexpr int kPipeline = 3;  // parts of an all-reduce over levels, whose stages overlap

[[noreturn]] void refuse_job(const std::string& what, const std::string& hint) {
  throw Fault(FaultKind::kInput, "fabric.job", what, hint);
}

// Where an axis lies: a part of it in each unit, the rest in units.
struct PlacedAxis {
  std::string name;
  int inner = 1, inner_stride = 1;  // ranks of a unit
  int outer = 1, outer_stride = 1;  // units
};

// A level between units, and by how many units its neighbours are apart.
struct PlacedLevel {
  Level level;
  int stride = 1;
};

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
    place_axes();
  }

  // Nothing where one unit cannot stand for all.
  std::optional<TrainingPlans> make() {
    for (const TrainingBlock& block : job_.blocks) add_kinds(block.steps);
    if (units_differ_) return std::nullopt;
    out_.ranks = static_cast<int>(unit_cores_.size()) * job_.units;
    out_.graph = timing_graph(platform_, runs_);
    size_t next = 0;
    for (size_t run = 0; run < runs_.size(); ++run)
      for (size_t count = runs_[run].plan->step_count(); count > 0; --count, ++next)
        note(next, kind_of_run_[run]);
    for (size_t kind = 0; kind < out_.kinds.size(); ++kind)
      if (out_.kinds[kind].step.compute_ps > 0) add_compute(static_cast<int32_t>(kind));
    out_.written = static_cast<int64_t>(out_.graph.steps.size());
    return std::move(out_);
  }

 private:
  bool folds() const { return extent_ == Extent::kOneUnit; }

  static const TrainingJob& checked(const TrainingJob& job) {
    const int pod = job.cluster.pod_units;
    if (job.units < 1 || (pod > 0 && job.units % pod != 0))
      throw Fault(FaultKind::kInput, "fabric.cluster",
                  fmt::format("{} units{}", job.units, pod > 0 ? fmt::format(" in pods of {}", pod) : ""),
                  "one or more units, which the units of a pod divide");
    return job;
  }
  static fabric::Cluster cluster_of(const TrainingJob& job, Extent extent) {
    fabric::Cluster cluster = checked(job).cluster;
    if (job.units == 1) return {};
    for (const fabric::Taken& taken : cluster.taken)
      if (taken.unit >= 0)
        throw Fault(
            FaultKind::kInput, "collectives.unlike_units",
            fmt::format("unit {} differs from the others, so that units do not do the same", taken.unit),
            "links of all units: efa=0.5");
    if (extent == Extent::kOneUnit) cluster.one_in = std::max(1, cluster.pod_units);
    return cluster;
  }

  void place_axes() {
    int left = static_cast<int>(unit_cores_.size()), stride = 1, unit_stride = 1;
    std::set<std::string> names;
    for (const Axis& axis : job_.axes) {
      if (axis.size < 1 || axis.size > 1 << 24)
        refuse_job(fmt::format("axis {} of {}", axis.name, axis.size), "at least 1");
      if (!names.insert(axis.name).second)
        refuse_job(fmt::format("two axes '{}'", axis.name), "names that differ");
      PlacedAxis placed;
      placed.name = axis.name;
      placed.inner_stride = stride;
      placed.outer_stride = unit_stride;
      placed.inner = std::min(axis.size, left);
      if (left % placed.inner != 0 || axis.size % placed.inner != 0)
        refuse_job(fmt::format("axis {} of {} on the {} ranks of a unit that axes before it left", axis.name,
                               axis.size, left),
                   "a divisor or a multiple of them");
      placed.outer = axis.size / placed.inner;
      left /= placed.inner;
      stride *= placed.inner;
      unit_stride *= placed.outer;
      if (unit_stride > job_.units) break;
      axes_.push_back(placed);
    }
    if (left != 1 || unit_stride != job_.units || axes_.size() != job_.axes.size()) {
      int64_t product = 1;
      for (const Axis& axis : job_.axes) product = std::min<int64_t>(product * axis.size, int64_t{1} << 40);
      refuse_job(fmt::format("axes of {} ranks on a cluster of {} units of {}", product, job_.units,
                             unit_cores_.size()),
                 fmt::format("axes whose product is {}",
                             int64_t{job_.units} * static_cast<int64_t>(unit_cores_.size())));
    }
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
    std::vector<PlacedAxis> over;
    for (const std::string& name : step.over) {
      const auto found = std::ranges::find(axes_, name, &PlacedAxis::name);
      if (found == axes_.end()) {
        std::vector<std::string> names;
        for (const PlacedAxis& axis : axes_) names.push_back(axis.name);
        refuse_job(fmt::format("{} over '{}', which is not an axis", name_of(*step.kind), name),
                   fmt::format("one of: {}", fmt::join(names, ", ")));
      }
      if (std::ranges::find(over, name, &PlacedAxis::name) != over.end())
        refuse_job(fmt::format("{} over '{}' twice", name_of(*step.kind), name), "once");
      over.push_back(*found);
    }
    std::ranges::sort(over, {},
                      [](const PlacedAxis& axis) { return std::pair(axis.outer_stride, axis.inner_stride); });
    kind.use.over = fmt::format("{}", fmt::join(step.over, "+"));
    kind.use.name = step.name.empty() ? std::string(name_of(*step.kind)) : step.name;
    add_collective(kind, over);
  }

  void add_collective(TrainingKind& kind, const std::vector<PlacedAxis>& over) {
    int inner = 1, outer = 1;
    for (const PlacedAxis& axis : over) inner *= axis.inner, outer *= axis.outer;
    kind.use.ranks = inner * outer;
    if (kind.step.bytes < 1)
      refuse_job(fmt::format("{} of {} B", kind.use.name, kind.step.bytes), "at least 1 B");
    kind.use.bytes = kind.step.bytes;
    if (kind.use.ranks == 1) {
      kind.use.algorithm = "none";
      return;
    }
    if (*kind.step.kind == Kind::kPermute && is_uneven(over)) {
      if (folds())
        units_differ_ = true;
      else
        add_ring(kind, over);
      return;
    }
    const auto groups = groups_of(over);
    if (outer == 1)
      add_within(kind, groups);
    else
      add_between(kind, groups, levels_of(kind, over));
  }

  // Whether some ranks send within their unit, or their pod, and others out of it.
  bool is_uneven(const std::vector<PlacedAxis>& over) const {
    const int pod = job_.cluster.pod_units;
    int inner = 1, outer = 1;
    bool leaves_pods = false;
    for (const PlacedAxis& axis : over) {
      inner *= axis.inner;
      outer *= axis.outer;
      leaves_pods |= pod > 0 && axis.outer_stride < pod && axis.outer_stride * axis.outer > pod;
    }
    return outer > 1 && (inner > 1 || leaves_pods);
  }

  // A ring through all ranks of each group, wherever they lie.
  void add_ring(TrainingKind& kind, const std::vector<PlacedAxis>& over) {
    kind.use.algorithm = "permute";
    kind.use.bytes = rounded(Kind::kPermute, kind.step.bytes, 1);
    const Plan& ring =
        plans_.emplace_back(expanded(symmetric_shift(kind.use.bytes, {kind.use.ranks, "ring"}, 1)));
    const Costs costs = costs_of(tables_, platform_.generation(), kind.use.algorithm);
    const auto is_first = [&](int rank, int unit) {
      return std::ranges::all_of(over, [&](const PlacedAxis& axis) {
        return rank / axis.inner_stride % axis.inner == 0 && unit / axis.outer_stride % axis.outer == 0;
      });
    };
    for (int unit = 0; unit < job_.units; ++unit)
      for (int rank = 0; rank < static_cast<int>(unit_cores_.size()); ++rank) {
        interrupt::poll();
        if (is_first(rank, unit)) add_run({&ring, costs, ring_of(rank, unit, over), {}, 0});
      }
  }
  RankCores ring_of(int rank, int unit, const std::vector<PlacedAxis>& over) const {
    std::vector<std::pair<int, int>> members = {{rank, unit}};
    for (const PlacedAxis& axis : over) {
      std::vector<std::pair<int, int>> more;
      for (int i = 0; i < axis.inner * axis.outer; ++i)
        for (const auto& [own, at] : members)
          more.emplace_back(own + i % axis.inner * axis.inner_stride,
                            at + i / axis.inner * axis.outer_stride);
      members = std::move(more);
    }
    RankCores cores;
    for (const auto& [own, at] : members) cores.push_back(cores_of({own}, at)[0]);
    return cores;
  }

  // The ranks of a unit, group by group.
  std::vector<std::vector<int>> groups_of(const std::vector<PlacedAxis>& over) const {
    std::vector<std::vector<int>> groups;
    const int ranks = static_cast<int>(unit_cores_.size());
    for (int first = 0; first < ranks; ++first) {
      interrupt::poll();
      const auto moves = [&](const PlacedAxis& axis) { return first / axis.inner_stride % axis.inner != 0; };
      if (std::ranges::any_of(over, moves)) continue;
      std::vector<int> members = {first};
      for (const PlacedAxis& axis : over) {
        std::vector<int> more;
        for (int i = 0; i < axis.inner; ++i)
          for (const int member : members) more.push_back(member + i * axis.inner_stride);
        members = std::move(more);
      }
      groups.push_back(std::move(members));
    }
    return groups;
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
      const Layout layout = layout_of(platform_, cores_of(members, 0));
      const Choice choice = choose(tables_, platform_.generation(), request, layout);
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
    const int pod = job_.cluster.pod_units;
    std::vector<PlacedLevel> out;
    for (const PlacedAxis& axis : over) {
      int in_pod = axis.outer;
      if (pod > 0 && axis.outer_stride >= pod) in_pod = 1;
      if (pod > 0 && axis.outer_stride < pod && axis.outer_stride * axis.outer > pod) {
        in_pod = pod / axis.outer_stride;
        if (pod % axis.outer_stride != 0 || axis.outer % in_pod != 0)
          refuse_job(fmt::format("axis {} does not end at the {} units of a pod", axis.name, pod),
                     "pods of other sizes, or other axes");
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
    Hierarchy hierarchy;
    hierarchy.pipeline = *kind.step.kind == Kind::kAllReduce ? kPipeline : 1;
    for (const PlacedLevel& one : levels) hierarchy.levels.push_back(one.level);
    const int inner = static_cast<int>(groups[0].size());
    if (is_for_mesh(tables_, platform_.generation(), kind.step.bytes)) hierarchy.within = "mesh";
    for (const auto& members : groups) {
      SymmetricPlan& plan = symmetric_.emplace_back(plan_of(kind, hierarchy, members, inner));
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

  SymmetricPlan plan_of(TrainingKind& kind, const Hierarchy& hierarchy, const std::vector<int>& members,
                        int inner) {
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
    return symmetric_plan(request, hierarchy, layout_of(platform_, cores_of(members, 0)));
  }

  // The plan written out, once for all units that the levels do not join.
  void add_units(const SymmetricPlan& plan, const Costs& costs, const std::vector<int>& members,
                 const std::vector<PlacedLevel>& levels) {
    const Plan& whole = plans_.emplace_back(expanded(plan));
    const Coordinates group(plan.hierarchy);
    std::vector<int> units;  // of the plan
    std::set<int> taken;
    for (int unit = 0; unit < plan.units(); ++unit) {
      int at = 0;
      for (size_t level = 0; level < levels.size(); ++level)
        at += group.digit(unit, static_cast<int>(level)) * levels[level].stride;
      units.push_back(at);
    }
    for (int base = 0; base < job_.units; ++base) {
      interrupt::poll();
      if (taken.contains(base)) continue;
      for (const int unit : units) taken.insert(base + unit);
      RankCores cores;
      for (const int member : members)
        for (const int unit : units) cores.push_back(cores_of({member}, base + unit)[0]);
      add_run({&whole, costs, std::move(cores), {}, 0});
    }
  }

  void add_run(Run run) {
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
          refuse_job(fmt::format("{} B of HBM in {} ps of compute", compute.hbm_bytes, compute.compute_ps),
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
  std::vector<PlacedAxis> axes_;
  std::set<std::string> keys_;
  TrainingPlans out_;
  int32_t number_ = 0;
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
  if (auto made = Maker(tables, job, extent).make()) return std::move(*made);
  if (job.units > kUnitsWritten)
    refuse_job(
        fmt::format("ranks that send within a unit or pod beside ranks that send out of it, on {} units",
                    job.units),
        fmt::format("stages that fill units and pods before them, or {} units", kUnitsWritten));
  return std::move(*Maker(tables, job, Extent::kAllUnits).make());
}

}  // namespace opentrn::collectives
