// The collectives of a job (training.h) as steps over the links of one unit, or of all.
#pragma once

#include <map>
#include <vector>

#include "collectives/training.h"

namespace opentrn::collectives {

// What steps of a job are made of: a collective, or compute that takes HBM bandwidth.
struct TrainingKind {
  TrainingStep step;
  CollectiveUse use;
  std::vector<int32_t> steps;  // of the graph
};

struct TrainingPlans {
  std::vector<TrainingKind> kinds;
  TimingGraph graph;         // of all kinds; steps of a kind wait for steps of it only
  int ranks = 0, units = 0;  // units: that were written out
  int64_t written = 0;
};

// Steps with equal keys are of one kind.
std::string key_of(const TrainingStep& step);
// Collectives and compute of all blocks, once for each kind.
TrainingPlans training_plans(const arch::Tables& tables, const TrainingJob& job, Extent extent);

}  // namespace opentrn::collectives
