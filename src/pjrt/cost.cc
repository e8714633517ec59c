#include "pjrt/cost.h"

#include <map>
#include <mutex>

#include "collectives/predict.h"
#include "fabric/platform.h"

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

namespace {

using Collective = ParallelProgram::Collective;

// One job for each group; a permute's pairs are one job of all devices.
std::vector<collectives::Job> jobs_of(const Collective& collective, const collectives::RankCores& cores) {
  std::vector<collectives::Job> jobs;
  if (collective.kind == collectives::Kind::kPermute) {
    collectives::Job& job = jobs.emplace_back();
    job.request = {
        .kind = collective.kind, .ranks = static_cast<int>(cores.size()), .bytes = collective.bytes};
    for (const auto& pair : collective.groups)
      if (pair.size() == 2) job.request.pairs.emplace_back(pair[0], pair[1]);
    job.cores = cores;
    return jobs;
  }
  for (const auto& group : collective.groups) {
    if (group.size() < 2) continue;
    collectives::Job& job = jobs.emplace_back();
    const auto ranks = static_cast<int64_t>(group.size());
    const bool scatters = collective.kind == collectives::Kind::kReduceScatter ||
                          collective.kind == collectives::Kind::kAllToAll;
    const int64_t bytes = scatters ? (collective.bytes + ranks - 1) / ranks * ranks : collective.bytes;
    job.request = {.kind = collective.kind, .ranks = static_cast<int>(ranks), .bytes = bytes};
    for (const int64_t device : group) job.cores.push_back(cores.at(static_cast<size_t>(device)));
  }
  return jobs;
}

double predicted_us(const Collective& collective, Generation generation, int physical_cores,
                    int64_t devices) {
  const arch::Tables& tables = arch::default_tables();
  const fabric::Platform platform =
      collectives::platform_for(tables, generation, static_cast<int>(devices), physical_cores);
  const auto cores = collectives::place_ranks(platform, static_cast<int>(devices), physical_cores, 0);
  const std::vector<collectives::Job> jobs = jobs_of(collective, cores);
  constexpr double kPsPerUs = 1e6;
  return static_cast<double>(collectives::predict(tables, platform, jobs).end_ps) / kPsPerUs;
}

}  // namespace

std::optional<double> collective_us(const Program& program, const Collective& collective) {
  // Programs ask for the same few again and again.
  using Key = std::tuple<Generation, int, int64_t, Collective>;
  static std::mutex mutex;
  static std::map<Key, std::optional<double>> known;
  const auto& settings = program.settings();
  const int64_t devices = program.parallel()->devices();
  const Key key{settings.generation, settings.physical_cores_per_core, devices, collective};
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  std::optional<double> us;
  try {
    us = predicted_us(collective, settings.generation, settings.physical_cores_per_core, devices);
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kNotModelled && fault.kind() != FaultKind::kUnspecified) throw;
  }
  return known.emplace(key, us).first->second;
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
