// Costs and limits of one core, read from the timing table once.
#pragma once

#include <array>
#include <vector>

#include "isa/executable.h"
#include "sim/timing/cost_rules.h"
#include "sim/timing/dma_cost.h"
#include "sim/timing/tensor_engine.h"

namespace opentrn::sim::timing {

// What one instruction costs an engine, whatever the time.
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

struct Machine {
  explicit Machine(const arch::TimingTable& table);
  InstructionCost cost(const isa::Program& program, const isa::Instruction& instruction, isa::Engine engine,
                       const std::vector<PatternFacts>& patterns) const;
  bool needs_table(ActivationFunction function) const { return needs_table_[static_cast<size_t>(function)]; }

  CostRules rules;
  DmaRules dma_rules;
  Ps semaphore = 0;  // completion of one instruction to start of the one waiting for it
  Ps meeting = 0;    // between the cores of a logical core
  Ps table_load = 0;
  Ps launch = 0;
  Ps timed_extra = 0;
  double gpsimd_dma_ps_per_byte = 0;  // one direction
  std::array<Ps, isa::kEngineCount> result_latency{};
  bool vector_gpsimd_share_sbuf = false;
  bool fast_modes_share_gpsimd_bus = false;
  bool vector_scalar_share_psum = false;
  double tensor_peak_flops_per_ns = 0;
  double hbm_peak_bytes_per_ns = 0;  // of a stack
  double dma_engine_bytes_per_ns = 0;

 private:
  std::array<bool, kActivationFunctionCount> needs_table_{};
};

}  // namespace opentrn::sim::timing
