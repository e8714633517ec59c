// The steps of a graph in the order of time, over links that they share: what simulate() runs to the end.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/fault.h"
#include "base/interrupt.h"
#include "collectives/event_queue.h"
#include "collectives/timing_graph.h"

namespace opentrn::collectives {

// A copy goes on by itself. `TheFlows`: fabric::Flows, or fabric::AlikeFlows for large graphs.
template <typename TheFlows>
class SimulationOver {
 public:
  // The graph has to outlive it; steps may be added to it behind those that it has (extend()).
  explicit SimulationOver(const TimingGraph& graph) : graph_(&graph), flows_(graph.network) { extend(); }

  // Takes what has been added to the graph: none of it is ready before what has happened.
  void extend() {
    const size_t before = pending_.size(), steps = graph_->steps.size();
    out_.steps.resize(steps);
    pending_.resize(steps);
    burst_.resize(steps);
    moves_from_.resize(steps);
    last_burst_.resize(static_cast<size_t>(graph_->ranks));
    left_ += static_cast<int64_t>(steps - before);
    for (size_t step = before; step < steps; ++step) {
      interrupt::poll();
      const auto number = static_cast<int32_t>(step);
      pending_[step] = static_cast<int32_t>(graph_->waits.of(number).size()) + 1;
      by_ready_.push_back(number);
    }
    followers_ = graph_->waits.turned();
    const auto when = [&](int32_t step) {
      interrupt::poll();
      return of(step).ready_ps;
    };
    const auto first = by_ready_.begin() + static_cast<ptrdiff_t>(next_ready_);
    if (!std::ranges::is_sorted(first, by_ready_.end(), {}, when))
      std::ranges::stable_sort(first, by_ready_.end(), {}, when);
  }

  int64_t steps_left() const { return left_; }
  // False: it has stopped, and fabric::Flows would be faster.
  bool pays() const {
    if constexpr (requires { flows_.pays(); })
      return flows_.pays();
    else
      return true;
  }

  // All that happens before a moment; false where it stops for want of a link, or of what a step waits for.
  bool run_until(int64_t limit_ps) {
    while (left_ > 0 && pays()) {
      interrupt::poll();
      const int64_t flow_end = flows_.next_end();
      const int64_t event = events_.empty() ? INT64_MAX : events_.next_ps();
      const int64_t ready = next_ready_ < by_ready_.size() ? of(by_ready_[next_ready_]).ready_ps : INT64_MAX;
      const int64_t now = std::min({flow_end, event, ready});
      if (now == INT64_MAX) return false;
      if (now >= limit_ps) return true;
      for (const fabric::FlowId flow : flows_.advance(now))
        moved(step_of_flow_[static_cast<size_t>(flow)], now);
      for (; next_ready_ < by_ready_.size() && of(by_ready_[next_ready_]).ready_ps == now; ++next_ready_)
        release(by_ready_[next_ready_], now);
      while (!events_.empty() && events_.next_ps() == now) take_events(now);
    }
    return true;
  }

  GraphTimes run() {
    auto times = run_while_it_pays();
    OPENTRN_CHECK(times, "{} steps are left", left_);
    return std::move(*times);
  }
  // Nothing where it stopped because fabric::Flows would be faster. What the links carried is asked for at
  // the end alone: asking may solve what is under way, and pays() be true again.
  std::optional<GraphTimes> run_while_it_pays() {
    if (!run_until(INT64_MAX)) {
      say_what_is_left();
      return std::move(out_);
    }
    if (left_ > 0) return std::nullopt;
    for (size_t link = 0; link < graph_->network.links.size(); ++link)
      out_.carried.push_back(flows_.carried(static_cast<fabric::LinkId>(link)));
    return std::move(out_);
  }

 private:
  // Of steps whose first byte leaves, and, as ~step, of those whose last byte is there.
  void take_events(int64_t now) {
    happening_.clear();
    events_.pop(happening_);
    // What is close in number is close in memory, and starts alike.
    if (!std::ranges::is_sorted(happening_)) std::ranges::sort(happening_);
    for (const int32_t event : happening_) {
      interrupt::poll();
      if (event >= 0)
        start(event, now);
      else
        end(~event, now);
    }
  }

  const TimedStep& of(int32_t step) const { return graph_->steps[static_cast<size_t>(step)]; }

  void release(int32_t step, int64_t now) {
    if (--pending_[static_cast<size_t>(step)] > 0) return;
    const TimedStep& timed = of(step);
    out_.steps[static_cast<size_t>(step)].start_ps = now;
    if (timed.bursts) join_burst(step, timed, now);
    events_.push(now + timed.begin_ps + graph_->way_latency_ps[static_cast<size_t>(timed.way)], step);
  }

  void join_burst(int32_t step, const TimedStep& timed, int64_t now) {
    LastBurst& last = last_burst_[static_cast<size_t>(timed.rank)];
    if (last.at_ps != now) {
      last = {now, static_cast<int32_t>(burst_bytes_.size())};
      burst_bytes_.push_back(0);
    }
    burst_[static_cast<size_t>(step)] = last.number;
    burst_bytes_[static_cast<size_t>(last.number)] += timed.bytes * timed.at_rank;
  }

  void start(int32_t step, int64_t now) {
    const TimedStep& timed = of(step);
    if (timed.bytes == 0) return end(step, now);
    moves_from_[static_cast<size_t>(step)] = now;
    const auto hops = graph_->hops_of(timed.way);
    flow_.hops.assign(hops.begin(), hops.end());
    flow_.bytes = timed.bytes;
    flow_.bytes_per_s_max = timed.bytes_per_s_max;
    flow_.priority = timed.priority;
    flow_.multiplicity = timed.multiplicity;
    const fabric::FlowId flow = flows_.start(now, flow_);
    if (static_cast<size_t>(flow) >= step_of_flow_.size())
      step_of_flow_.resize(static_cast<size_t>(flow) + 1, -1);
    step_of_flow_[static_cast<size_t>(flow)] = step;
  }

  // The last byte has left; it is there when its packet is.
  void moved(int32_t step, int64_t now) {
    const TimedStep& timed = of(step);
    if (timed.packet_bytes == 0 || !timed.bursts) return end(step, now);
    // The packets of all that the rank was allowed to move at one time go to all targets in turn.
    const int64_t bytes = burst_bytes_[static_cast<size_t>(burst_[static_cast<size_t>(step)])];
    const double part = std::min(1.0, static_cast<double>(timed.packet_bytes) / static_cast<double>(bytes));
    const double last = static_cast<double>(now - moves_from_[static_cast<size_t>(step)]) * part;
    events_.push(now + std::llround(last), ~step);
  }

  void end(int32_t step, int64_t now) {
    out_.steps[static_cast<size_t>(step)].end_ps = now;
    --left_;
    for (const int32_t after : followers_.of(step)) release(after, now);
  }

  void say_what_is_left() {
    out_.not_carried = left_;
    for (size_t step = 0; step < pending_.size() && out_.never_starts < 0; ++step)
      if (pending_[step] > 0) out_.never_starts = static_cast<int32_t>(step);
  }

  const TimingGraph* graph_;
  TheFlows flows_;
  GraphTimes out_;
  std::vector<int32_t> pending_, by_ready_;
  // What a rank was allowed to move at one time is a burst: [step], its bytes, and the last one of each rank.
  std::vector<int32_t> burst_;
  std::vector<int64_t> burst_bytes_, moves_from_;
  struct LastBurst {
    int64_t at_ps = -1;
    int32_t number = 0;
  };
  std::vector<LastBurst> last_burst_;
  Lists followers_;
  std::vector<int32_t> step_of_flow_;
  fabric::Flow flow_;
  EventQueue events_;
  std::vector<int32_t> happening_;
  int64_t left_ = 0;
  size_t next_ready_ = 0;  // of by_ready_
};

using Simulation = SimulationOver<fabric::Flows>;

}  // namespace opentrn::collectives
