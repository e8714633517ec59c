// A collective on all ranks of a machine, in the terms of nccom-test: size, time, bandwidths, and what bounds
// it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/predict.h"

namespace opentrn::collectives {

// What `busbw` is of `algbw`: traffic of a rank over the size.
double bus_factor(Kind kind, int ranks);

struct SizedJob {
  Kind kind = Kind::kAllReduce;
  DType dtype = DType::kUint8;
  int64_t bytes = 0;      // of the input; of the output of all-gather. Rounded up to what divides
  int group = 0;          // ranks; the groups, of neighbours, run at once. 0: all ranks
  std::string algorithm;  // empty: as the runtime chooses
};

struct Summary {
  int64_t bytes = 0;
  double us = 0, algorithm_gb_s = 0, bus_gb_s = 0;
  std::string algorithm, why;
  // The class of the busiest link ("NeuronLink"), and the part of the time that its bytes alone take.
  std::string busiest;
  double busiest_share = 0;
};

// Fills in the busiest link, of what each link of the platform has carried.
void find_busiest(const fabric::Platform& platform, std::span<const int64_t> carried, int64_t end_ps,
                  Summary& summary);

// One job for each group of neighbours. An input fault where the ranks do not divide into groups, or the kind
// is none of all-reduce, all-gather, reduce-scatter and all-to-all.
std::vector<Job> jobs_of(const RankCores& ranks, const SizedJob& job);
// Of what predict() said of these jobs.
Summary summary_of(const fabric::Platform& platform, std::span<const Job> jobs, const Predictions& predicted);
// Both, and predict() between them.
Summary summary_of(const arch::Tables& tables, const fabric::Platform& platform, const RankCores& ranks,
                   const SizedJob& job);

}  // namespace opentrn::collectives
