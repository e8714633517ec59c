#include "planner/pipeline.h"

#include <algorithm>

namespace opentrn::planner {

PipelineTime pipeline_s(const Pipeline& pipeline) {
  double slowest = 0, sum = 0;
  for (const StageTime& stage : pipeline.stages) {
    slowest = std::max(slowest, stage.forward + stage.backward);
    sum += stage.forward + stage.backward;
  }
  const auto m = double(pipeline.micro_batches), stages = double(pipeline.stages.size());
  const double busy = m * slowest;
  // Filling and draining pass every other stage once, with one chunk of it.
  const double fill = (sum - slowest) / pipeline.chunks;
  // A send is waited for once on the way down and once on the way back; in between, each chunk of each
  // micro-batch waits for its neighbour's.
  const double hops = stages > 1 ? 2 * (stages - 1) + 2 * (m * pipeline.chunks - 1) : 0;
  const double sends = hops * pipeline.send_s;
  return {busy + fill + sends, busy, fill};
}

double in_flight(int stages, int chunks, int64_t micro_batches) {
  const double depth = chunks > 1 ? stages * (1 + double(stages - 1) / (double(stages) * chunks)) : stages;
  return std::min(double(micro_batches), depth);
}

}  // namespace opentrn::planner
