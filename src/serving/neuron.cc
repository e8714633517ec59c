// AWS's scheduling rules, over the base scheduler.
//
// Source of `neuron`: aws-neuron-sdk, vllm-neuron/docs/design/vllm/neuron-scheduler.md (2026-06-23). Source
// of `neuron-nxdi`: the behaviour of the public vllm-project/vllm-neuron 0.2.
#include <algorithm>
#include <iterator>

#include "serving/scheduler.h"

namespace opentrn::serving {
namespace {

bool prefilling(const Request* request) { return request->computed_tokens < request->prompt_tokens; }

// Both policies let the base see one waiting request at most, and none of the running ones that would bring
// decode into a step of prefill; afterwards everything is put back.
class NeuronScheduler : public Scheduler {
 public:
  explicit NeuronScheduler(const SchedulerConfig& config)
      : Scheduler(config), concurrent_(config.num_blocks / config.blocks_of(config.max_model_len)) {}

 protected:
  void plan(Step& step) override {
    const bool under_way = continues_prefill();
    std::deque<Request*> held;
    held.swap(waiting_);
    if (admits(under_way)) {
      const auto next =
          std::ranges::find_if(held, [&](const Request* one) { return adapter_fits(*one, running_); });
      if (next != held.end()) {
        waiting_.push_back(*next);
        held.erase(next);
      }
    }
    std::vector<Request*> hidden;
    if (under_way) {
      std::vector<Request*> shown;
      for (Request* request : running_) (prefilling(request) ? shown : hidden).push_back(request);
      running_ = std::move(shown);
    } else if (!waiting_.empty()) {
      hidden.swap(running_);
    }
    plan_base(step);
    running_.insert(running_.end(), hidden.begin(), hidden.end());
    // What the base left or preempted comes before what it never saw, though one may have been passed by.
    waiting_.insert(waiting_.end(), held.begin(), held.end());
  }

  // A prompt that takes several steps is between two of them.
  virtual bool continues_prefill() const {
    for (const Request* request : running_)
      if (prefilling(request)) return true;
    return false;
  }

  // Whether the next request in line may be prefilled. There is no preemption on Neuron: every running
  // request may grow to max_model_len, and no more are admitted than have the blocks for that.
  virtual bool admits(bool under_way) const {
    return running() < config_.max_num_seqs && !under_way && running() < concurrent_;
  }

 private:
  int32_t concurrent_;
};

// The plugin before 0.21: a prompt is one step, and only places are counted.
class NxdiScheduler final : public NeuronScheduler {
 public:
  using NeuronScheduler::NeuronScheduler;

 protected:
  bool continues_prefill() const override { return false; }
  bool admits(bool) const override { return running() < config_.max_num_seqs; }
};

class VllmScheduler final : public Scheduler {
 public:
  explicit VllmScheduler(const SchedulerConfig& config) : Scheduler(config) {}
};

}  // namespace

std::unique_ptr<Scheduler> Scheduler::make(const SchedulerConfig& config) {
  switch (config.policy) {
    case Policy::kNeuron: return std::make_unique<NeuronScheduler>(config);
    case Policy::kNeuronNxdi: return std::make_unique<NxdiScheduler>(config);
    case Policy::kVllm: return std::make_unique<VllmScheduler>(config);
  }
  return nullptr;
}

}  // namespace opentrn::serving
