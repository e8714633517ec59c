#include "collectives/cluster.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/units.h"
#include "collectives/levels.h"
#include "collectives/rules.h"
#include "collectives/symmetric_direct.h"

namespace opentrn::collectives {

namespace {

constexpr int64_t kClusterStepsMax = 20'000'000;  // about 5 GB of memory

class OnCluster {
 public:
  OnCluster(const arch::Tables& tables, const ClusterJob& job, Extent extent)
      : tables_(tables),
        job_(job),
        extent_(extent),
        platform_(fabric::Platform::make(tables, job.machine,
                                         extent == Extent::kOneUnit ? 2 : checked(job).units,
                                         cluster_of(job, extent))) {
    if (is_by_instances()) instances_ = platform_.alike_instances();
    const int cores = platform_.cores() / platform_.units() / instances_;
    if (job.cores_per_rank < 1 || platform_.cores_per_chip() % job.cores_per_rank != 0)
      refuse(Rule::kRanks, "{} physical cores a rank, of the {} of a chip", job.cores_per_rank,
             platform_.cores_per_chip());
    for (int core = 0; core < cores; core += job.cores_per_rank) {
      auto& own = unit_cores_.emplace_back();
      for (int i = 0; i < job.cores_per_rank; ++i) own.push_back(core + i);
    }
  }

  ClusterSummary run() {
    if (extent_ == Extent::kOneUnit) {
      if (auto of_rank = run_of_rank()) return *of_rank;
      if (auto of_part = run_of_part()) return *of_part;
    }
    const SymmetricPlan plan = make_plan(false);
    const bool direct = job_.kind == Kind::kAllToAll;
    const Costs costs = costs_of(tables_, platform_.generation(), direct ? "all_to_all" : "hier");
    ClusterSummary out = summary_of(plan, direct ? "mesh" : "hier");
    collectives::Run run{&plan.unit, costs, {}, {}, 0};
    const auto away = away_of(plan);
    if (extent_ == Extent::kOneUnit) {
      run.cores = unit_cores_;
      run.away = &away;
      run.instances = instances_;
      if (!plan.alike.empty()) run.alike = &plan.alike;
    } else {
      run.cores = all_cores(plan);
      run.all_units = &plan;
    }
    const ClusterTime timing =
        cluster_time(platform_, run, extent_ == Extent::kAllSteps ? Folding::kNone : Folding::kByClasses);
    out.steps = extent_ == Extent::kOneUnit ? steps_of(plan) * units() : timing.steps;
    summarise(plan.request, timing, out);
    return out;
  }

 private:
  // Where one rank stands for all of its unit.
  std::optional<ClusterSummary> run_of_rank() {
    if (job_.kind == Kind::kAllToAll || !has_alike_ranks(hierarchy(), layout_of(platform_, unit_cores_)))
      return std::nullopt;
    const SymmetricPlan plan = make_plan(true);
    collectives::Run run{&plan.unit, costs_of(tables_, platform_.generation(), "hier"), unit_cores_, {}, 0};
    const auto away = away_of(plan);
    run.away = &away;
    run.instances = instances_;
    run.alike_ranks = &plan;
    const auto timing = cluster_time_of_rank(platform_, run);
    if (!timing) return std::nullopt;
    ClusterSummary out = summary_of(plan, "hier");
    out.steps = timing->steps * plan.request.ranks;
    summarise(plan.request, *timing, out);
    return out;
  }

  // Where one part of an all-reduce's pipeline stands for all.
  std::optional<ClusterSummary> run_of_part() {
    if (job_.kind != Kind::kAllReduce || job_.pipeline < 2) return std::nullopt;
    const int parts = job_.pipeline;
    SymmetricPlan plan = make_plan(false, parts);
    collectives::Run run{&plan.unit, costs_of(tables_, platform_.generation(), "hier"), unit_cores_, {}, 0};
    const auto away = away_of(plan);
    run.away = &away;
    run.instances = instances_;
    const auto timing = cluster_time_of_parts(platform_, run, plan, parts);
    if (!timing) return std::nullopt;
    ClusterSummary out = summary_of(plan, "hier");
    out.steps = steps_of(plan) * parts * units();
    plan.request.bytes *= parts;
    summarise(plan.request, *timing, out);
    return out;
  }

  static ClusterSummary summary_of(const SymmetricPlan& plan, const char* algorithm) {
    ClusterSummary out;
    out.ranks = plan.request.ranks;
    out.levels = plan.hierarchy.levels;
    out.within = plan.within;
    out.summary.algorithm = algorithm;
    return out;
  }

  static const ClusterJob& checked(const ClusterJob& job) {
    const int pod = job.cluster.pod_units;
    if (job.units < 2 || (pod > 0 && job.units % pod != 0))
      throw Fault(FaultKind::kInput, "fabric.cluster",
                  fmt::format("{} units{}", job.units, pod > 0 ? fmt::format(" in pods of {}", pod) : ""),
                  "two or more units, which the units of a pod divide");
    for (const fabric::Taken& taken : job.cluster.taken)
      if (taken.unit >= job.units)
        throw Fault(FaultKind::kInput, "fabric.cluster",
                    fmt::format("other jobs use links of unit {}, and there are {}", taken.unit, job.units),
                    fmt::format("units 0 to {}", job.units - 1));
    return job;
  }
  static fabric::Cluster cluster_of(const ClusterJob& job, Extent extent) {
    fabric::Cluster cluster = checked(job).cluster;
    if (extent == Extent::kOneUnit) {
      for (const fabric::Taken& taken : cluster.taken)
        if (taken.unit >= 0)
          throw Fault(FaultKind::kInput, "collectives.unlike_units",
                      fmt::format("unit {} differs from the others, so no unit stands for all", taken.unit),
                      "--all-units, which writes all of them out");
      cluster.one_in = std::max(1, cluster.pod_units);
    }
    return cluster;
  }

  // Of a unit.
  static int64_t steps_of(const SymmetricPlan& plan) {
    if (plan.alike.empty()) return static_cast<int64_t>(plan.unit.step_count());
    int64_t steps = 0;
    for (const auto& list : plan.alike) steps = std::accumulate(list.begin(), list.end(), steps);
    return steps;
  }

  // An UltraServer's instances exchange as levels of their own, so that one instance stands for all: by
  // exclusive or of their numbers, with their neighbours on the ring of cables.
  bool is_by_instances() const {
    return job_.kind != Kind::kAllToAll && job_.within.empty() &&
           !is_for_mesh(tables_, platform_.generation(), job_.bytes);
  }
  std::vector<Level> levels_of_instances() const {
    std::vector<Level> levels;
    if (instances_ > 1) levels.push_back({2, "ring", false, 1});
    if (instances_ > 2) levels.push_back({2, "ring", false, 3});
    return levels;
  }
  int units() const { return job_.units * instances_; }

  Hierarchy hierarchy() const {
    const bool mesh = is_for_mesh(tables_, platform_.generation(), job_.bytes);
    Hierarchy hierarchy;
    hierarchy.pipeline = job_.kind == Kind::kAllReduce ? job_.pipeline : 1;
    hierarchy.within = job_.within.empty() && mesh ? "mesh" : job_.within;
    hierarchy.levels = job_.levels.empty() ? levels_by_default(job_.units, job_.cluster.pod_units, mesh)
                                           : levels_of(job_.levels, job_.units, job_.cluster.pod_units);
    const std::vector<Level> first = levels_of_instances();
    hierarchy.levels.insert(hierarchy.levels.begin(), first.begin(), first.end());
    return hierarchy;
  }

  // `part_of`: of one of as many parts of the message.
  SymmetricPlan make_plan(bool of_one_rank, int part_of = 1) const {
    const int per_unit = static_cast<int>(unit_cores_.size());
    Request request{.kind = job_.kind, .ranks = per_unit * units(), .bytes = job_.bytes, .dtype = job_.dtype};
    Hierarchy hierarchy = this->hierarchy();
    if (job_.kind == Kind::kAllGather) request.bytes = (job_.bytes + request.ranks - 1) / request.ranks;
    request.bytes = symmetric_bytes(hierarchy, job_.kind, request.bytes, job_.dtype, per_unit);
    check(request);
    if (part_of > 1) {
      request.bytes /= part_of;
      hierarchy.pipeline = 1;
    }
    if (job_.kind == Kind::kAllToAll) {
      const int64_t steps = int64_t{request.ranks} * request.ranks;
      if (extent_ != Extent::kOneUnit && steps > kClusterStepsMax)
        refuse(Rule::kRanks, "all_to_all of {} ranks has {} steps; {} can be written out", request.ranks,
               steps, kClusterStepsMax);
      return symmetric_all_to_all(request, hierarchy, per_unit,
                                  extent_ == Extent::kOneUnit ? Written::kAlike : Written::kAll);
    }
    const Layout layout = layout_of(platform_, unit_cores_);
    return of_one_rank ? symmetric_plan_of_rank(request, hierarchy, layout)
                       : symmetric_plan(request, hierarchy, layout);
  }

  // Units are numbered with the coordinate of the first level first, machines pod by pod.
  RankCores all_cores(const SymmetricPlan& plan) const {
    const int machines = job_.units, in_pod = job_.cluster.pod_units > 0 ? job_.cluster.pod_units : machines;
    const int pods = machines / in_pod, cores = platform_.cores() / plan.units();
    const std::vector<int> instance = plan.exchanging_instances();
    RankCores out;
    for (int unit = 0; unit < plan.units(); ++unit)
      for (const auto& own : unit_cores_) {
        const int machine = unit % machines;
        const int at = machine % pods * in_pod + machine / pods;
        auto& moved = out.emplace_back(own);
        for (int& core : moved) core += (at * instances_ + instance[static_cast<size_t>(unit)]) * cores;
      }
    return out;
  }

  void summarise(const Request& request, const ClusterTime& timing, ClusterSummary& out) const {
    out.written = timing.steps;
    out.classes = timing.classes;
    out.end_ps = timing.end_ps;
    Summary& summary = out.summary;
    summary.bytes = request.bytes * (request.kind == Kind::kAllGather ? request.ranks : 1);
    summary.us = static_cast<double>(out.end_ps) / kPsPerUs;
    summary.algorithm_gb_s = static_cast<double>(summary.bytes) / (summary.us * kBytesPerUsOfGb);
    summary.bus_gb_s = summary.algorithm_gb_s * bus_factor(request.kind, request.ranks);
    find_busiest(platform_, timing.carried, out.end_ps, summary);
  }

  const arch::Tables& tables_;
  const ClusterJob& job_;
  Extent extent_;
  fabric::Platform platform_;
  int instances_ = 1;  // of a machine, each of which is a unit of the plan
  RankCores unit_cores_;
};

}  // namespace

ClusterSummary cluster_summary(const arch::Tables& tables, const ClusterJob& job, Extent extent) {
  return OnCluster(tables, job, extent).run();
}

}  // namespace opentrn::collectives
