// A collective on all ranks of a cluster: one unit stands for all where they are alike, and what that is
// checked against.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/summary.h"
#include "collectives/symmetric.h"

namespace opentrn::collectives {

struct ClusterJob {
  std::string machine;  // an instance or an UltraServer: the unit
  int units = 2;
  int cores_per_rank = 1;
  fabric::Cluster cluster;
  Kind kind = Kind::kAllReduce;
  DType dtype = DType::kBFloat16;
  int64_t bytes = 0;  // as SizedJob::bytes; rounded up to what makes equal parts for all ranks
  // "mesh", "ring", "rdh", "kangaring" within a unit; "": by the table's thresholds, and within each instance
  // of an UltraServer, whose instances then exchange by halves [assumed].
  std::string within;
  // Levels between units, "rdh:32,ring:49": ring, mesh, or rdh (2^n units, by halves), units of each, those
  // of a pod first. "": those of a pod, then those between pods, each rdh where it is 2^n, else a ring, and
  // mesh for small messages; more than 16 that are not 2^n are several levels: 6,272 are
  // rdh:128,ring:7,ring:7.
  std::string levels;
  int pipeline = 3;
};

enum class Extent : uint8_t {
  kOneUnit,   // that stands for all: links of all units are alike
  kAllUnits,  // written out; what is equal is found by classes_of()
  kAllSteps,  // written out, and each step simulated: the reference
};

struct ClusterSummary {
  Summary summary;
  int64_t end_ps = 0;
  int ranks = 0;
  std::vector<Level> levels;
  std::string within;
  int64_t steps = 0;    // of all ranks
  int64_t written = 0;  // of the ranks that were written out
  int64_t classes = 0;  // that were simulated
};

// An input fault for a cluster, a hierarchy or a size that is none, and for links of one unit that differ
// from the others' where one unit is to stand for all.
ClusterSummary cluster_summary(const arch::Tables& tables, const ClusterJob& job, Extent extent);

}  // namespace opentrn::collectives
