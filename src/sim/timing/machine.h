// Costs, latencies and limits of one core, read from the timing table once.
#pragma once

#include <array>
#include <vector>

#include "cost/instruction.h"
#include "isa/executable.h"
#include "sim/timing/tensor_engine.h"

namespace opentrn::sim::timing {

using cost::all_pattern_facts;
using cost::DmaWork;
using cost::InstructionCost;
using cost::kPsPerNs;
using cost::PatternFacts;
using cost::to_ns;
using cost::to_ps;

// Physical cores that share one HBM stack.
int cores_per_hbm_stack(const arch::TimingTable& table);

struct Machine {
  explicit Machine(const arch::TimingTable& table);
  bool needs_table(ActivationFunction function) const { return needs_table_[static_cast<size_t>(function)]; }

  cost::InstructionCosts costs;
  Ps semaphore = 0;  // completion of one instruction to start of the one waiting for it
  Ps loop_jump = 0;  // from an iteration of a loop to the next
  Ps table_load = 0;
  Ps launch = 0;
  Ps timed_extra = 0;
  Ps collective_trigger = 0;  // on the engine that triggers it
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
