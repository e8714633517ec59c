// The time of a compiled model on one core, by the timing model.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "isa/executable.h"
#include "runtime/model.h"
#include "sim/timing/simulate.h"
#include "trace/trace.h"

namespace opentrn::runtime {

// Trips of the loops of a program as executed, by the loops of the program as compiled: passes of the backend
// move and add instructions, never loops.
std::map<isa::InstructionIndex, std::vector<std::pair<int64_t, int64_t>>> observed_trips(
    const LoopTrips& trips, const isa::Program& executed, const isa::Program& compiled);

// `trips`: of the run that is asked about; a kInput fault names a loop whose trips depend on values and are
// not there. `sink` takes every event, where it is not null.
trace::Summary timed(const Model& model, const LoopTrips& trips, trace::TraceSink* sink = nullptr);

}  // namespace opentrn::runtime
