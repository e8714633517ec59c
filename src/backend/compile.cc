#include "backend/compile.h"

#include <array>

#include "backend/allocation.h"
#include "backend/dependencies.h"
#include "backend/engine_choice.h"
#include "backend/lifetime.h"
#include "backend/order.h"
#include "backend/passes/residency.h"
#include "backend/passes/sharing.h"
#include "backend/synchronise.h"

namespace opentrn::backend {

namespace {

// Shares of the memory to keep live at most, tried in turn: the fuller it is, the less is moved, and the less
// likely that every tensor finds a place in one piece.
constexpr std::array kBudgetShares = {0.97, 0.9, 0.8, 0.65, 0.5};

struct Placed {
  std::shared_ptr<const isa::Program> program;
  Allocation allocation;
  int64_t spill_bytes = 0;
};

Placed place(std::shared_ptr<const isa::Program> program, const Options& options,
             const arch::NeuronCore& core) {
  const std::vector<Lifetime> lifetimes = find_lifetimes(*program, find_loops(*program));
  return {program, allocate(*program, lifetimes, options, core)};
}

Placed place_spilling(const std::shared_ptr<const isa::Program>& program, const Options& options,
                      const arch::NeuronCore& core) {
  const auto share_of = [](double share, int64_t bytes) {
    return static_cast<int64_t>(share * static_cast<double>(bytes));
  };
  for (const double share : kBudgetShares) {
    const auto psum = fit(program, isa::MemorySpace::kPsum, share_of(share, core.psum_bytes_per_partition),
                          core.partitions, options);
    if (!psum) break;
    const auto sbuf = fit(psum->program, isa::MemorySpace::kSbuf,
                          share_of(share, core.sbuf_bytes_per_partition), core.partitions, options);
    if (!sbuf) break;
    try {
      Placed placed = place(sbuf->program, options, core);
      placed.spill_bytes = sbuf->saved_bytes + sbuf->reloaded_bytes;
      return placed;
    } catch (const Fault& fault) {
      if (fault.kind() != FaultKind::kCapacity) throw;
    }
  }
  return place(program, options, core);  // says what does not fit
}

Placed place_somehow(const std::shared_ptr<const isa::Program>& program, const Options& options,
                     const arch::NeuronCore& core) {
  if (!options.neuronx_cc) return place(program, options, core);
  try {
    return place(program, options, core);
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kCapacity) throw;
    return place_spilling(program, options, core);
  }
}

}  // namespace

isa::Executable compile(std::shared_ptr<const isa::Program> program, const Options& given) {
  Options options = given;
  if (options.neuronx_cc && options.look_ahead == 0) options.look_ahead = kCompilerLookAhead;
  OPENTRN_CHECK(program != nullptr, "no program");
  const arch::Tables& tables = options.tables != nullptr ? *options.tables : arch::default_tables();
  const arch::NeuronCore& core = tables.neuron_core(options.generation);

  if (options.neuronx_cc)
    program = share_equal_results(program, core.sbuf_bytes_per_partition, core.partitions, options);
  Placed placed = place_somehow(program, options, core);
  program = placed.program;
  const std::vector<EngineChoice> choices = choose_engines(*program, options, tables);
  const bool in_order = options.look_ahead == 0;
  const Dependencies dependencies =
      find_dependencies(*program, choices, placed.allocation.placements, core, in_order);
  const auto order = choose_order(*program, choices, dependencies, options, tables);

  isa::Executable executable;
  executable.program = std::move(program);
  executable.generation = arch::version(options.generation);
  executable.placements = std::move(placed.allocation.placements);
  executable.sbuf_bytes_per_partition_used = placed.allocation.sbuf_bytes_per_partition_used;
  executable.psum_banks_used = placed.allocation.psum_banks_used;
  executable.hbm_bytes_used = placed.allocation.hbm_bytes_used;
  executable.spill_bytes = placed.spill_bytes;
  synchronise(choices, dependencies, order, executable);
  return executable;
}

}  // namespace opentrn::backend
