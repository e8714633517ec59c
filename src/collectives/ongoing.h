// Runs that join others while these are under way: each start costs what is left, not what has been.
//
// time_of() of all of them gives the same times to the picosecond, but has to begin anew with each start.
// Here the simulation of all stands at the last start; a copy of it runs ahead to foresee the ends.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/timing.h"

namespace opentrn::collectives {

class OngoingRuns {
 public:
  // The platform has to outlive it.
  explicit OngoingRuns(const fabric::Platform& platform);
  ~OngoingRuns();
  OngoingRuns(OngoingRuns&&) noexcept;
  OngoingRuns& operator=(OngoingRuns&&) noexcept;

  // The latest start so far; the next is not before it.
  int64_t now_ps() const { return now_ps_; }
  // Runs that start now, all of whose arrivals are at or after `now_ps`. Faults of time_of().
  void join(std::span<const Run> runs, int64_t now_ps);
  // Of the runs in the order in which they came, if no others join: the number that join() was given of them.
  size_t size() const { return runs_.size(); }
  RunTime time(size_t run) const;
  // How many steps were simulated until now, running ahead included; for tests.
  int64_t steps_simulated() const { return steps_simulated_; }

 private:
  struct State;

  const fabric::Platform* platform_;
  std::unique_ptr<State> state_;
  std::vector<Run> runs_;
  std::vector<size_t> first_step_;
  std::vector<StepTime> foreseen_;
  int64_t now_ps_ = 0, steps_simulated_ = 0;
};

}  // namespace opentrn::collectives
