// When the steps of plans start and end on a fabric: the time of a collective, of several at once, and what
// each link carried meanwhile.
//
// A step costs its CC-core a while to start, then its first byte the latency of the path, then its bytes what
// max-min sharing of the links leaves it. The peer's buffer must be there: nothing is written to a rank
// before that rank has arrived at the collective.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arch/tables.h"
#include "collectives/plan.h"
#include "collectives/symmetric.h"
#include "collectives/timing_graph.h"
#include "fabric/platform.h"

namespace opentrn::collectives {

// Of the table [collective_time] of a generation.
struct Costs {
  int64_t step_ps = 0;  // from a step's being allowed to start to its first byte
  // Of parts that lie in the rank's own HBM. 0: as fast as they arrive, in algorithms that pass packets on.
  int64_t local_reduction_bytes_per_s = 0;
  double reduction_factor = 1;      // how much longer than a copy a reducing transfer takes
  int64_t channel_bytes_per_s = 0;  // of one channel of this algorithm; 0: as the links allow
  // DMA engines read a packet, then write it: what a rank has moved is there one packet later. 0: not
  // modelled, for algorithms whose steps pass packets on.
  int64_t packet_bytes = 0;
  int64_t start_ps = 0;  // from a rank's arrival until others may write to it
};
// A fault of what is not modelled where nothing is known of the generation.
Costs costs_of(const arch::Tables& tables, Generation generation, const std::string& algorithm);

// How far a step goes in a plan of one unit (symmetric.h): within it, to another unit of the pod, to another
// pod; where the unit is an instance of an UltraServer, to the instance of it whose number differs by
// exclusive or with 1, 2 or 3.
enum class Away : uint8_t { kHere, kOtherUnit, kOtherPod, kInstance1, kInstance2, kInstance3 };
std::vector<std::vector<Away>> away_of(const SymmetricPlan& plan);

// A plan on cores of a platform.
struct Run {
  const Plan* plan = nullptr;
  Costs costs;
  // The physical cores of each rank: one, or two where a logical core has two.
  std::vector<std::vector<int>> cores;
  std::vector<int64_t> arrivals_ps;  // of each rank; empty: all at 0
  int priority = 0;                  // 0 goes first
  // [rank][step]; null: all here. The platform has two units, and in a cluster with pods two pods: the links
  // of the first unit stand for those of all.
  const std::vector<std::vector<Away>>* away = nullptr;
  int instances = 1;  // of a unit of the platform, all of which `away` steps of the first one stand for
  // [rank][step]: how many steps of the rank that are alike each stands for; null: one.
  const std::vector<std::vector<int32_t>>* alike = nullptr;
  // `plan` is that of one unit of this, and the run is that of all units: `cores` has those of the ranks of
  // the first unit, then of the second. Without arrivals, `away` and `alike`; only for cluster_time().
  const SymmetricPlan* all_units = nullptr;
  // `plan` is that of one rank of each unit of this (SymmetricPlan::ranks_alike), and `cores` has those of
  // all ranks of a unit. With `away`, without arrivals and `alike`; only for cluster_time_of_rank().
  const SymmetricPlan* alike_ranks = nullptr;
};

struct RunTime {
  std::vector<int64_t> ends_ps;              // of each rank: its last step, and the last that writes to it
  std::vector<std::vector<StepTime>> steps;  // as the plan has them
  int64_t end_ps() const;
};

// Of a run whose steps are the first of these, as timing_graph() numbers them.
RunTime run_time(const Run& run, std::span<const StepTime> steps);

struct Timing {
  std::vector<RunTime> runs;
  std::vector<int64_t> carried;    // bytes over each link of the platform
  int64_t steps = 0, classes = 0;  // of the runs; those that were simulated for them
  int64_t end_ps() const;
};

// Steps that symmetry makes equal are simulated once (classes_of()), or, as the reference of that, each.
enum class Folding : uint8_t { kByClasses, kNone };

// All runs on one fabric, sharing its links. A program fault where a plan cannot end (a link is down, a
// circle of waits).
Timing time_of(const fabric::Platform& platform, std::span<const Run> runs,
               Folding folding = Folding::kByClasses);

// Of all ranks of a cluster together.
struct ClusterTime {
  int64_t end_ps = 0;
  std::vector<int64_t> carried;
  int64_t steps = 0, classes = 0;
};
// The same as time_of() of the plan written out, without writing it: 7.8 million steps of 100,352 ranks fit
// in a few gigabytes.
ClusterTime cluster_time(const fabric::Platform& platform, const Run& run, Folding folding);

// The same as cluster_time() of the plan of all ranks of a unit, without writing it; `steps` are those of the
// one rank. Nothing where no classes of ranks are found, which hashes may miss.
std::optional<ClusterTime> cluster_time_of_rank(const fabric::Platform& platform, const Run& run);

// The same as cluster_time() of the plan of an all-reduce in `parts` parts; `run` and `part` are of one, and
// `steps` are those of one. Nothing where one part cannot stand for all of them (pipeline.h).
std::optional<ClusterTime> cluster_time_of_parts(const fabric::Platform& platform, const Run& run,
                                                 const SymmetricPlan& part, int parts);

// The same as a graph: its steps are those of the runs, rank after rank.
TimingGraph timing_graph(const fabric::Platform& platform, std::span<const Run> runs);

}  // namespace opentrn::collectives
