// What a run that was timed keeps, and its reports: behind opentrn._core's Timing and StagedTiming.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "arch/evidence.h"
#include "arch/tables.h"
#include "isa/executable.h"
#include "profile/model.h"
#include "profile/page.h"
#include "profile/profile.h"
#include "sim/timing/simulate.h"
#include "trace/trace.h"

namespace opentrn::python {

// A run that was timed: the programs as compiled, the events, and their analysis.
struct Timing {
  std::shared_ptr<const arch::Tables> tables;
  std::vector<isa::Executable> executables;
  trace::Trace trace;
  profile::Profile profile;
  std::optional<profile::ModelProfile> model;     // of a compiled model; see profile_of_model()
  sim::timing::SimulateOptions simulate_options;  // of which it is
  std::once_flag serving_once;
  std::vector<std::string> assumptions;  // arch::assumptions()
  arch::TimedKind kind;
  arch::Band band;
  arch::Basis basis;
  // What each phase took on this machine, for benchmarks.
  std::vector<std::pair<const char*, double>> phase_seconds;
};

// Of a run while all cores of its HBM stack run the same, each for itself; of both cores of one, which fill
// it: alone.
double beside_ns(const Timing& timing);

// Of a placed HBM tensor: memory, name, role, offset, bytes.
using PlacedTensor = std::tuple<std::string, std::string, std::string, int64_t, int64_t>;
// Of the first core, by offset.
std::vector<PlacedTensor> memory_map(const Timing& timing);

// How far to trust the time: lines of text, and members of the profile.
std::string trust_text(const Timing& timing);
nlohmann::ordered_json band_json(const Timing& timing);
nlohmann::ordered_json basis_json(const Timing& timing);

// What Timing's methods of these names give; names of files are bytes, and what is no UTF-8 in them is
// replaced.
std::string timing_text(const Timing& timing, int lines_max);
std::string timing_model_text(Timing& timing, int lines_max, int depth);
nlohmann::ordered_json profile_json(Timing& timing);
std::string dumped(const nlohmann::ordered_json& json);
// The page's data as JSON, without what the host has of the source files, and its columns.
std::pair<std::string, profile::PageColumns> page_of(Timing& timing);

}  // namespace opentrn::python
