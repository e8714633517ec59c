// How long a pipeline takes, in closed form; pipeline_events.h is its slow and obvious reference.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace opentrn::planner {

// Seconds that one micro-batch takes on each stage, all of its chunks together.
struct StageTime {
  double forward = 0, backward = 0;
};

struct Pipeline {
  std::vector<StageTime> stages;  // at least one
  int64_t micro_batches = 1;
  int chunks = 1;          // above 1: the interleaved schedule, whose micro-batches are a multiple of the stages
  double send_s = 0;       // of an activation to the next stage, or of its gradient back, when waited for
};

struct PipelineTime {
  double total_s = 0;
  double busy_s = 0;   // of the slowest stage
  double bubble_s = 0;  // what it waits for others
};

// The one-forward-one-backward schedule. Exact where all stages take the same time and nothing is sent; with
// unequal stages or sends a lower bound that the reference exceeds by little (the test says how little).
PipelineTime pipeline_s(const Pipeline& pipeline);

// Micro-batches whose activations the first stage keeps, in units of all of its layers.
double in_flight(int stages, int chunks, int64_t micro_batches);

}  // namespace opentrn::planner
