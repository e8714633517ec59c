// Memory of the rank that needs most, by cause.
#pragma once

#include <string>

#include "planner/job.h"
#include "planner/machine.h"
#include "planner/recompute.h"
#include "planner/stack.h"

namespace opentrn::planner {

// Bytes.
struct Memory {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;
  double working = 0;           // alive for a moment: a layer that is recomputed, logits, gathered weights
  double runtime = 0;           // context, collective buffers, what fragmentation loses
  const char* stage = "first";  // of the pipeline, that the rank is on: "first", "second" or "last"

  double total() const { return weights + gradients + optimizer + activations + working + runtime; }
};

// Activations that a token's pass through one block leaves for the backward pass, in bytes on one rank.
double kept_bytes_per_token(const Job& job, const Stack& stack, const Layout& layout, bool with_experts);

// Of all heads together, features of a token on all of tp ranks: each has a head of keys and values, also
// where there are fewer heads than ranks.
struct HeadWidths {
  double query = 0, key = 0, value = 0;
  double out = 0;  // of what attention gives
  double all() const { return query + key + value; }
};
HeadWidths head_widths(const Model& model, int tp);

// Bytes on one rank that these products of a block leave of a token, its input apart.
double kept_product_bytes(const Job& job, const Layout& layout, const KeptProducts& kept, bool with_experts);

// Of the first stage, the second or the last, whichever needs most.
Memory memory_of(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout);

// Parameters that a rank of a stage holds before ZeRO cuts them: blocks, and the embedding or the output
// layer.
double parameters_per_rank(const Model& model, const Layout& layout, bool first, bool last);
// Stages that go through a step in ticks do the same: of each chunk the blocks that have both an MLP and
// experts, as on some stage they have the one and on others the others.
int places_with_both(const Model& model, const Layout& layout);
// Of these, experts' of a middle stage: ranks of data parallelism that share them hold different ones.
double expert_parameters_per_rank(const Model& model, const Layout& layout);

// Where weights' gradients have ticks of their own: what the products of a stage's blocks were given, and the
// gradients of what they gave, of one micro-batch.
double split_bytes(const Job& job, const Layout& layout);

// Blocks of a stage between the ends, which no stage has more of; and of any one. Where the stages do not
// divide the blocks but the blocks and two more, the embedding and the output layer stand for one each; else
// the last stages have one less.
int blocks_per_stage(const Model& model, const Layout& layout);
int blocks_of(const Model& model, const Layout& layout, bool first, bool last);
bool ends_count_as_blocks(const Model& model, const Layout& layout);

// Whether every chunk of an interleaved pipeline has as many blocks, the ends counted as above.
bool chunks_are_whole(const Model& model, const Layout& layout);

}  // namespace opentrn::planner
