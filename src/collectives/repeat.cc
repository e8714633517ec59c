#include "collectives/repeat.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace opentrn::collectives {

namespace {

// Of each rank: the steps after which its part of the operation is done.
std::vector<std::vector<StepRef>> last_steps(const Plan& plan) {
  std::vector<std::vector<StepRef>> last(plan.steps.size());
  for (int rank = 0; rank < static_cast<int>(plan.steps.size()); ++rank) {
    const auto& steps = plan.steps[static_cast<size_t>(rank)];
    std::vector<int> of_channel(static_cast<size_t>(plan.channels), -1);
    for (int i = 0; i < static_cast<int>(steps.size()); ++i) {
      const Step& step = steps[static_cast<size_t>(i)];
      of_channel[static_cast<size_t>(step.channel)] = i;
      if (step.peer != rank) last[static_cast<size_t>(step.peer)].push_back({rank, i});
      const At* second = plan.second_target(rank, step);
      if (second && second->rank != rank) last[static_cast<size_t>(second->rank)].push_back({rank, i});
    }
    for (const int i : of_channel)
      if (i >= 0) last[static_cast<size_t>(rank)].push_back({rank, i});
  }
  return last;
}

class Repeater {
 public:
  Repeater(const Plan& plan, int times) : plan_(plan), times_(times), last_(last_steps(plan)) {
    out_ = plan;
    out_.channels = plan.channels + 1;  // one more for the signals between the operations
  }

  Plan run() {
    for (int time = 1; time < times_; ++time) {
      add_signals(time);
      for (int rank = 0; rank < ranks(); ++rank) add_copy(time, rank);
    }
    return std::move(out_);
  }

 private:
  int ranks() const { return static_cast<int>(plan_.steps.size()); }
  // Each time but the first begins with a signal, so that copy `time` starts behind `time` signals.
  int32_t shift(int time, int rank) const {
    return time * (static_cast<int32_t>(plan_.steps[static_cast<size_t>(rank)].size()) + 1);
  }
  StepRef signal(int time, int rank) const { return {rank, shift(time, rank) - 1}; }

  void add_signals(int time) {
    for (int rank = 0; rank < ranks(); ++rank) {
      Step step;
      step.peer = rank;
      step.channel = plan_.channels;
      std::vector<StepRef> waits;
      for (const StepRef& ref : last_[static_cast<size_t>(rank)])
        waits.push_back({ref.rank, ref.step + shift(time - 1, ref.rank)});
      set_waits(rank, step, waits);
      out_.steps[static_cast<size_t>(rank)].push_back(step);
    }
  }

  void add_copy(int time, int rank) {
    for (Step step : plan_.steps[static_cast<size_t>(rank)]) {
      std::vector<StepRef> waits = {signal(time, rank)};
      if (step.peer != rank) waits.push_back(signal(time, step.peer));
      if (const At* second = plan_.second_target(rank, step)) waits.push_back(signal(time, second->rank));
      for (const StepRef& wait : plan_.waits(rank, step))
        waits.push_back({wait.rank, wait.step + shift(time, wait.rank)});
      set_waits(rank, step, waits);
      out_.steps[static_cast<size_t>(rank)].push_back(step);
    }
  }

  void set_waits(int rank, Step& step, const std::vector<StepRef>& waits) {
    auto& pool = out_.wait_pool[static_cast<size_t>(rank)];
    step.waits = {static_cast<uint32_t>(pool.size()), static_cast<uint32_t>(waits.size())};
    pool.insert(pool.end(), waits.begin(), waits.end());
  }

  const Plan& plan_;
  int times_;
  std::vector<std::vector<StepRef>> last_;
  Plan out_;
};

}  // namespace

Plan repeated(const Plan& plan, int times) { return Repeater(plan, times).run(); }

}  // namespace opentrn::collectives
