// Programs of a logical core, compiled for their time: what a kernel of one rank and those of many share.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/tables.h"
#include "backend/compile.h"
#include "isa/program.h"
#include "python/timing.h"
#include "sim/timing/simulate.h"

namespace opentrn::python {

struct TimeOptions {
  std::string name = {};
  std::vector<std::string> settings = {};
  std::optional<int> look_ahead = {};  // none: the compiler's usual
  bool neuronx_cc = false;
  bool middle_end = true;
  bool dge = true;
  bool dma_engine_tracks = false;
  bool model = false, language = false;  // as arch::TimedKind
  std::optional<int64_t> default_trip_count;
  // Of the first core, where it was executed.
  const std::map<isa::InstructionIndex, sim::TripCounts>* trips = nullptr;
  bool moves_rows = false;                                           // see backend::Options
  std::vector<std::vector<isa::CollectiveCopies>> collectives = {};  // by core; empty: one rank alone
};

using Programs = std::vector<std::shared_ptr<const isa::Program>>;

// With settings like "a.b=1" and "@FILE"; of none those of the process.
std::shared_ptr<const arch::Tables> tables_of(const std::vector<std::string>& settings);

// One program per core of the logical core.
std::shared_ptr<Timing> compiled(const Programs& programs, Generation generation, const TimeOptions& options);

std::vector<const isa::Executable*> cores_of(const Timing& timing);

// `executed`: the program that `trips` tells of.
sim::timing::SimulateOptions simulate_options_of(const Timing& timing, const isa::Program& executed,
                                                 const TimeOptions& options);

}  // namespace opentrn::python
