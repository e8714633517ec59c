// One run of a program of several devices on the timeline of one of them: its parts on the core, its
// collectives beside them (spmd/schedule.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/predict.h"
#include "fabric/platform.h"
#include "runtime/settings.h"
#include "spmd/run/parallel.h"
#include "spmd/schedule.h"

namespace opentrn::spmd {

// The machine that a program of several devices runs on.
// `settings`: what its devices are.
fabric::Platform platform_of(const ParallelProgram& program, const runtime::Settings& settings);
// How many of the devices share an HBM stack: logical cores of one physical core fill a stack from Trainium2
// on. They run the same parts at the same time, each with its share of the bandwidth.
int devices_of_stack(const runtime::Settings& settings, int64_t devices);
// How many of so many copies run a stage, and the share that a device has in what it does.
int copies_of(const ParallelProgram::Stage& stage, int copies);
double share_of(const ParallelProgram::Stage& stage);
// One job for each group; a permute's pairs are one job of all devices. `cores`: of each device.
std::vector<collectives::Job> jobs_of(const ParallelProgram::Collective& collective,
                                      const collectives::RankCores& cores);

// What one collective takes.
struct CollectiveCost {
  double us = 0;
  double hbm_bytes = 0;                                       // read and written in a device's memory
  std::shared_ptr<const std::vector<float>> links = nullptr;  // how busy each is (spmd/schedule.h)
};
// nullopt where nobody knows.
std::optional<CollectiveCost> collective_cost(const ParallelProgram::Collective& collective, int64_t devices,
                                              const runtime::Settings& settings);

// Stages that follow each other, and when they run.
struct StageTimes {
  std::vector<ParallelProgram::Stage> stages;
  Schedule schedule;  // a step for each stage
  // Of a stage's regions: one iteration of each, and how many there are of it in a run of the stage.
  struct Region;
  std::vector<std::vector<Region>> regions;
  // Of these stages and what is inside of them, in a run. Exposed: no part went on while collectives were
  // under way, and what parts took longer beside them.
  double end_ns = 0, collectives_ns = 0, exposed_ns = 0;
  double gathered_bytes = 0;  // of weights, where there are most at once (weight_collectives.h)
};
struct StageTimes::Region {
  StageTimes times;
  double iterations = 1;
};

// Iterations of loops that the host leads follow each other, and nothing outside of them runs meanwhile. What
// is not known of parts and collectives takes no time here.
StageTimes stage_times(const ParallelProgram& program, const runtime::Settings& settings);

}  // namespace opentrn::spmd
