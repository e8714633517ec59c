// What an instruction asks of the Tensor engine: which row of the table it takes, and its floating-point
// operations.
#pragma once

#include <cstdint>

#include "cost/rules.h"
#include "isa/program.h"
#include "trace/summary.h"

namespace opentrn::cost {

struct TensorWork {
  Ps multiply = 0;          // initiation interval of the multiply
  Ps load = 0;              // loading the stationary matrix
  uint16_t tiles = 0xFFFF;  // of the 4 x 4 tiles of the array; bit 4 * row + column
  trace::FlopKind kind = trace::FlopKind::kBf16;
  double flops = 0;
  // A transpose of the whole array, which NeuronCore-v4 may run beside another instruction.
  bool is_transpose() const { return kind == trace::FlopKind::kTranspose && tiles == 0xFFFF; }
};

TensorWork tensor_work(const isa::Program& program, const isa::Instruction& instruction,
                       const CostRules& rules, const std::vector<PatternFacts>& patterns);

}  // namespace opentrn::cost
