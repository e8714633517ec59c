// From a published row to the job, cluster, program and layout that it measured, or why there is none.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "arch/tables.h"
#include "planner/check/csv.h"
#include "planner/step.h"

namespace opentrn::planner {

enum class Metric : uint8_t { kStepTime, kPeakMemory, kActivationMemory, kFits, kScaling };

struct Recipe {
  Job job;
  Machine machine;
  Stack stack;
  Layout layout;
  Metric metric = Metric::kStepTime;
  double measured = 0;             // seconds, bytes, 0 or 1, or the ratio of two rates
  std::vector<Layout> candidates;  // where the row leaves something open: the planner takes the best of these
  std::vector<std::string> assumed;  // what the row does not say
};

struct Read {
  std::optional<Recipe> recipe;
  std::string reason;  // why there is none, in a few words that many rows share
};

Read recipe_of(const arch::Tables& tables, const Row& row);

// The model that a cell names, or describes by its dimensions; `parameters` of another cell, or 0. Of a dense
// decoder its size is enough: what was taken is added to `assumed`.
std::optional<Model> stated_model(const arch::Tables& tables, const std::string& text, double parameters,
                                  std::vector<std::string>* assumed = nullptr);

}  // namespace opentrn::planner
