// A pipeline schedule, event by event: the reference of pipeline.h, and the time of schedules that have no
// closed form.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/schedule.h"

namespace opentrn::planner {

// Seconds of one micro-batch on a stage, all of its chunks together. `weight`: the weights' gradients, a part
// of backward.
struct StageTime {
  double forward = 0, backward = 0, weight = 0;
};

// `events`: where given, takes every pass, stage by stage in the order of its start. A pair is two events of
// equal times.
struct PipelineEvent {
  int stage = 0, chunk = 0;  // of DualPipe: the direction
  int64_t micro_batch = 0;
  PassKind kind = PassKind::kForward;
  double start_s = 0, end_s = 0;
};

struct PipelineRun {
  double end_s = 0;  // until the last stage has nothing left to do
  double in_flight =
      0;  // micro-batches whose activations the fullest stage keeps, in units of all its layers
};

// A stage that sends goes on at once.
PipelineRun run_pipeline(Schedule schedule, const std::vector<StageTime>& stages, int chunks,
                         int64_t micro_batches, double send_s, std::vector<PipelineEvent>* events = nullptr);

// Of 1F1B, or of its interleaved form (chunks above 1; micro-batches are then a multiple of the stages).
double simulate_pipeline_s(const std::vector<StageTime>& stages, int chunks, int64_t micro_batches,
                           double send_s, std::vector<PipelineEvent>* events = nullptr);

}  // namespace opentrn::planner
