#include "planner/pipeline.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "planner/pipeline_events.h"
#include "planner/schedule.h"

namespace opentrn::planner {
namespace {

bool has_closed_form(Schedule schedule) {
  return schedule == Schedule::k1F1B || schedule == Schedule::kZbH1 || schedule == Schedule::kDualPipe ||
         shares_ends(schedule);
}

// Enough for a V-shaped schedule to repeat itself; an even number.
int64_t shown(int stages, int64_t micro_batches) { return std::min<int64_t>(micro_batches, 4L * stages); }

// What a V-shaped schedule waits for in a step of `shown` micro-batches, and more for each one beyond.
double v_bubble_s(const Pipeline& pipeline) {
  const std::vector<StageTime> stages(pipeline.stages,
                                      {pipeline.forward_s, pipeline.backward_s, pipeline.weight_s});
  const double each = pipeline.forward_s + pipeline.backward_s;
  const auto bubble = [&](int64_t micro_batches) {
    return run_pipeline(pipeline.schedule, stages, 1, micro_batches, 0).end_s - double(micro_batches) * each;
  };
  const int64_t most = shown(pipeline.stages, pipeline.micro_batches);
  const double first = bubble(most);
  if (most == pipeline.micro_batches) return first;
  const int64_t fewer = most - pipeline.stages;
  const double growth = (first - bubble(fewer)) / double(pipeline.stages);
  return first + std::max(0.0, growth) * double(pipeline.micro_batches - most);
}

double v_in_flight(Schedule schedule, int stages, int64_t micro_batches) {
  static std::mutex mutex;
  static std::map<std::tuple<Schedule, int, int64_t>, double> known;
  const int64_t most = shown(stages, micro_batches);
  const std::scoped_lock lock(mutex);
  const auto [at, is_new] = known.try_emplace({schedule, stages, most}, 0.0);
  // Every pass of a chunk takes one unit, as the order was made for.
  if (is_new)
    at->second = run_pipeline(schedule, std::vector<StageTime>(stages, {2, 4, 2}), 1, most, 0).in_flight;
  return at->second;
}

double bubble_s(const Pipeline& pipeline) {
  // Filling and draining pass every other stage once, with one chunk of it.
  const double others = pipeline.sum_s - pipeline.slowest_s;
  switch (pipeline.schedule) {
    case Schedule::k1F1B: return others / pipeline.chunks;
    // Weights' gradients fill the end, and there is no need to wait for those of others.
    case Schedule::kZbH1: return std::max(0.0, others - 2.0 * (pipeline.stages - 1) * pipeline.weight_s);
    case Schedule::kDualPipe:
      return (pipeline.stages / 2.0 - 1) *
             std::max(0.0, pipeline.forward_s + 2 * pipeline.backward_s - 3 * pipeline.weight_s);
    // On as many ticks each way every stage has no micro-batch, and computes all the same.
    case Schedule::kGPipe:
    case Schedule::k1F1BInTicks:
      return (pipeline.stages - 1) * (pipeline.forward_s + pipeline.backward_s) / pipeline.chunks;
    case Schedule::kDualInTicks:  // two on each of those ticks
      return 2 * (pipeline.stages - 1) * (pipeline.forward_s + pipeline.backward_s);
    case Schedule::kZbInTicks:
      return (pipeline.stages - 1) * (pipeline.forward_s + pipeline.backward_s - pipeline.weight_s);
    default: return v_bubble_s(pipeline);
  }
}

}  // namespace

PipelineTime pipeline_s(const Pipeline& pipeline) {
  PipelineTime time;
  time.busy_s = double(pipeline.micro_batches) * pipeline.slowest_s;
  if (pipeline.stages <= 1) return time;
  time.bubble_s = bubble_s(pipeline);
  // A send is waited for at every hop down and back; in between by each chunk of each micro-batch, unless it
  // goes on beside another's computation.
  const int chunks = has_closed_form(pipeline.schedule) ? pipeline.chunks : 2;
  const double hops = 2.0 * (pipeline.stages - 1);
  const double steady = 2.0 * (double(pipeline.micro_batches) * chunks - 1);
  // Each tick ends with a send, the last one too, and the next one begins behind it.
  if (shares_ends(pipeline.schedule)) {
    time.sends_s = (hops + steady + 2) * pipeline.send_s;
    return time;
  }
  time.sends_s = (hops + (pipeline.hides_sends ? 0 : steady)) * pipeline.send_s;
  return time;
}

double in_flight(Schedule schedule, int stages, int chunks, int64_t micro_batches) {
  if (stages <= 1) return 1;
  if (!has_closed_form(schedule)) return v_in_flight(schedule, stages, micro_batches);
  // Ticks without a micro-batch keep theirs too.
  const double ticks = double(micro_batches) * chunks + stages - 1;
  if (schedule == Schedule::kGPipe) return ticks;
  if (schedule == Schedule::kDualInTicks)
    return 2 * std::min(double(micro_batches) / 2 + stages - 1, 2.0 * stages - 1);
  if (goes_both_ways(schedule)) return std::min(ticks, 2.0 * stages * chunks - 1) / chunks;
  double depth = stages;
  if (schedule == Schedule::kDualPipe) depth = stages + 1;
  if (chunks > 1) depth = stages * (1 + double(stages - 1) / (double(stages) * chunks));
  return std::min(double(micro_batches), depth);
}

int stages_held(Schedule schedule) { return schedule == Schedule::kDualPipe ? 2 : 1; }

}  // namespace opentrn::planner
