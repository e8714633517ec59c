// Finalists of a search, with their layers' times from another source.
#pragma once

#include <string>
#include <vector>

#include "planner/layer_times.h"
#include "planner/search.h"

namespace opentrn::planner {

// A plan has moved where its step is further from the curves' than this share.
constexpr double kMovedBy = 0.10;
bool has_moved(const Estimate& plan);

struct Recost {
  size_t plans = 0;  // that have the source's times now
  size_t moved = 0;
  std::vector<std::string> refused;  // why others do not, each reason once
};

// Evaluates the first `most` of result.best again, and sorts result.best: plans with the source's times
// first, each group by its step. The scalars of the program that were fitted to kernels of others
// (Stack::compute_efficiency) are no part of these times; what it hides and waits for is. The front stays
// that of the curves.
Recost recost(const Job& job, const Machine& machine, const Stack& stack, size_t most, LayerSource& source,
              SearchResult& result);

}  // namespace opentrn::planner
