// What instructions cost, per NeuronCore generation: the tables behind the timing model.
//
// An instruction has one or more modes (the default, and faster or slower ones with the condition
// under which each applies). A mode is a few numbers, not a formula in code:
//
//   cycles = max(min_cycles, cycles_per_element * N) + extra_cycles + cycles_per_output * outputs
//
// in cycles of the engine that runs it; what N counts is said by InstructionCost::elements. The mode
// "local_gather" has its own published formula. These are initiation intervals: when the next
// instruction may start. Latencies until a dependent instruction may start are constants.
//
//   const TimingTable& timing = arch::timing(Generation::kV3);
//   const CostMode& mode = timing.cost("tensor_tensor").mode("bf16_2x");
//   double ns = mode.cycles({.elements = 512}) / timing.clock_ghz("vector");
//   double ns = timing.constant("semaphore_latency_ns");
//   double share_of_peak = timing.curve("dma_efficiency_by_bytes_per_partition").at(2048);
//
// Where nothing is published for a generation, the row comes from the generation before, marked
// `assumed`. An instruction without any published or assumed cost faults as kNotModelled.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "arch/fact_table.h"
#include "base/generation.h"

namespace opentrn::arch {

struct CostShape {
  double elements = 0;            // N; see InstructionCost::elements
  double outputs = 0;             // topk: K
  double elements_per_index = 1;  // local_gather
  double element_bytes = 4;       // local_gather
};

struct CostMode {
  std::string name;    // "default", "fast_psum_sbuf", "bf16_2x", ...
  std::string engine;  // set when the mode is of one engine only ("scalar"); else empty
  std::string when;    // the condition, in words
  double min_cycles = 0;
  double cycles_per_element = 0;
  double extra_cycles = 0;
  double cycles_per_output = 0;
  bool borrows_gpsimd_bus = false;       // a fast mode of Vector that needs the bus it shares with GpSimd
  bool local_gather = false;             // the published gather formula instead of the linear one
  double gather_setup_cycles = 0;        // 28
  double gather_cycles_per_element = 0;  // t = 4
  Confidence confidence = Confidence::kUnknown;
  std::string source;
  std::string note;

  double cycles(const CostShape& shape) const;
  std::string formula() const;  // "max(64, 2*N)"
};

struct InstructionCost {
  std::string name;
  std::vector<std::string> engines;  // first = the usual one
  std::string elements;              // what N counts
  std::vector<CostMode> modes;       // empty: not modelled
  // Keys of what no public source gives: modes that lack one are not among `modes` until the user has stated
  // it.
  std::vector<std::string> unstated;

  // kInput, naming the modes there are, for an unknown mode; kNotModelled when there is none at all.
  const CostMode& mode(std::string_view mode_name = "default") const;
  bool has_mode(std::string_view mode_name) const;
};

// What a user may do about an instruction without a cost, of which `keys` are unstated.
std::string how_to_state(const std::vector<std::string>& keys);

// A measured curve, straight between its points; through the origin below the first, flat above the
// last.
struct Curve {
  std::string name;
  std::vector<double> x, y;
  double at(double x_value) const;
};

class TimingTable {
 public:
  TimingTable(const FactTable& facts, Generation generation);

  Generation generation() const { return generation_; }
  // kInput, with the nearest names, for an unknown instruction.
  const InstructionCost& cost(std::string_view instruction) const;
  bool has_cost(std::string_view instruction) const { return costs_.contains(std::string(instruction)); }
  // A constant of this table ("semaphore_latency_ns") or any number of the neuron_core table of this
  // generation ("dma_engine_gb_s"), so that a rate stands in one place only.
  double constant(std::string_view name) const;
  const Fact& constant_fact(std::string_view name) const;
  const Curve& curve(std::string_view name) const;
  double clock_ghz(std::string_view engine) const;  // "tensor", "vector", "scalar", "gpsimd", "sync"

  const std::map<std::string, InstructionCost>& costs() const { return costs_; }
  std::vector<std::string> constant_names() const;

 private:
  const FactTable* facts_;
  Generation generation_;
  std::string prefix_;  // "timing.v3"
  std::map<std::string, InstructionCost> costs_;
  std::map<std::string, Curve> curves_;
};

}  // namespace opentrn::arch
