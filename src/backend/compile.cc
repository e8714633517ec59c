#include "backend/compile.h"

#include "backend/allocation.h"
#include "backend/dependencies.h"
#include "backend/engine_choice.h"
#include "backend/lifetime.h"
#include "backend/order.h"
#include "backend/synchronise.h"

namespace opentrn::backend {

isa::Executable compile(std::shared_ptr<const isa::Program> program, const Options& options) {
  OPENTRN_CHECK(program != nullptr, "no program");
  const arch::Tables& tables = options.tables != nullptr ? *options.tables : arch::default_tables();
  const arch::NeuronCore& core = tables.neuron_core(options.generation);

  const std::vector<EngineChoice> choices = choose_engines(*program, options, tables);
  const std::vector<Loop> loops = find_loops(*program);
  const std::vector<Lifetime> lifetimes = find_lifetimes(*program, loops);
  Allocation allocation = allocate(*program, lifetimes, options, core);
  const bool in_order = options.look_ahead == 0;
  const Dependencies dependencies =
      find_dependencies(*program, choices, allocation.placements, core, in_order);
  const auto order = choose_order(*program, choices, dependencies, options, tables);

  isa::Executable executable;
  executable.program = std::move(program);
  executable.generation = arch::version(options.generation);
  executable.placements = std::move(allocation.placements);
  executable.sbuf_bytes_per_partition_used = allocation.sbuf_bytes_per_partition_used;
  executable.psum_banks_used = allocation.psum_banks_used;
  executable.hbm_bytes_used = allocation.hbm_bytes_used;
  synchronise(choices, dependencies, order, executable);
  return executable;
}

}  // namespace opentrn::backend
