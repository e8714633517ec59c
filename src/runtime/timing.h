// The time of a compiled model on one logical core, by the timing model.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backend/pair.h"
#include "runtime/model.h"
#include "sim/timing/simulate.h"
#include "trace/trace.h"

namespace opentrn::runtime {

// Trips of the loops of a program as executed, by the loops of the program as compiled for the first core:
// passes of the backend move and add instructions, never loops.
std::map<isa::InstructionIndex, std::vector<std::pair<int64_t, int64_t>>> observed_trips(
    const LoopTrips& trips, const isa::Program& executed, const isa::Program& compiled);

// Events and critical path of a program's cores, timed on their own, by the program's own instructions; what
// was put in between has none, but its time on the critical path is that of the kernel beside it.
void merge(trace::Trace& trace, std::span<const backend::CorePart> parts);

// `trips`: of the run that is asked about; a kInput fault names a loop whose trips depend on values and are
// not there. A kernel on both cores of a logical one takes the time of both running at once.
trace::Summary timed(const Model& model, const LoopTrips& trips);
// With every event.
trace::Trace timeline(const Model& model, const LoopTrips& trips);

// When a run needs its inputs and has its outputs, from its start, in nanoseconds.
struct PortTimes {
  trace::Summary summary;
  // By input: the start of the first instruction that reads it; nullopt where none does.
  std::vector<std::optional<double>> first_read_ns;
  std::vector<double> last_read_ns;  // by input: the end of the last one; 0 where none does
  // By output: the end of the last instruction that writes it; 0 where none does.
  std::vector<double> last_write_ns;
};
// `copies`: so many cores of one HBM stack run the model from one moment on, each for itself; the times are
// those of the slowest of them, the summary's other numbers those of one alone. A model that has a kernel on
// two cores fills its stack itself.
PortTimes port_times(const Model& model, const LoopTrips& trips, int copies = 1);

}  // namespace opentrn::runtime
