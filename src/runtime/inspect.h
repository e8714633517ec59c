// Profiles of a whole process, as NEURON_RT_INSPECT_* and nrt_inspect_* of AWS's runtime ask for them.
//
// What a process executes is written into FOLDER/INSTANCE_pid_PID when the inspection ends: the predicted
// timeline of each program's first execution (a trace in Chrome's JSON, named as AWS names its NTFF), and
// events, host memory and CPU time as JSON. AWS's own files are not documented; `neuron-explorer view -d`
// reads these.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "device/presence.h"
#include "runtime/model.h"

namespace opentrn::runtime {

struct InspectOptions {
  std::string folder = "./output";
  int session = 1;
  bool normal = true;    // of executions that succeed
  bool on_fail = false;  // the timeline of a program whose execution failed
  bool system_profile = true, device_profile = true, host_memory = true, cpu_util = true;
  std::set<uint32_t> cores;      // logical ones; empty: all
  std::set<std::string> events;  // of inspect_event_types()
  uint64_t events_max = 1'000'000;
};

// nc_exec_running, model_load, nrt_execute.
const std::set<std::string>& inspect_event_types();

// As the variables ask; nullopt where NEURON_RT_INSPECT_ENABLE and _ON_FAIL are not set. Input fault
// "runtime.inspect" for a value that a variable does not take.
std::optional<InspectOptions> read_inspect_options(
    const std::function<std::optional<std::string>(const char*)>& variable);

// From here on the executions of this process are kept. Input fault "runtime.inspect" where they are already.
void begin_inspection(const InspectOptions& options);
// Writes what was kept; the folder of this process. Input fault "runtime.inspect" where nothing was begun, or
// the folder cannot be written.
std::string end_inspection();

// For accounting.cc. The first call begins what the environment asks for, until the process ends.
bool is_inspected();
struct InspectedRun {
  const Model& model;
  const LoopTrips& trips;
  uint64_t begin_ns = 0, end_ns = 0;  // since the epoch
  const device::Predicted* predicted = nullptr;
};
void note_inspected(const InspectedRun& run);
void note_inspected_failure(const Model& model);

}  // namespace opentrn::runtime
