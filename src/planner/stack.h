// What a training program does with a layout: which kernels, what it hides behind compute, what it keeps.
#pragma once

#include <string>
#include <vector>

#include "arch/tables.h"
#include "planner/machine.h"

namespace opentrn::planner {

struct Stack {
  std::string name;
  bool flash = true;                 // fused attention; else the scores go through memory
  double elementwise = 1;            // traffic beside the products, against one kernel each
  double compute_efficiency = 1;     // fitted: what the rest of the program leaves of the kernels' rates
  double exposed_communication = 0;  // fitted: share of a hidden transfer that still costs time
  bool hides_gradients = false;      // reduced while the backward pass goes on
  bool hides_sends = false;          // between pipeline stages
  double hides_tp = 0;               // share of TP's transfers hidden behind products
  double gradient_bytes = 4;         // kept for a parameter
  double reduced_bytes = 4;          // sent for a parameter
  double master_bytes = 12;          // of the optimizer, for a parameter
  double logit_bytes = 14;           // alive at once, for a logit
  double kept_share = 1;             // activations kept, against the formula: 1 without fusions
  double flash_share = 1;            // of the chip's best fused attention, by this program's
  bool counts_passes = false;        // score_passes is of models without dropout, too
  double score_passes = 4.5;         // reads and writes of unfused attention's scores beside its two products
  std::string recomputes = "none selective full";  // what a search tries (recompute.h), or "layers": of some
  bool every_second_product = false;               // selective recomputation's; else it is attention's inside
  bool skips_last_product = false;  // of a block that runs forward again: nothing reads what it gives
  bool balances_context = true;     // causal work spread evenly over CP
  bool scatters_sends = true;       // TP ranks send a part each to the next stage
  double output_share = 1;       // of an encoder's tokens, those that its output layer sees: the masked ones
  bool forwards_tokens = false;  // a token goes to a server once, and from there to its experts (DeepEP)
  bool unpads = false;           // an encoder computes the tokens of its sequences and no padding
  bool adds_gradients = true;    // in kernels of their own, not where a product writes them
  double float32_slowdown = 1;   // of programs in float32, against bfloat16, where the compiler decides
  double host_step_s = 0;        // of a step beside all else: launches, the loss brought to the host
  double host_block_s = 0;       // the host's time to launch a block's forward kernels
  double host_trace_s = 0;   // of a block that the host traces before a step's first launch, nothing beside
  bool sums_sends = false;   // stages send by sums over two ranks, one of which adds zeros
  bool one_graph = false;    // the host hands no graph over before the one before it is done
  double runtime_bytes = 0;  // context, library and collective buffers
  double fragmentation = 0;  // share of what is allocated that cannot be used
  std::vector<std::string> calibrated_on;
};

Stack stack_of(const arch::Tables& tables, const std::string& name);
std::string default_stack(Kind kind);
std::vector<std::string> stacks(const arch::Tables& tables);

}  // namespace opentrn::planner
