// All legal layouts of a job on a machine, and the best of them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/step.h"

namespace opentrn::planner {

// Degrees that the user has settled; the others are searched.
struct Fixed {
  std::optional<int> tp, cp, pp, vpp, ep, dp, zero, micro_batch;
  std::optional<bool> sp;
  bool offload = false;  // optimizer states in the host's memory
  std::optional<Recompute> recompute;
  std::optional<int> recompute_layers;  // of a chunk, the blocks that run forward again
  std::vector<Schedule> schedules;      // of pipelines; empty: 1F1B and its interleaved form
};

struct SearchOptions {
  Fixed fixed;
  size_t top = 10;  // plans to keep, by step time
  bool cut = true;  // leave out what cannot be among the results; false: evaluate everything
};

struct SearchResult {
  std::vector<Estimate> best;       // that fit, fastest first; ties by memory, then by layout
  std::vector<Estimate> front;      // that fit and that no other beats in both time and memory, fastest first
  std::optional<Estimate> nearest;  // of those that do not fit, the one that misses by least
  int64_t legal = 0;                // layouts that the rules allow
  int64_t evaluated = 0;            // of them, by a full evaluation
};

// Deterministic. `best` and `front` are the same with and without cuts.
SearchResult search(const Job& job, const Machine& machine, const Stack& stack, const SearchOptions& options);

// Calls `take` for every legal layout, in the order of the search.
void for_each_layout(const Job& job, const Machine& machine, const Stack& stack, const Fixed& fixed,
                     const std::function<void(const Layout&)>& take);

// What is fixed of a pipeline that these degrees leave out; empty where all of it has a meaning.
std::string unused_because(const Fixed& fixed);

// Why no layout with these degrees is legal, where one of them says so; else empty.
std::string none_legal_because(const Job& job, const Machine& machine, const Fixed& fixed);

// A time that no layout with these degrees goes below: its products at the chip's best rate, and its bubble.
double least_step_s(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout);

}  // namespace opentrn::planner
