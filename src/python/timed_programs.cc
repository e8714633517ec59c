#include "python/timed_programs.h"

#include <set>

#include "arch/stated.h"
#include "backend/allocation.h"
#include "isa/definitions.h"
#include "python/phase_clock.h"
#include "runtime/timing.h"

namespace opentrn::python {

std::shared_ptr<const arch::Tables> tables_of(const std::vector<std::string>& settings) {
  if (settings.empty()) return {&arch::default_tables(), [](const arch::Tables*) {}};
  arch::Overrides overrides;
  for (const std::string& setting : settings)
    if (setting.starts_with('@'))
      overrides.files.push_back(setting.substr(1));
    else
      overrides.settings.push_back(setting);
  return arch::load_tables(overrides);
}

std::shared_ptr<Timing> compiled(const Programs& programs, Generation generation,
                                 const TimeOptions& options) {
  auto timing = std::make_shared<Timing>();
  timing->tables = tables_of(options.settings);
  timing->assumptions = arch::assumptions(*timing->tables, generation);
  PhaseClock clock(timing->phase_seconds);
  const int look_ahead =
      options.look_ahead.value_or(backend::usual_look_ahead(options.neuronx_cc, timing->tables.get()));
  for (size_t core = 0; core < programs.size(); ++core) {
    backend::Options own{.generation = generation,
                         .tables = timing->tables.get(),
                         .look_ahead = look_ahead,
                         .neuronx_cc = options.neuronx_cc,
                         .middle_end = options.middle_end,
                         .moves_rows = options.moves_rows,
                         .dge = options.dge};
    if (!options.collectives.empty()) own.collectives = options.collectives.at(core);
    timing->executables.push_back(backend::compile(programs[core], own));
  }
  clock.end_of("backend");
  std::set<std::string> instructions;
  for (const isa::Executable& executable : timing->executables)
    for (isa::InstructionIndex i = 0; i < executable.program->size(); ++i)
      instructions.emplace(isa::name(executable.program->instruction(i).opcode));
  timing->kind = {.generation = generation,
                  .model = options.model,
                  .neuronx_cc = options.neuronx_cc,
                  .language = options.language};
  timing->band = arch::band(*timing->tables, timing->kind);
  timing->basis = arch::basis(*timing->tables, timing->kind, instructions);
  return timing;
}

std::vector<const isa::Executable*> cores_of(const Timing& timing) {
  std::vector<const isa::Executable*> cores;
  for (const isa::Executable& executable : timing.executables) cores.push_back(&executable);
  return cores;
}

sim::timing::SimulateOptions simulate_options_of(const Timing& timing, const isa::Program& executed,
                                                 const TimeOptions& options) {
  sim::timing::SimulateOptions simulate_options;
  simulate_options.dma_engine_tracks = options.dma_engine_tracks;
  simulate_options.default_trip_count = options.default_trip_count;
  if (options.trips)
    simulate_options.observed_trips =
        runtime::observed_trips(*options.trips, executed, *timing.executables[0].program);
  return simulate_options;
}

}  // namespace opentrn::python
