// How long a pipeline takes, in closed form; pipeline_events.h is its slow and obvious reference.
#pragma once

#include <cstdint>

namespace opentrn::planner {

struct Pipeline {
  int stages = 1;
  int chunks = 1;  // above 1: the interleaved schedule, whose micro-batches are a multiple of the stages
  int64_t micro_batches = 1;
  // Seconds of one micro-batch's forward and backward pass, all chunks of a stage together.
  double slowest_s = 0;  // on the slowest stage
  double sum_s = 0;      // on all stages, one after the other
  double send_s = 0;     // of an activation to the next stage, or of its gradient back
  bool hides_sends = false;
};

struct PipelineTime {
  double busy_s = 0;    // of the slowest stage
  double bubble_s = 0;  // that it waits for others to compute
  double sends_s = 0;   // that it waits for sends

  double total_s() const { return busy_s + bubble_s + sends_s; }
};

// One forward, one backward. The schedule itself gives the same where stages are equal and sends take no time;
// the tests say how far apart they are elsewhere.
PipelineTime pipeline_s(const Pipeline& pipeline);

// Micro-batches whose activations the first stage keeps, in units of all of its layers.
double in_flight(int stages, int chunks, int64_t micro_batches);

}  // namespace opentrn::planner
