#include "serving/engine.h"

#include <algorithm>

#include "base/fault.h"

namespace opentrn::serving {
namespace {

// Steps under way at most: vLLM's batch queue with asynchronous scheduling has two places.
constexpr size_t kAsyncDepth = 2;

}  // namespace

Engine::Engine(const SchedulerConfig& config, Clock& clock, Executor& executor, Observer observer)
    : scheduler_(Scheduler::make(config)),
      clock_(clock),
      executor_(executor),
      observer_(std::move(observer)),
      depth_(config.async_scheduling ? kAsyncDepth : 1) {}

bool Engine::same_batch(const Step& step) const {
  return std::equal(step.entries.begin(), step.entries.end(), last_batch_.begin(), last_batch_.end(),
                    [](const StepEntry& entry, const Request* request) { return entry.request == request; });
}

bool Engine::start() {
  if (!may_start()) return false;
  Step step = scheduler_->schedule();
  if (step.empty()) return false;
  const Ps now = clock_.now();
  for (const StepEntry& entry : step.entries)
    if (entry.request->first_scheduled < 0) entry.request->first_scheduled = now;
  StepRecord record{now,
                    now,
                    step.phase,
                    static_cast<int32_t>(step.entries.size()),
                    scheduler_->running(),
                    scheduler_->waiting(),
                    scheduler_->pool().usable_blocks() - scheduler_->pool().free_blocks(),
                    step.tokens,
                    step.padded_tokens()};
  Outcome outcome = executor_.run(step);
  if (clock_.takes_stated_times()) {
    // On Neuron tokens stay on the device only while the batch is the same: a change waits for the outcome.
    const bool exposed = scheduler_->config().policy != Policy::kVllm && !same_batch(step);
    const Ps ready = exposed ? std::max(now, device_free_) : now;
    record.start = std::max(ready + outcome.host, device_free_);
    record.end = record.start + outcome.device;
  } else {
    record.end = clock_.now();
  }
  device_free_ = record.end;
  if (depth_ > 1) {
    last_batch_.clear();
    for (const StepEntry& entry : step.entries) last_batch_.push_back(entry.request);
  }
  in_flight_.push_back({std::move(step), std::move(outcome), record});
  return true;
}

std::optional<Ps> Engine::next_end() const {
  if (in_flight_.empty()) return std::nullopt;
  return in_flight_.front().record.end;
}

void Engine::take() {
  OPENTRN_CHECK(!in_flight_.empty(), "no step is under way");
  Flight flight = std::move(in_flight_.front());
  in_flight_.pop_front();
  const Ps end = flight.record.end;
  if (observer_) observer_(flight.step, flight.record);
  for (const StepEntry& entry : flight.step.entries) {
    if (!entry.samples || entry.request->finished()) continue;
    if (entry.request->first_token < 0) entry.request->first_token = end;
    entry.request->last_token = end;
  }
  scheduler_->update(flight.step, flight.outcome.sampled);
}

bool Engine::advance() {
  const bool started = start();
  if (started && in_flight_.size() < depth_) return true;
  if (in_flight_.empty()) return started;
  clock_.wait_until(*next_end());
  take();
  return true;
}

}  // namespace opentrn::serving
