#include "pjrt/cost.h"

#include "arch/collective.h"

namespace opentrn::pjrt {

namespace {

// Adds a part that runs `times` times in a run of the program. `longest` is that of the parts so far.
void add(Cost& cost, const DeviceProgram& program, double times, double& longest) {
  for (const isa::ModelOp& op : program.model().origin.ops) cost.model_flops += op.flops * times;
  cost.instructions += static_cast<int64_t>(program.model().program->size());
  const DeviceProgram::Predicted predicted = program.predicted();
  if (!predicted.summary) {
    cost.compute_us.reset();
    if (cost.why.empty()) cost.why = predicted.why;
    return;
  }
  const trace::Summary& summary = *predicted.summary;
  const double us = summary.total_ns / 1e3 * times;
  cost.tensor_flops += summary.tensor_flops() * times;
  cost.hbm_bytes += static_cast<double>(summary.dma.hbm_bytes_read + summary.dma.hbm_bytes_written) * times;
  if (cost.compute_us && cost.why.empty()) *cost.compute_us += us;
  if (us < longest) return;
  longest = us;
  cost.bound_by = trace::name(summary.bound_by());
}

}  // namespace

std::optional<double> Cost::device_us() const {
  if (!compute_us) return std::nullopt;
  return *compute_us + collectives_us.value_or(0.0);
}

std::optional<double> collective_us(const Program& program, const ParallelProgram::Collective& collective) {
  return arch::collective_us(arch::default_tables(), program.settings().generation, collective.kind,
                             collective.bytes, collective.ranks, program.settings().physical_cores_per_core);
}

Cost cost_of(const Program& program) {
  Cost cost;
  double longest = 0;
  if (const DeviceProgram* device = program.device_program()) {
    cost.on_device = true;
    cost.compute_us = 0.0;
    add(cost, *device, 1.0, longest);
    return cost;
  }
  const std::vector<ParallelProgram::Stage> stages =
      program.parallel() ? program.parallel()->stages() : std::vector<ParallelProgram::Stage>{};
  if (stages.empty()) {
    cost.why = program.host_reason().empty() ? "it does nothing on a device" : program.host_reason();
    return cost;
  }
  cost.on_device = true;
  cost.compute_us = 0.0;
  for (const ParallelProgram::Stage& stage : stages) {
    if (stage.program) {
      add(cost, *stage.program, stage.times, longest);
      continue;
    }
    const auto us = collective_us(program, *stage.collective);
    if (!us)
      cost.collectives_us.reset();
    else if (cost.collectives_us)
      *cost.collectives_us += *us * stage.times;
  }
  return cost;
}

}  // namespace opentrn::pjrt
