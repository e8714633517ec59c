#include "sim/timing/simulate.h"

#include <fmt/format.h>

#include "base/activity.h"
#include "base/fault.h"
#include "sim/timing/logical_core.h"

namespace opentrn::sim::timing {

TimingResult simulate(std::span<const isa::Executable* const> cores, const arch::TimingTable& table,
                      trace::TraceSink* sink, const SimulateOptions& options) {
  if (cores.empty())
    throw Fault(FaultKind::kInput, "timing.cores", "there is nothing to time",
                "give at least one executable");
  for (const isa::Executable* executable : cores)
    if (executable->generation != table.generation())
      throw Fault(FaultKind::kInput, "timing.generation",
                  fmt::format("the program is compiled for NeuronCore-v{}, the table is of v{}",
                              version(executable->generation), version(table.generation())),
                  "use the timing table of the same generation");
  const Activity activity("following instructions in time");
  LogicalCore core(cores, table, sink, options);
  while (core.next() != LogicalCore::kDone) core.step();
  return core.finish();
}

TimingResult simulate(const isa::Executable& executable, const arch::TimingTable& table,
                      trace::TraceSink* sink, const SimulateOptions& options) {
  const isa::Executable* const one[] = {&executable};
  return simulate(std::span<const isa::Executable* const>(one), table, sink, options);
}

double beside_copies_ns(const isa::Executable& executable, const arch::TimingTable& table,
                        const SimulateOptions& options) {
  const auto count = static_cast<size_t>(cores_per_hbm_stack(table));
  if (count == 1) return 0;
  const std::vector<const isa::Executable*> copies(count, &executable);
  return simulate(copies, table, nullptr, options).total_ns;
}

}  // namespace opentrn::sim::timing
