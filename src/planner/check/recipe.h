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

// Parts of it, for tests.
struct Degrees {
  std::optional<Schedule> schedule;  // other than 1F1B and its interleaved form
  double tp = 0, cp = 0, pp = 0, dp = 0, ep = 0, vpp = 0, zero = -1, micro_batch = 0, local_batch = 0,
         shard = 0;
  bool sp = false, no_sp = false, overlap = false, fsdp = false, interleaved = false;
  std::optional<Recompute> recompute;
  double model_parallel = 0;  // tp x pp, where only their product is stated
};
Degrees degrees_of(const std::string& text);
std::optional<Model> stated_model(const arch::Tables& tables, const std::string& text, double parameters);

}  // namespace opentrn::planner
