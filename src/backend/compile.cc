#include "backend/compile.h"

#include <array>
#include <optional>

#include "backend/allocation.h"
#include "backend/dependencies.h"
#include "backend/engine_choice.h"
#include "backend/order.h"
#include "backend/passes/common_subexpressions.h"
#include "backend/passes/psum_evictions.h"
#include "backend/passes/renaming.h"
#include "backend/passes/residency.h"
#include "backend/passes/vectorise_loops.h"
#include "backend/survey.h"
#include "backend/synchronise.h"
#include "base/activity.h"

namespace opentrn::backend {

namespace {

// Shares of the memory to keep live at most, tried in turn: the fuller it is, the less is moved, and the less
// likely that every tensor finds a place in one piece.
constexpr std::array kBudgetShares = {0.97, 0.9, 0.8, 0.65, 0.5};

struct Placed {
  std::shared_ptr<const isa::Program> program;
  std::shared_ptr<const isa::Kinds> kinds;
  Allocation allocation;
  int64_t saved_bytes = 0, reloaded_bytes = 0;
};

std::optional<Placed> place(const Survey& survey, const Options& options, const arch::NeuronCore& core,
                            Ways ways) {
  std::optional<Allocation> allocation =
      allocate(*survey.program, survey.lifetimes, options, core, ways, survey.products_ask);
  if (!allocation) return std::nullopt;
  return Placed{survey.program, survey.kinds, std::move(*allocation)};
}

// The program with at most `share` of each memory live; nothing when that is out of reach.
std::optional<Placed> place_within(double share, const std::shared_ptr<const isa::Program>& program,
                                   const Options& options, const arch::NeuronCore& core, Ways ways) {
  const auto share_of = [share](int64_t bytes) {
    return static_cast<int64_t>(share * static_cast<double>(bytes));
  };
  const auto psum = fit(program, isa::MemorySpace::kPsum, share_of(core.psum_bytes_per_partition),
                        core.partitions, options);
  if (!psum) return std::nullopt;
  const auto sbuf = fit(psum->program, isa::MemorySpace::kSbuf, share_of(core.sbuf_bytes_per_partition),
                        core.partitions, options);
  if (!sbuf) return std::nullopt;
  try {
    std::optional<Placed> placed = place(Survey(sbuf->program), options, core, ways);
    if (placed) placed->saved_bytes = sbuf->saved_bytes, placed->reloaded_bytes = sbuf->reloaded_bytes;
    return placed;
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kCapacity) throw;
    return std::nullopt;
  }
}

struct Scheduled {
  Placed placed;
  std::vector<EngineChoice> choices;
  Dependencies dependencies;
  Order order;
};

Scheduled schedule(Placed placed, const Options& options, const arch::Tables& tables) {
  Scheduled result{std::move(placed), {}, {}, {}};
  const isa::Program& program = *result.placed.program;
  const isa::Kinds& kinds = *result.placed.kinds;
  result.choices = choose_engines(program, kinds, options, tables);
  const bool in_order = options.look_ahead == 0;
  result.dependencies = find_dependencies(program, kinds, result.choices, result.placed.allocation.placements,
                                          tables.neuron_core(options.generation), in_order);
  result.order = choose_order(program, kinds, result.choices, result.dependencies, options, tables);
  return result;
}

// Where tensors do not rotate through SBUF, writers wait for readers; parts for large and small tensors may
// take less, by the scheduler's estimate, or more, where one of them is short of room.
Scheduled schedule_as_placed(const std::shared_ptr<const isa::Program>& program, const Options& options,
                             const arch::Tables& tables) {
  const arch::NeuronCore& core = tables.neuron_core(options.generation);
  const Survey survey(program);
  Scheduled found = schedule(*place(survey, options, core, Ways::kAll), options, tables);
  if (found.placed.allocation.sbuf_rotates) return found;
  std::optional<Placed> apart = place(survey, options, core, Ways::kApart);
  if (!apart) return found;
  Scheduled other = schedule(std::move(*apart), options, tables);
  return other.order.estimated_ns < found.order.estimated_ns ? other : found;
}

// The fastest, by the scheduler's estimate, of several ways to make a program fit; nothing when none does.
// Spilling more leaves room to reload early and to keep reloads off bytes that were just read.
std::optional<Scheduled> schedule_spilling(const std::shared_ptr<const isa::Program>& program,
                                           const Options& options, const arch::Tables& tables) {
  const arch::NeuronCore& core = tables.neuron_core(options.generation);
  std::optional<Scheduled> best;
  for (const Ways ways : {Ways::kRotating, Ways::kAll}) {
    for (const double share : kBudgetShares) {
      std::optional<Placed> placed = place_within(share, program, options, core, ways);
      if (!placed) continue;
      Scheduled found = schedule(std::move(*placed), options, tables);
      if (!best || found.order.estimated_ns < best->order.estimated_ns) best = std::move(found);
      if (ways == Ways::kAll) break;  // with no rotation there is no reason to spill more than needed
    }
  }
  return best;
}

// In the order of the kernel, or where that does not fit, in one that holds less.
Scheduled schedule_or_spill(const std::shared_ptr<const isa::Program>& program, const Options& options,
                            const arch::Tables& tables) {
  try {
    return schedule_as_placed(program, options, tables);
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kCapacity) throw;
    if (options.neuronx_cc) {
      if (std::optional<Scheduled> found = schedule_spilling(program, options, tables)) return *found;
      throw;
    }
    const std::shared_ptr<const isa::Program> hoisted = hoist_psum_evictions(program);
    if (hoisted == program) throw;
    return schedule_as_placed(hoisted, options, tables);
  }
}

// A compiler that orders instructions also gives reloaded tiles room, where there is some.
Scheduled schedule_somehow(const std::shared_ptr<const isa::Program>& program, const Options& options,
                           const arch::Tables& tables) {
  if (options.look_ahead > 0) {
    const std::shared_ptr<const isa::Program> renamed = rename_reloaded_tiles(program);
    if (renamed != program) {
      try {
        return schedule_as_placed(renamed, options, tables);
      } catch (const Fault& fault) {
        if (fault.kind() != FaultKind::kCapacity) throw;
      }
    }
  }
  return schedule_or_spill(program, options, tables);
}

}  // namespace

isa::Executable compile(std::shared_ptr<const isa::Program> program, const Options& options) {
  OPENTRN_CHECK(program != nullptr, "no program");
  const Activity activity("placing and scheduling instructions");
  const arch::Tables& tables = tables_of(options.tables);
  const arch::NeuronCore& core = tables.neuron_core(options.generation);

  if (options.neuronx_cc && options.middle_end) {
    program =
        eliminate_common_subexpressions(program, core.sbuf_bytes_per_partition, core.partitions, options);
    program = vectorise_iterations(program, core.psum_bank_bytes_per_partition, options);
  }
  Scheduled scheduled = schedule_somehow(program, options, tables);
  Placed& placed = scheduled.placed;

  isa::Executable executable;
  executable.program = std::move(placed.program);
  executable.kinds = std::move(placed.kinds);
  executable.generation = options.generation;
  executable.placements = std::move(placed.allocation.placements);
  executable.sbuf_bytes_per_partition_used = placed.allocation.sbuf_bytes_per_partition_used;
  executable.psum_banks_used = placed.allocation.psum_banks_used;
  executable.hbm_bytes_used = placed.allocation.hbm_bytes_used;
  executable.spill_save_bytes = placed.saved_bytes;
  executable.spill_reload_bytes = placed.reloaded_bytes;
  synchronise(scheduled.choices, scheduled.dependencies, scheduled.order.instructions, options.collectives,
              executable);
  return executable;
}

double estimated_ns(const std::shared_ptr<const isa::Program>& program, const Options& options) {
  const arch::Tables& tables = options.tables != nullptr ? *options.tables : arch::default_tables();
  return schedule_somehow(program, options, tables).order.estimated_ns;
}

}  // namespace opentrn::backend
