// Jobs of random layouts, also of those whose groups lie unevenly on units and pods, and what a folded one is
// compared by.
#pragma once

#include <string>
#include <vector>

#include "base/random.h"
#include "collectives/training.h"

namespace opentrn::collectives {

// Of a machine with so many ranks in all, at least and at most: every factorization of them into tensor,
// context, expert, data and pipeline parallelism may be drawn, with a step whose collectives go over each.
TrainingJob random_job(SplitMix64& random, int least, int most);
// Every layout of tp, pp and dp on each machine, by 1, 2, 3, 4, 6, 8 ... of it with at most so many ranks;
// every third of several machines in pods.
std::vector<TrainingJob> every_job(int most);
// "trn1.32xlarge x 3, 32 ranks each, pods of 2: tp 3, dp 32".
std::string text_of(const TrainingJob& job);
// "": the same to the picosecond.
std::string difference(const TrainingTime& folded, const TrainingTime& written);

}  // namespace opentrn::collectives
