// What a micro-batch waits for collectives of weights and gradients that go on beside its passes.
//
// A compiled program gathers ZeRO-3's weights from its beginning and sums gradients as they are made. Parts
// and collectives then share the memory of the core, and a part may have to wait for what it reads. Both are
// scheduled as those of a program are (spmd/schedule.h), with the pieces of a plan as parts.
//
// Assumed: where in a backward piece a gradient is made (in the order of the work). The bytes of collectives
// are those of a ring, which reads and writes what a rank passes on once each, and reads what it adds.
#pragma once

#include <vector>

#include "planner/compiled/piece_times.h"
#include "planner/job.h"
#include "planner/machine.h"

namespace opentrn::planner::compiled {

struct WeightTensor {
  double bytes = 0;    // of a rank, whole
  double made_at = 1;  // its gradient, as a share of the backward piece's time
};

// Between two meetings of a rank with others: a half of a block.
struct HalfPasses {
  PieceTime forward, backward;
  std::vector<WeightTensor> weights;
};

struct MicroBatchPasses {
  PieceTime embedding, logits, shares, logits_backward, embedding_backward;
  HalfPasses attention, mlp;
  int layers = 0;
  double embedding_bytes = 0, output_bytes = 0;  // of a rank; output 0: it is the embedding
  PieceTime optimizer;     // behind the backward pass, where there is one micro-batch; else nothing
  bool recompute = false;  // blocks run forward again in the backward pass
  bool updates = false;    // a backward piece updates the weights of the one before it
};

// Seconds, by which the passes take longer.
double weights_wait_s(const MicroBatchPasses& passes, const Machine& machine, const Layout& layout);

}  // namespace opentrn::planner::compiled
