// Who runs a step: computes its tokens, or knows its time, or both.
//
// Values and times never meet (decision 0005): an executor returns them side by side, and the engine decides
// by its clock which times count.
#pragma once

#include <memory>
#include <vector>

#include "serving/scheduler.h"
#include "serving/step.h"
#include "serving/step_times.h"

namespace opentrn::serving {

struct Outcome {
  Ps device = 0;  // from the start of the program to its end
  Ps host = 0;    // of the host, before the device can start: planning, inputs, dispatch, sampling
  std::vector<Sampled> sampled;  // of the entries that sample, in their order: Scheduler::update()

  bool operator==(const Outcome&) const = default;
};

// Requests that the step gives a token.
int64_t tokens_of(const Step& step);

inline bool operator==(const Sampled& a, const Sampled& b) { return a.token == b.token && a.stop == b.stop; }

class Executor {
 public:
  virtual ~Executor() = default;
  // Steps come in their order. Keys and values of a request lie in the blocks of its table, in order.
  virtual Outcome run(const Step& step) = 0;
};

// What a server's host does between two steps of the device: for the step, and for each request that the step
// gives a token, where text and outputs of one request are made after those of the other.
struct HostTimes {
  Ps step = 0;
  Ps request = 0;

  Ps of(const Step& of_step) const { return step + request * tokens_of(of_step); }
};

// Knows times and computes nothing: every request gets as many tokens as it asked for.
class TimeExecutor final : public Executor {
 public:
  TimeExecutor(std::shared_ptr<const StepTimes> times, HostTimes host)
      : times_(std::move(times)), host_(host) {}
  Outcome run(const Step& step) override;

 private:
  std::shared_ptr<const StepTimes> times_;
  HostTimes host_;
};

// Passes through to another executor and keeps what it said.
class RecordingExecutor final : public Executor {
 public:
  explicit RecordingExecutor(Executor& inner) : inner_(inner) {}
  Outcome run(const Step& step) override {
    outcomes_.push_back(inner_.run(step));
    return outcomes_.back();
  }
  const std::vector<Outcome>& outcomes() const { return outcomes_; }

 private:
  Executor& inner_;
  std::vector<Outcome> outcomes_;
};

// Says again what was recorded: the same arrivals then give the same run. Input fault `serving.replay` when
// the run asks for another step than the recorded one.
class ReplayExecutor final : public Executor {
 public:
  explicit ReplayExecutor(std::vector<Outcome> outcomes) : outcomes_(std::move(outcomes)) {}
  Outcome run(const Step& step) override;

 private:
  std::vector<Outcome> outcomes_;
  size_t next_ = 0;
};

}  // namespace opentrn::serving
