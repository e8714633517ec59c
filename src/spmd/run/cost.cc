#include "spmd/run/cost.h"

#include <algorithm>

#include "arch/timing_table.h"
#include "isa/origin.h"
#include "spmd/run/step_time.h"

namespace opentrn::spmd {

namespace {

// Adds a part that runs `times` times in a run of the program, on `copies` cores of an HBM stack; of what it
// does the device has a `share`. `longest` is that of the parts so far.
void add(Cost& cost, const DeviceProgram& program, int copies, double times, double& longest,
         double share = 1) {
  for (const isa::ModelOp& op : program.model().origin.ops) cost.model_flops += op.flops * times * share;
  cost.instructions += static_cast<int64_t>(static_cast<double>(program.model().program->size()) * share);
  const DeviceProgram::Predicted predicted = program.predicted(copies);
  if (!predicted.times) {
    cost.compute_us.reset();
    if (cost.why.empty()) cost.why = predicted.why;
    return;
  }
  const trace::Summary& summary = predicted.times->summary;
  const double us = summary.total_ns / 1e3 * times;
  cost.launch_us = std::max(cost.launch_us, summary.launch_ns / 1e3);
  cost.tensor_flops += summary.tensor_flops() * times * share;
  cost.hbm_bytes +=
      static_cast<double>(summary.dma.hbm_bytes_read + summary.dma.hbm_bytes_written) * times * share;
  if (cost.compute_us && cost.why.empty()) *cost.compute_us += us;
  if (us < longest) return;
  longest = us;
  cost.bound_by = trace::name(summary.bound_by());
  cost.engines = summary.engines;
  cost.descriptors = summary.dma.descriptors;
  cost.descriptor_bytes = static_cast<double>(summary.dma.bytes);
  for (size_t i = 0; i < cost.critical_us.size(); ++i)
    cost.critical_us[i] = summary.bound_by_ns[i] / 1e3 * times;
}

}  // namespace

Cost cost_on_host(const std::string& reason) {
  Cost cost;
  cost.why = reason.empty() ? "it does nothing on a device" : reason;
  return cost;
}

double both_cores_us_min(double device_us, double exposed_us, double hbm_bytes, Generation generation) {
  const arch::TimingTable& table = arch::timing(generation);
  const double stack_bytes_per_us =
      table.constant("hbm_bandwidth_gb_s") * table.constant("hbm_cores_per_stack") * 1e3;
  return exposed_us + std::max((device_us - exposed_us) / 2, hbm_bytes / stack_bytes_per_us);
}

Cost cost_of(const DeviceProgram& program) {
  Cost cost;
  double longest = 0;
  cost.on_device = true;
  cost.compute_us = 0.0;
  add(cost, program, 1, 1.0, longest);
  cost.device_us = cost.compute_us;
  return cost;
}

Cost cost_of(const ParallelProgram& program, const runtime::Settings& settings) {
  Cost cost;
  double longest = 0;
  bool on_device = false;
  const StageTimes times = stage_times(program, settings);
  const int copies = devices_of_stack(settings, program.devices());
  for_stages(times.stages, [&](const ParallelProgram::Stage& stage) {
    on_device = on_device || stage.program != nullptr || stage.collective;
  });
  if (!on_device) return cost_on_host(program.host_reason());
  cost.on_device = true;
  cost.compute_us = 0.0;
  cost.collectives_us = times.collectives_ns / 1e3;
  cost.exposed_us = times.exposed_ns / 1e3;
  cost.gathered_bytes = times.gathered_bytes;
  for_stages(times.stages, [&](const ParallelProgram::Stage& stage) {
    if (stage.program)
      add(cost, *stage.program, copies_of(stage, copies), stage.times.value_or(0), longest, share_of(stage));
    if (!stage.times) {
      cost.compute_us.reset();
      if (cost.why.empty()) cost.why = "it has a loop whose trips depend on values, and has not run";
    }
    if (stage.collective && !collective_cost(*stage.collective, program.devices(), settings))
      cost.collectives_us.reset();
  });
  if (!cost.compute_us) return cost;
  cost.device_us = times.end_ns / 1e3;
  if (cost.exposed_us > *cost.compute_us) cost.bound_by = "collectives";
  return cost;
}

}  // namespace opentrn::spmd
