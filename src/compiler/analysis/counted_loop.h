// Whiles that count: i < n, i + step, as JAX's fori_loop and scan make them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/module.h"

namespace opentrn::compiler {

// The function's whiles, in the order of a walk, those in regions included.
std::vector<graph::OpId> loops_of(const graph::Function& function);

struct CountedLoop {
  size_t slot;           // of the operands: the counter
  graph::ValueId bound;  // that the counter stays below; not made in the loop's regions, or a constant
  int64_t step;          // at least 1
};

// nullopt for a while that does not count, or not in whole numbers of 32 or 64 bits.
std::optional<CountedLoop> counted_loop(const graph::Function& function, const graph::Op& loop);

// How often the body runs, where that does not depend on values.
std::optional<int64_t> constant_trips(const graph::Function& function, const graph::Op& loop);

}  // namespace opentrn::compiler
