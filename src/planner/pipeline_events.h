// A pipeline schedule, event by event: the reference of pipeline.h.
#pragma once

#include <cstdint>
#include <vector>

namespace opentrn::planner {

// Seconds of one micro-batch on a stage, all of its chunks together.
struct StageTime {
  double forward = 0, backward = 0;
};

// The time until the last stage of 1F1B, or of its interleaved form (chunks above 1; micro-batches are then a
// multiple of the stages), has nothing left to do. A stage that sends goes on at once.
// `events`: where given, takes every pass, stage by stage in the order of its start.
struct PipelineEvent {
  int stage = 0, chunk = 0;
  int64_t micro_batch = 0;
  bool backward = false;
  double start_s = 0, end_s = 0;
};
double simulate_pipeline_s(const std::vector<StageTime>& stages, int chunks, int64_t micro_batches,
                           double send_s, std::vector<PipelineEvent>* events = nullptr);

}  // namespace opentrn::planner
