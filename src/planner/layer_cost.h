// Time of one transformer block's work on one rank, and of what stands before and after the blocks.
//
// Matrix products take the time of their tiles: dimensions are padded to what the chip's array or its
// multiprocessors deal out at once, and the last wave of tiles costs a whole one. Everything else is bound by
// memory. Curves of planner.toml give the rates.
#pragma once

#include <optional>

#include "planner/job.h"
#include "planner/machine.h"
#include "planner/stack.h"

namespace opentrn::planner {

// Seconds of [m, k] x [k, n] on one rank; `count` of them side by side share the chip's units.
double product_s(const Rates& rates, Precision precision, double m, double n, double k, double count = 1);
// Its arithmetic alone, had its operands no way to come.
double product_compute_s(const Rates& rates, Precision precision, double m, double n, double k,
                         double count = 1);

// One block's micro-batch on one rank. `attention_inside` is what selective recomputation repeats.
struct BlockTime {
  double forward = 0, backward = 0;
  double attention_inside = 0;
  double weights = 0;           // of backward: the weights' gradients
  std::optional<double> again;  // forward where it is run for the backward pass alone, if that is less
  double kept_bytes = 0;        // on the host, of what it gives
};

BlockTime block_s(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout,
                  bool with_experts);

// The output layer and the loss on the last stage, the embedding on the first; forward and backward together.
double output_s(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout);
double embedding_s(const Job& job, const Machine& machine, const Layout& layout);

}  // namespace opentrn::planner
