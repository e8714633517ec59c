// The passes by name, and what they may read: what the pipeline runs (phases.h) and `opentrn opt` offers.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "compiler/options.h"
#include "compiler/weights/weights.h"
#include "graph/module.h"

namespace opentrn::compiler {

// How much the passes changed.
struct PassCounts {
  int64_t casts = 0;            // of auto_cast
  int64_t simplified = 0;       // ops replaced by identities
  int64_t folded = 0;           // ops that became constants
  int64_t shared = 0;           // ops that repeat another
  int64_t attention = 0;        // attentions that are one kernel
  int64_t activations = 0;      // GELU and SiLU that are one function of the Scalar engine
  int64_t integer_weights = 0;  // that the model has in eight bits and that stay so
  int64_t channels_first = 0;   // convolutions with channels last, and products over heads, turned round
  int64_t prologues = 0;        // operands of products that are computed as they are loaded
  WeightCounts weights;
};

// What a pass may read beside the function that it changes.
struct PassInput {
  const graph::Module& module;  // the model: callees and source locations
  const Options& options;
  // What kernels take whole becomes one op, which the evaluator does not know.
  bool kernel_ops = true;
};

struct Pass {
  std::string_view name;      // "fold-constants"
  std::string_view activity;  // "compiling: folding constants", which an interrupt names
  std::string_view summary;
  // Gives how much it changed: ops, weights or casts by what the pass is about; 0 where it does not count.
  int64_t (*run)(graph::Function& function, const PassInput& input, PassCounts& counts);
};

// In the order in which the pipeline runs them first.
std::span<const Pass> passes();
// Fault{kInput, "compiler.pass"} with the names that there are.
const Pass& pass_named(std::string_view name);

// Runs one. Ctrl-C and deadlines are heard before it and in it.
int64_t run(const Pass& pass, graph::Function& function, const PassInput& input, PassCounts& counts);

}  // namespace opentrn::compiler
