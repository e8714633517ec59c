// How long a pipeline takes, in closed form; pipeline_events.h is its slow and obvious reference.
#pragma once

#include <cstdint>

#include "planner/job.h"

namespace opentrn::planner {

struct Pipeline {
  int stages = 1;
  Schedule schedule = Schedule::k1F1B;
  int chunks = 1;  // above 1: the interleaved schedule, whose micro-batches are a multiple of the stages
  int64_t micro_batches = 1;
  // Seconds of one micro-batch's forward and backward pass, all chunks of a stage together.
  double slowest_s = 0;  // on the slowest stage
  double sum_s = 0;      // on all stages, one after the other
  // Of a stage without the ends, where the schedule is not 1F1B: its forward pass, and the part of its
  // backward pass that gives the weights' gradients. Of GPipe with what a stage does for the embedding.
  double forward_s = 0, backward_s = 0, weight_s = 0;
  double send_s = 0;  // of an activation to the next stage, or of its gradient back
  bool hides_sends = false;
};

struct PipelineTime {
  double busy_s = 0;    // of the slowest stage
  double bubble_s = 0;  // that it waits for others to compute
  double sends_s = 0;   // that it waits for sends

  double total_s() const { return busy_s + bubble_s + sends_s; }
};

// The schedule itself gives the same where stages are equal and sends take no time; the tests say how far
// apart they are elsewhere. The V-shaped ones have no closed form: their events are run, of as many
// micro-batches as show what the others repeat.
PipelineTime pipeline_s(const Pipeline& pipeline);

// Micro-batches whose activations the fullest stage keeps, in units of all of its layers.
double in_flight(Schedule schedule, int stages, int chunks, int64_t micro_batches);
// Stages whose weights a rank holds: DualPipe's ranks hold one of each direction.
int stages_held(Schedule schedule);

}  // namespace opentrn::planner
