// The step of a job on a cluster whose units (instances, UltraServers) all do the same: compute and the
// collectives of its axes (tensor, data, pipeline, expert), on one clock and over shared links. One unit
// stands for all, exactly, as in cluster.h.
//
// Assumed:
//  - All ranks of a unit take the same time to compute, and begin a step when all of the unit have ended the
//    steps before it. Units are alike, so this holds between them too.
//  - A pipeline is a ring: the last stage sends to the first, as in interleaved schedules. A user who wants
//    the bubble of a pipeline without it writes the slots of the bubble as repeats.
//  - Compute takes HBM bandwidth after collectives have had theirs.
//  - Collectives that run beside others steps go one after the other, in the order given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/cluster.h"

namespace opentrn::collectives {

// Ranks are numbered by axes, the first one fastest: it fills a chip, then a unit, then other units.
struct Axis {
  std::string name;
  int size = 1;
};

// Computes, runs a collective, waits, or is a list of steps that is repeated; exactly one of them.
struct TrainingStep {
  std::string name;        // "": what it does
  int64_t compute_ps = 0;  // > 0: computes
  int64_t hbm_bytes = 0;   // that a rank reads and writes while it computes
  // A collective among the ranks that differ in these axes only. kPermute: each sends to the next one of its
  // axis, the last to the first. `bytes`: as SizedJob::bytes, for kPermute what a rank sends.
  std::optional<Kind> kind;
  std::vector<std::string> over;
  int64_t bytes = 0;
  bool beside = false;  // the steps after it do not wait for it
  bool waits = false;   // for all that run beside
  int64_t repeat = 1;
  std::vector<TrainingStep> steps;
};

// Ends when all of its steps have ended; blocks follow each other.
struct TrainingBlock {
  std::string name;
  int64_t repeat = 1;
  std::vector<TrainingStep> steps = {};
};

struct TrainingJob {
  std::string machine;
  int units = 1;
  int cores_per_rank = 1;
  fabric::Cluster cluster;
  DType dtype = DType::kBFloat16;
  std::vector<Axis> axes;
  std::vector<TrainingBlock> blocks;
};

struct BlockTime {
  std::string name;
  int64_t repeat = 1;
  int64_t ps = 0, compute_ps = 0;  // of one run; `compute_ps`: had nothing else taken HBM bandwidth
  int64_t collectives_ps = 0;      // at least one was under way
  int64_t exposed_ps = 0;          // ... and nothing computed
  int64_t end_ps() const { return ps * repeat; }
};

// All runs of one collective.
struct CollectiveUse {
  std::string name, over;
  int ranks = 0;  // of a group
  std::string algorithm, why;
  int64_t bytes = 0;     // rounded up to equal parts
  int64_t count = 0;     // in the job
  int64_t alone_ps = 0;  // with nothing else on the links
  double mean_ps = 0;
  int64_t exposed_ps = 0;  // in all, with no compute beside
};

struct TrainingTime {
  int ranks = 0;
  std::vector<BlockTime> blocks;
  std::vector<CollectiveUse> collectives;
  int64_t end_ps = 0, compute_ps = 0, exposed_ps = 0;
  int64_t written = 0, classes = 0;  // steps of collectives that were written, and those simulated for them
  int units_written = 0;             // 1: it stands for all
};

// Ranks of jobs whose units are not alike: what is written out and folded in seconds.
inline constexpr int64_t kRanksWrittenOut = 8192;

// An input fault for axes that are not those of the cluster, and steps that are none. kAllUnits and kAllSteps
// write out all units: the reference. kOneUnit does so too where units are not alike, and folds what is equal
// among them: groups that lie unevenly on units or pods, a pod that is not full, links of one unit that
// others use; on kRanksWrittenOut ranks at most.
TrainingTime training_time(const arch::Tables& tables, const TrainingJob& job, Extent extent);

}  // namespace opentrn::collectives
