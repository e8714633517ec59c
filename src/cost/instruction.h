// What an instruction costs its engine or the DMA engines, whatever the time: the one place that the timing
// model, the scheduler and the compiler's search ask. When it runs, and what it waits for, is the timing
// model's business.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "arch/timing_table.h"
#include "cost/dma.h"
#include "cost/rules.h"
#include "cost/tensor.h"
#include "isa/executable.h"

namespace opentrn::cost {

struct InstructionCost {
  Ps busy = 0;        // not Tensor: until the next instruction may start
  Ps stream = 0;      // until the last element has gone in
  TensorWork tensor;  // Tensor only
  bool uses_sbuf = false;
  bool uses_psum = false;
  bool fast_mode = false;  // Vector: on the bus shared with GpSimd
  double operations = 0;   // element operations of Vector, Scalar, GpSimd
  double sbuf_bytes = 0;   // read and written on chip
};

class InstructionCosts {
 public:
  explicit InstructionCosts(const arch::TimingTable& table);

  // kNotModelled, by name, for an instruction without a row of the table.
  InstructionCost of(const isa::Program& program, const isa::Instruction& instruction, isa::Engine engine,
                     const std::vector<PatternFacts>& patterns) const;
  // Nothing in place of that fault.
  std::optional<InstructionCost> find(const isa::Program& program, const isa::Instruction& instruction,
                                      isa::Engine engine, const std::vector<PatternFacts>& patterns) const;
  // `placements` by TensorId; tiles lie at partition 0 where there are none yet.
  DmaWork of_transfer(const isa::Program& program, const isa::Instruction& instruction,
                      std::span<const isa::Placement> placements,
                      const std::vector<PatternFacts>& patterns) const {
    return dma_.work(program, instruction, placements, patterns);
  }
  std::optional<DmaWork> find_transfer(const isa::Program& program, const isa::Instruction& instruction,
                                       std::span<const isa::Placement> placements,
                                       const std::vector<PatternFacts>& patterns) const;
  int dma_engines() const { return dma_.engines(); }

  // Of fewer columns a product costs the same.
  int64_t least_product_columns() const {
    return rules_.least_tensor_elements(isa::Opcode::kNcMatmul, TensorMode::kDefault);
  }
  bool has_product(TensorMode mode) const { return rules_.has_tensor_mode(isa::Opcode::kNcMatmul, mode); }

 private:
  CostRules rules_;
  DmaRules dma_;
  Ps rendezvous_ = 0;                  // between the cores of a logical core
  double gpsimd_dma_ps_per_byte_ = 0;  // one direction
};

}  // namespace opentrn::cost
