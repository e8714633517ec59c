#include "serving/executor.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::serving {

int64_t tokens_of(const Step& step) {
  return std::count_if(step.entries.begin(), step.entries.end(),
                       [](const StepEntry& e) { return e.samples; });
}

Outcome TimeExecutor::run(const Step& step) {
  return {times_->of(step), host_.of(step), std::vector<Sampled>(static_cast<size_t>(tokens_of(step)))};
}

Outcome ReplayExecutor::run(const Step& step) {
  if (next_ == outcomes_.size())
    throw Fault(FaultKind::kInput, "serving.replay", fmt::format("only {} steps were recorded", next_),
                "the requests and the configuration of the recorded run");
  if (outcomes_[next_].sampled.size() != static_cast<size_t>(tokens_of(step)))
    throw Fault(FaultKind::kInput, "serving.replay",
                fmt::format("step {} gives {} tokens, the recorded one gave {}", next_, tokens_of(step),
                            outcomes_[next_].sampled.size()),
                "the requests and the configuration of the recorded run");
  return outcomes_[next_++];
}

}  // namespace opentrn::serving
