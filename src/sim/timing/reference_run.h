// The slow, obvious timing model, for tests: the same rules as core_run.cc, written as plainly as possible.
//
// One core, no loops, no trace. At every step all instructions not yet started are looked at, the one that
// can start first is started, and maps remember what everybody holds. Quadratic; a few thousand
// instructions at most. Costs of single instructions come from the same tables.
#pragma once

#include "sim/timing/simulate.h"

namespace opentrn::sim::timing {

struct ReferenceTimes {
  double total_ns = 0;
  std::vector<double> start_ns, end_ns;  // by schedule index
};

ReferenceTimes reference_run(const isa::Executable& executable, const arch::TimingTable& table);

}  // namespace opentrn::sim::timing
