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
double simulate_pipeline_s(const std::vector<StageTime>& stages, int chunks, int64_t micro_batches, double send_s);

}  // namespace opentrn::planner
