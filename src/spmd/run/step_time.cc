#include "spmd/run/step_time.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "arch/timing_table.h"
#include "base/fault.h"
#include "spmd/core_pairs.h"
#include "spmd/run/weight_collectives.h"

namespace opentrn::spmd {

namespace {

using runtime::Settings;
using RendezvousOp = ParallelProgram::Collective;
using Stage = ParallelProgram::Stage;

// Of the memory of a stack, what a device may call its own.
double share_of_stack(const Settings& settings) {
  const double cores = arch::timing(settings.generation).constant("hbm_cores_per_stack");
  return std::min(1.0, settings.physical_cores_per_core / cores);
}

fabric::Platform machine_of(const arch::Tables& tables, const Settings& settings, int64_t devices) {
  return collectives::machine_of(tables, settings.target, settings.generation, static_cast<int>(devices),
                                 settings.physical_cores_per_core);
}

CollectiveCost predicted(const RendezvousOp& collective, const Settings& settings, int64_t devices) {
  const arch::Tables& tables = arch::default_tables();
  const int physical_cores = settings.physical_cores_per_core;
  const fabric::Platform platform = machine_of(tables, settings, devices);
  const auto cores = collectives::place_ranks(platform, static_cast<int>(devices), physical_cores, 0);
  const std::vector<collectives::Job> jobs = jobs_of(collective, cores);
  const collectives::Predictions predictions = collectives::predict(tables, platform, jobs);
  constexpr double kPsPerUs = 1e6;
  CollectiveCost cost{static_cast<double>(predictions.end_ps) / kPsPerUs};
  cost.links = std::make_shared<std::vector<float>>(collectives::busy_links(platform, predictions));
  for (const auto& of_rank : cores) {
    const auto stack = static_cast<size_t>(platform.hbm(of_rank.front()));
    if (stack < predictions.carried.size())
      cost.hbm_bytes = std::max(cost.hbm_bytes,
                                static_cast<double>(predictions.carried[stack]) * share_of_stack(settings));
  }
  return cost;
}

// Of an exchange between the cores of a logical one, which read the stack that what both bring lies in: they
// meet, and then read it where it is. Of a sum each reads its half of both terms and writes it, and they meet
// again where both need all. Assumed: no public source says how a compiled program's cores exchange;
// nki.isa.core_barrier on shared_hbm is the way that kernels have.
CollectiveCost inside_logical_core(const RendezvousOp& collective, const Settings& settings) {
  const arch::TimingTable& table = arch::timing(settings.generation);
  const double rendezvous_us = table.constant("core_rendezvous_ns") / 1e3;
  const bool sums = collective.kind == collectives::Kind::kAllReduce ||
                    collective.kind == collectives::Kind::kReduceScatter ||
                    collective.kind == collectives::Kind::kReduce;
  if (!sums) return {rendezvous_us, 0};
  constexpr double kHalvesReadAndWritten = 1.5;
  const double bytes = kHalvesReadAndWritten * static_cast<double>(collective.bytes);
  const double bytes_per_us = table.constant("hbm_sustained_gb_s") * share_of_stack(settings) * 1e3;
  const double rendezvous = collective.kind == collectives::Kind::kReduceScatter ? 1 : 2;
  return {rendezvous * rendezvous_us + bytes / bytes_per_us, bytes};
}

// Those of `together` devices after each other as one's.
collectives::RankCores joined(const collectives::RankCores& of_devices, int together) {
  collectives::RankCores cores;
  for (size_t device = 0; device < of_devices.size(); ++device) {
    if (device % static_cast<size_t>(together) == 0) cores.emplace_back();
    cores.back().insert(cores.back().end(), of_devices[device].begin(), of_devices[device].end());
  }
  return cores;
}

constexpr int kStreams = 4;  // behind the last one that has packets of its own

class Timer {
 public:
  Timer(const ParallelProgram& program, const Settings& settings)
      : devices_(program.devices()),
        settings_(settings),
        copies_(devices_of_stack(settings, program.devices())) {}

  StageTimes run(std::vector<Stage> stages) {
    StageTimes times;
    times.stages = std::move(stages);
    std::vector<Step> steps;
    for (const Stage& stage : times.stages) {
      auto& regions = times.regions.emplace_back();
      for (const auto& region : stage.regions) regions.push_back(run_region(region, stage.times.value_or(0)));
      steps.push_back(step_of(stage, regions, times));
    }
    arrange(times.stages, steps, settings_.weight_collectives);
    std::vector<double> of_stream;
    for (int stream = 0; stream < static_cast<int>(settings_.dma_packets.of_stream.size()); ++stream)
      of_stream.push_back(settings_.dma_packets.of_collectives(stream));
    times.schedule = schedule(steps, {.hbm_bytes_per_ns = hbm_bytes_per_ns_,
                                      .of_collectives = settings_.dma_packets.of_collectives(kStreams),
                                      .of_stream = std::move(of_stream)});
    times.gathered_bytes = gathered_bytes(times.stages, steps, times.schedule);
    for (const auto& regions : times.regions)
      for (const auto& region : regions)
        times.gathered_bytes = std::max(times.gathered_bytes, region.times.gathered_bytes);
    times.end_ns = times.schedule.end_ns;
    times.collectives_ns += times.schedule.collectives_ns;
    times.exposed_ns += times.schedule.exposed_ns + times.schedule.slowed_ns;
    return times;
  }

 private:
  // `entered`: how often the stage around it ran.
  StageTimes::Region run_region(const std::vector<Stage>& stages, double entered) {
    double iterations = 0;
    for (const Stage& stage : stages) iterations = std::max(iterations, stage.times.value_or(0));
    return {run(stages), entered > 0 ? iterations / entered : 0};
  }

  Step step_of(const Stage& stage, const std::vector<StageTimes::Region>& regions, StageTimes& times) {
    if (stage.collective) {
      const auto cost = collective_cost(*stage.collective, devices_, settings_);
      Collective step;
      if (cost) step.ns = cost->us * 1e3;
      if (cost) step.hbm_bytes = cost->hbm_bytes;
      if (cost) step.links = cost->links;
      for (const graph::ValueId value : stage.reads) step.reads.push_back(number(value));
      for (const graph::ValueId value : stage.writes) step.writes.push_back(number(value));
      return step;
    }
    Part part;
    std::vector<std::optional<double>> first_reads(stage.reads.size(), 0.0);
    if (stage.program) {
      if (const auto predicted = stage.program->predicted(copies_of(stage, copies_)); predicted.times) {
        const trace::Summary& summary = predicted.times->summary;
        part.ns = summary.total_ns;
        part.hbm_bytes =
            static_cast<double>(summary.dma.hbm_bytes_read + summary.dma.hbm_bytes_written) * share_of(stage);
        hbm_bytes_per_ns_ = summary.hbm_peak_bytes_per_ns * share_of_stack(settings_);
        first_reads = predicted.times->first_read_ns;
        for (size_t i = 0; i < stage.reads.size() && i < predicted.times->last_read_ns.size(); ++i)
          part.last_reads.push_back({number(stage.reads[i]), predicted.times->last_read_ns[i]});
        OPENTRN_CHECK(first_reads.size() == stage.reads.size(), "a part of {} values reads {}",
                      stage.reads.size(), first_reads.size());
        for (size_t i = 0; i < stage.writes.size(); ++i)
          part.writes.push_back({number(stage.writes[i]), predicted.times->last_write_ns[i]});
      }
    }
    for (const StageTimes::Region& region : regions) {
      part.ns += region.times.end_ns * region.iterations;
      times.collectives_ns += region.times.collectives_ns * region.iterations;
      times.exposed_ns += region.times.exposed_ns * region.iterations;
    }
    if (part.writes.empty())
      for (const graph::ValueId value : stage.writes) part.writes.push_back({number(value), part.ns});
    for (size_t i = 0; i < stage.reads.size(); ++i)
      if (first_reads[i]) part.reads.push_back({number(stage.reads[i]), *first_reads[i]});
    return part;
  }

  static ValueNumber number(graph::ValueId value) { return static_cast<ValueNumber>(value); }

  int64_t devices_;
  const Settings& settings_;
  const int copies_;
  double hbm_bytes_per_ns_ = 0;
};

}  // namespace

int devices_of_stack(const Settings& settings, int64_t devices) {
  const auto cores = static_cast<int64_t>(arch::timing(settings.generation).constant("hbm_cores_per_stack"));
  return static_cast<int>(std::clamp<int64_t>(cores / settings.physical_cores_per_core, 1, devices));
}

int copies_of(const Stage& stage, int copies) {
  return stage.once_of_logical_core ? std::max(1, copies / static_cast<int>(kCoresOfPair)) : copies;
}

double share_of(const Stage& stage) {
  return stage.once_of_logical_core ? 1.0 / static_cast<double>(kCoresOfPair) : 1.0;
}

fabric::Platform platform_of(const ParallelProgram& program, const Settings& settings) {
  return machine_of(arch::default_tables(), settings, program.devices());
}

std::vector<collectives::Job> jobs_of(const RendezvousOp& collective,
                                      const collectives::RankCores& of_devices) {
  const collectives::RankCores cores = joined(of_devices, collective.cores);
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

std::optional<CollectiveCost> collective_cost(const RendezvousOp& collective, int64_t devices,
                                              const Settings& settings) {
  // Programs ask for the same few again and again.
  using Key = std::tuple<std::string, int, int64_t, RendezvousOp>;
  static std::mutex mutex;
  static std::map<Key, std::optional<CollectiveCost>> known;
  const Key key{settings.target, settings.physical_cores_per_core, devices, collective};
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  std::optional<CollectiveCost> cost;
  try {
    cost = collective.is_inside_logical_core ? inside_logical_core(collective, settings)
                                             : predicted(collective, settings, devices);
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kNotModelled && fault.kind() != FaultKind::kUnspecified) throw;
  }
  return known.emplace(key, cost).first->second;
}

StageTimes stage_times(const ParallelProgram& program, const Settings& settings) {
  return Timer(program, settings).run(program.stages());
}

}  // namespace opentrn::spmd
