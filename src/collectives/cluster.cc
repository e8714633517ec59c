#include "collectives/cluster.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "collectives/rules.h"

namespace opentrn::collectives {

namespace {

constexpr double kPsPerUs = 1e6, kBytesPerUsOfGb = 1e3;

std::string collective_key(Generation generation, const char* name) {
  return fmt::format("collective.{}.{}",
                     generation == Generation::kV2   ? "trn1"
                     : generation == Generation::kV3 ? "trn2"
                                                     : "trn3",
                     name);
}

// Up to which message a mesh is taken, as choose() does.
bool is_for_mesh(const arch::Tables& tables, Generation generation, int64_t message, int ranks) {
  const auto fact = [&](const char* name) {
    return tables.facts().optional_spec<int64_t>(collective_key(generation, name));
  };
  if (const auto each = fact("mesh_bytes_max_per_rank"); each.known()) return message <= each.value() * ranks;
  const auto all = fact("mesh_bytes_max");
  return all.known() && message <= all.value();
}

void add_levels(std::vector<Level>& levels, const std::string& name, int size, bool between_pods) {
  if (size == 1) return;
  if (name != "rdh") {
    levels.push_back({size, name, between_pods});
    return;
  }
  if (!std::has_single_bit(static_cast<unsigned>(size)))
    refuse(Rule::kAlgorithm, "rdh on {} units, which are no power of two", size);
  for (; size > 1; size /= 2) levels.push_back({2, "ring", between_pods});
}

// AWS documents rdh for 2^n units, else a ring, and mesh for small messages, and no level above that. A ring
// of thousands, or a mesh, would take one step after the other for each of them, so that more than this many
// units become several levels [assumed].
constexpr int kOneLevelMax = 16;

// The size of the next level of `units`: all of them where they are few or, for rdh, 2^n; else their power of
// two, then the largest divisor of few, then the least one.
int level_of(int units, bool mesh) {
  if (units <= kOneLevelMax) return units;
  const int even = units & -units;
  if (!mesh && even > 1) return even;
  for (int size = kOneLevelMax; size > 1; --size)
    if (units % size == 0) return size;
  int size = kOneLevelMax + 1;
  while (units % size != 0) ++size;
  return size;
}

std::vector<Level> levels_by_default(int units, int pod_units, bool mesh) {
  std::vector<Level> levels;
  const int inner = pod_units > 0 ? pod_units : units;
  for (const auto& [all, between] : {std::pair(inner, false), {units / inner, true}})
    for (int left = all; left > 1;) {
      const int size = level_of(left, mesh);
      const bool halves = std::has_single_bit(static_cast<unsigned>(size));
      add_levels(levels, mesh ? "mesh" : halves ? "rdh" : "ring", size, between);
      left /= size;
    }
  return levels;
}

std::vector<Level> levels_of(const std::string& text, int units, int pod_units) {
  std::vector<Level> levels;
  int64_t product = 1;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string one = text.substr(at, comma - at);
    const size_t colon = one.find(':');
    int size = 0;
    const char* end = one.data() + one.size();
    if (colon == std::string::npos || std::from_chars(one.data() + colon + 1, end, size).ptr != end ||
        size < 2)
      refuse(Rule::kAlgorithm, "'{}' is no level; write ring:49", one);
    const bool between = pod_units > 0 && product >= pod_units;
    if (pod_units > 0 && !between && pod_units % (product * size) != 0)
      refuse(Rule::kAlgorithm, "levels '{}' do not end at the {} units of a pod", text, pod_units);
    add_levels(levels, one.substr(0, colon), size, between);
    product *= size;
    if (product > units) break;
    at = comma + 1;
  }
  if (product != units) refuse(Rule::kAlgorithm, "levels '{}' are not those of {} units", text, units);
  return levels;
}

class OnCluster {
 public:
  OnCluster(const arch::Tables& tables, const ClusterJob& job, Extent extent)
      : tables_(tables),
        job_(job),
        extent_(extent),
        platform_(fabric::Platform::make(tables, job.machine,
                                         extent == Extent::kOneUnit ? 2 : checked(job).units,
                                         cluster_of(job, extent))) {
    const int cores = platform_.cores() / platform_.units();
    if (job.cores_per_rank < 1 || platform_.cores_per_chip() % job.cores_per_rank != 0)
      refuse(Rule::kRanks, "{} physical cores a rank, of the {} of a chip", job.cores_per_rank,
             platform_.cores_per_chip());
    for (int core = 0; core < cores; core += job.cores_per_rank) {
      auto& own = unit_cores_.emplace_back();
      for (int i = 0; i < job.cores_per_rank; ++i) own.push_back(core + i);
    }
  }

  ClusterSummary run() {
    const SymmetricPlan plan = make_plan();
    const Costs costs = costs_of(tables_, platform_.generation(), "hier");
    ClusterSummary out;
    out.ranks = plan.request.ranks;
    out.levels = plan.hierarchy.levels;
    out.within = plan.within;
    Timing timing;
    if (extent_ == Extent::kOneUnit) {
      const auto away = away_of(plan);
      collectives::Run run{&plan.unit, costs, unit_cores_, {}, 0};
      run.away = &away;
      timing = time_of(platform_, std::span(&run, 1));
      out.steps = timing.steps * job_.units;
    } else {
      const Plan whole = expanded(plan);
      const collectives::Run run{&whole, costs, all_cores(plan), {}, 0};
      timing = time_of(platform_, std::span(&run, 1),
                       extent_ == Extent::kAllUnits ? Folding::kByClasses : Folding::kNone);
      out.steps = timing.steps;
    }
    out.written = timing.steps;
    out.classes = timing.classes;
    out.end_ps = timing.end_ps();
    summarise(plan.request, timing, out);
    return out;
  }

 private:
  static const ClusterJob& checked(const ClusterJob& job) {
    const int pod = job.cluster.pod_units;
    if (job.units < 2 || (pod > 0 && job.units % pod != 0))
      throw Fault(FaultKind::kInput, "fabric.cluster",
                  fmt::format("{} units{}", job.units, pod > 0 ? fmt::format(" in pods of {}", pod) : ""),
                  "two or more units, which the units of a pod divide");
    return job;
  }
  static fabric::Cluster cluster_of(const ClusterJob& job, Extent extent) {
    fabric::Cluster cluster = checked(job).cluster;
    if (extent == Extent::kOneUnit) {
      for (const fabric::Taken& taken : cluster.taken)
        if (taken.unit >= 0)
          throw Fault(FaultKind::kInput, "collectives.unlike_units",
                      fmt::format("unit {} differs from the others, so no unit stands for all", taken.unit),
                      "try: --all-units, which writes all of them out");
      cluster.one_in = std::max(1, cluster.pod_units);
    }
    return cluster;
  }

  SymmetricPlan make_plan() {
    const int per_unit = static_cast<int>(unit_cores_.size());
    Request request{
        .kind = job_.kind, .ranks = per_unit * job_.units, .bytes = job_.bytes, .dtype = job_.dtype};
    const bool mesh = is_for_mesh(tables_, platform_.generation(), job_.bytes, request.ranks);
    Hierarchy hierarchy;
    hierarchy.pipeline = job_.kind == Kind::kAllReduce ? job_.pipeline : 1;
    hierarchy.within = job_.within.empty() && mesh ? "mesh" : job_.within;
    hierarchy.levels = job_.levels.empty() ? levels_by_default(job_.units, job_.cluster.pod_units, mesh)
                                           : levels_of(job_.levels, job_.units, job_.cluster.pod_units);
    if (job_.kind == Kind::kAllGather) request.bytes = (job_.bytes + request.ranks - 1) / request.ranks;
    request.bytes = symmetric_bytes(hierarchy, job_.kind, request.bytes, job_.dtype, per_unit);
    check(request);
    return symmetric_plan(request, hierarchy, layout_of(platform_, unit_cores_));
  }

  static std::vector<std::vector<Away>> away_of(const SymmetricPlan& plan) {
    std::vector<std::vector<Away>> away;
    for (const auto& list : plan.toward) {
      auto& own = away.emplace_back();
      for (const int32_t toward : list)
        own.push_back(toward == 0               ? Away::kHere
                      : plan.leaves_pod(toward) ? Away::kOtherPod
                                                : Away::kOtherUnit);
    }
    return away;
  }

  // Units are numbered with the coordinate of the first level first, machines pod by pod.
  RankCores all_cores(const SymmetricPlan& plan) const {
    const int units = plan.units(), in_pod = job_.cluster.pod_units > 0 ? job_.cluster.pod_units : units;
    const int pods = units / in_pod, cores = platform_.cores() / units;
    RankCores out;
    for (const auto& own : unit_cores_)
      for (int unit = 0; unit < units; ++unit) {
        const int at = unit % pods * in_pod + unit / pods;
        auto& moved = out.emplace_back(own);
        for (int& core : moved) core += at * cores;
      }
    return out;
  }

  void summarise(const Request& request, const Timing& timing, ClusterSummary& out) const {
    Summary& summary = out.summary;
    summary.bytes = request.bytes * (request.kind == Kind::kAllGather ? request.ranks : 1);
    summary.us = static_cast<double>(out.end_ps) / kPsPerUs;
    summary.algorithm = "hier";
    summary.algorithm_gb_s = static_cast<double>(summary.bytes) / (summary.us * kBytesPerUsOfGb);
    summary.bus_gb_s = summary.algorithm_gb_s * bus_factor(request.kind, request.ranks);
    find_busiest(platform_, timing.carried, out.end_ps, summary);
  }

  const arch::Tables& tables_;
  const ClusterJob& job_;
  Extent extent_;
  fabric::Platform platform_;
  RankCores unit_cores_;
};

}  // namespace

ClusterSummary cluster_summary(const arch::Tables& tables, const ClusterJob& job, Extent extent) {
  return OnCluster(tables, job, extent).run();
}

}  // namespace opentrn::collectives
