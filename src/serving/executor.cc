#include "serving/executor.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::serving {
namespace {

size_t samples(const Step& step) {
  return static_cast<size_t>(
      std::count_if(step.entries.begin(), step.entries.end(), [](const StepEntry& e) { return e.samples; }));
}

}  // namespace

Outcome TimeExecutor::run(const Step& step) {
  return {times_->of(step), host_, std::vector<Sampled>(samples(step))};
}

Outcome ReplayExecutor::run(const Step& step) {
  if (next_ == outcomes_.size())
    throw Fault(FaultKind::kInput, "serving.replay", fmt::format("only {} steps were recorded", next_),
                "the requests and the configuration of the recorded run");
  if (outcomes_[next_].sampled.size() != samples(step))
    throw Fault(FaultKind::kInput, "serving.replay",
                fmt::format("step {} gives {} tokens, the recorded one gave {}", next_, samples(step),
                            outcomes_[next_].sampled.size()),
                "the requests and the configuration of the recorded run");
  return outcomes_[next_++];
}

}  // namespace opentrn::serving
