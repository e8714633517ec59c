// One engine: requests in, steps one after the other, tokens out.
//
// The loop is vLLM's. Synchronously a step is planned, run, and its outcome taken; asynchronously the next
// step is planned while one runs, so the host's part is hidden, and a request that comes meanwhile waits for
// the step after the planned one.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "serving/clock.h"
#include "serving/executor.h"
#include "serving/scheduler.h"

namespace opentrn::serving {

// What happened in a step, for metrics and plots.
struct StepRecord {
  Ps start, end;  // of the device's part
  Phase phase;
  int32_t requests;  // in the step
  int32_t running, waiting, used_blocks;
  int64_t tokens, padded_tokens;
};

class Engine {
 public:
  // `observer` is told of every step when its outcome has come.
  using Observer = std::function<void(const Step&, const StepRecord&)>;

  Engine(const SchedulerConfig& config, Clock& clock, Executor& executor, Observer observer = {});

  void add(Request& request) { scheduler_->add(request); }
  void abort(Request& request) { scheduler_->abort(request); }
  const Scheduler& scheduler() const { return *scheduler_; }

  // Something to plan or to wait for.
  bool busy() const { return scheduler_->has_requests() || !in_flight_.empty(); }
  // Until one step's outcome has come, or one more is under way. False when nothing could be done: no request
  // can run, and none is under way.
  bool advance();
  // When the outcome of the oldest step under way comes; nothing where none is.
  std::optional<Ps> next_end() const;
  // Plans and starts a step if one may be now. Its outcome comes at next_end().
  bool start();
  // Takes the outcome of the oldest step under way, whose end is the clock's now or before.
  void take();
  // The time until which the device is occupied.
  Ps device_free() const { return device_free_; }
  // Whether another step may be planned before an outcome is taken.
  bool may_start() const { return scheduler_->has_requests() && in_flight_.size() < depth_; }

 private:
  struct Flight {
    Step step;
    Outcome outcome;
    StepRecord record;
  };

  bool same_batch(const Step& step) const;

  std::unique_ptr<Scheduler> scheduler_;
  Clock& clock_;
  Executor& executor_;
  Observer observer_;
  size_t depth_;
  std::deque<Flight> in_flight_;
  std::vector<const Request*> last_batch_;
  Ps device_free_ = 0;
};

}  // namespace opentrn::serving
