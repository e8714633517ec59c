#include "planner/pipeline.h"

#include <algorithm>

namespace opentrn::planner {

PipelineTime pipeline_s(const Pipeline& pipeline) {
  PipelineTime time;
  time.busy_s = double(pipeline.micro_batches) * pipeline.slowest_s;
  if (pipeline.stages <= 1) return time;
  // Filling and draining pass every other stage once, with one chunk of it.
  time.bubble_s = (pipeline.sum_s - pipeline.slowest_s) / pipeline.chunks;
  // A send is waited for at every hop down and back; in between by each chunk of each micro-batch, unless it
  // goes on beside another's computation.
  const double hops = 2.0 * (pipeline.stages - 1);
  const double steady = 2.0 * (double(pipeline.micro_batches) * pipeline.chunks - 1);
  time.sends_s = (hops + (pipeline.hides_sends ? 0 : steady)) * pipeline.send_s;
  return time;
}

double in_flight(int stages, int chunks, int64_t micro_batches) {
  const double depth = chunks > 1 ? stages * (1 + double(stages - 1) / (double(stages) * chunks)) : stages;
  return std::min(double(micro_batches), depth);
}

}  // namespace opentrn::planner
