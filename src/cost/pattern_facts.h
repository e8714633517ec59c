// What the cost rules need to know of an access pattern; computed once per interned pattern.
#pragma once

#include <cstdint>
#include <vector>

#include "isa/program.h"

namespace opentrn::cost {

struct PatternFacts {
  int64_t elements = 1;       // in all
  int64_t per_partition = 1;  // dims[1..], what an engine streams of an on-chip operand
  int64_t rows = 1;           // dims[0]
  int64_t inner_step = 1;     // of the innermost dimension that moves, elements; 0: one element
  int64_t run_on_chip = 1;    // contiguous elements within a partition
  int64_t run_flat = 1;       // contiguous elements in a flat memory
  int64_t row_step = 0;       // dims[0].step
};

PatternFacts facts_of(const isa::Pattern& pattern);
std::vector<PatternFacts> all_pattern_facts(const isa::Program& program);

}  // namespace opentrn::cost
