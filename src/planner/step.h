// The time of one training step in a layout, by cause: the planner's full evaluation.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "planner/job.h"
#include "planner/layer_times.h"
#include "planner/machine.h"
#include "planner/memory.h"
#include "planner/stack.h"

namespace opentrn::planner {

// Seconds of a step that each cause is waited for, on the slowest stage.
struct StepTime {
  double compute = 0;  // forward and backward
  double recompute = 0;
  double tp = 0, cp = 0, ep = 0;  // their collectives, where nothing hides them
  double pp = 0;                  // sends between stages
  double bubble = 0;
  double gradients = 0;  // reduced over dp, and weights gathered: what is not hidden
  double optimizer = 0;
  double host = 0;

  double total() const {
    return compute + recompute + tp + cp + ep + pp + bubble + gradients + optimizer + host;
  }
};

struct Estimate {
  Layout layout;
  StepTime time;
  Memory memory;
  double step_s = 0;
  double mfu = 0;  // of the data sheet's peak, of all chips
  bool fits = false;
  std::string_view bound_by;  // the largest cause beside compute, or "compute"
  // The step by curves, where the layers' times are from another source (recost.h).
  std::optional<double> curves_s;
  // The step by two tiers of links, where its collectives are simulated on the cluster's (links.h).
  std::optional<double> tiers_s;
  std::string_view layers = "curves";             // that source
  std::shared_ptr<const LayerTimes> layer_times;  // of it
};

// One micro-batch's passes through a stage, waits included; the stages at the ends add theirs to it.
struct MicroBatch {
  double forward_s = 0, backward_s = 0;    // recomputation is backward's
  double weight_s = 0;                     // of backward: the weights' gradients
  double first_share = 1, last_share = 1;  // of these, by the stages at the ends, which may have fewer blocks
  double first_s = 0, last_s = 0;          // of the embedding, and of the output layer with the loss
  double send_s = 0;
  int64_t count = 0;  // in a step
};
MicroBatch micro_batch_of(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout,
                          const LayerTimes* layers = nullptr);

// `layers`: times of them in place of the curves'.
Estimate evaluate(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout,
                  const LayerTimes* layers = nullptr);

// Why a layout is none for this job and machine; empty where it is one.
std::string illegal_because(const Job& job, const Machine& machine, const Layout& layout);

}  // namespace opentrn::planner
