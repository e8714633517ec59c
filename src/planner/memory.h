// Memory of the rank that needs most, by cause.
#pragma once

#include <string>

#include "planner/job.h"
#include "planner/machine.h"
#include "planner/stack.h"

namespace opentrn::planner {

// Bytes.
struct Memory {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;
  double working = 0;  // alive for a moment: a layer that is recomputed, logits, gathered weights
  double runtime = 0;  // context, collective buffers, what fragmentation loses
  bool last_stage = false;  // the rank is on the last stage, not on the first

  double total() const { return weights + gradients + optimizer + activations + working + runtime; }
};

// Activations that a token's pass through one block leaves for the backward pass, in bytes on one rank.
double kept_bytes_per_token(const Job& job, const Stack& stack, const Layout& layout, bool with_experts);

// Of the first stage or the last, whichever needs more.
Memory memory_of(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout);

// Parameters that a rank of a stage holds before ZeRO cuts them: blocks, and the embedding or the output layer.
double parameters_per_rank(const Model& model, const Layout& layout, bool first, bool last);

// Blocks of the stage that has most.
int blocks_per_stage(const Model& model, const Layout& layout);

}  // namespace opentrn::planner
