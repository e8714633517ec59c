#include "collectives/ongoing.h"

#include <optional>

#include "base/fault.h"
#include "collectives/simulation.h"

namespace opentrn::collectives {

struct OngoingRuns::State {
  TimingGraph graph;
  std::optional<Simulation> simulation;
};

namespace {

// Behind the steps of a graph those of another over the same network, which wait for each other only.
void append(TimingGraph& to, TimingGraph&& more) {
  if (to.steps.empty()) {
    to = std::move(more);
    return;
  }
  const auto first_step = static_cast<int32_t>(to.steps.size());
  const auto first_way = static_cast<int32_t>(to.way_latency_ps.size());
  for (int32_t way = 0; way < static_cast<int32_t>(more.way_latency_ps.size()); ++way)
    to.add_way(more.hops_of(way), more.way_latency_ps[static_cast<size_t>(way)]);
  for (TimedStep step : more.steps) {
    step.way += first_way;
    step.rank += to.ranks;
    to.steps.push_back(step);
  }
  for (int32_t step = 0; step < static_cast<int32_t>(more.steps.size()); ++step) {
    for (const int32_t before : more.waits.of(step)) to.waits.items.push_back(before + first_step);
    to.waits.close();
  }
  to.ranks += more.ranks;
}

}  // namespace

OngoingRuns::OngoingRuns(const fabric::Platform& platform)
    : platform_(&platform), state_(std::make_unique<State>()) {}
OngoingRuns::~OngoingRuns() = default;
OngoingRuns::OngoingRuns(OngoingRuns&&) noexcept = default;
OngoingRuns& OngoingRuns::operator=(OngoingRuns&&) noexcept = default;

void OngoingRuns::join(std::span<const Run> runs, int64_t now_ps) {
  OPENTRN_CHECK(now_ps >= now_ps_, "a run starts at {} ps, after one at {} ps", now_ps, now_ps_);
  now_ps_ = now_ps;
  State& state = *state_;
  if (state.simulation) state.simulation->run_until(now_ps);
  size_t first = state.graph.steps.size();
  append(state.graph, timing_graph(*platform_, runs));
  for (const Run& run : runs) {
    runs_.push_back(run);
    first_step_.push_back(first);
    first += run.plan->step_count();
  }
  if (state.simulation)
    state.simulation->extend();
  else
    state.simulation.emplace(state.graph);
  Simulation ahead = *state.simulation;
  steps_simulated_ += ahead.steps_left();
  GraphTimes times = ahead.run();
  if (times.not_carried > 0) (void)time_of(*platform_, runs_);  // says why
  foreseen_ = std::move(times.steps);
}

RunTime OngoingRuns::time(size_t run) const {
  return run_time(runs_.at(run), std::span(foreseen_).subspan(first_step_.at(run)));
}

}  // namespace opentrn::collectives
