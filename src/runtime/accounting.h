// What this process tells the tools of its executions (device/presence.h): models, outcomes, predicted times.
#pragma once

#include <cstdint>

#include "base/fault.h"
#include "runtime/model.h"
#include "runtime/settings.h"

namespace opentrn::runtime {

// From here on tools list this process with the cores of its settings; of its environment where a model is
// executed before. An environment that names no cores lists nothing: whoever reads it says what is wrong.
void hold_cores(const Settings& settings);

// One execution, from where it is made to its end. Counts for the current core (device::CoreScope).
class Accounted {
 public:
  explicit Accounted(const Model& model);
  // The values are there. `trips`: how often loops ran. Where a monitor asks for predicted times, the first
  // run of a program waits for its own.
  void completed(const LoopTrips& trips);
  // Not for interrupts, which are no outcome of the device's.
  void failed(FaultKind kind);

 private:
  const Model& model_;
  uint64_t begin_ns_;
};

}  // namespace opentrn::runtime
