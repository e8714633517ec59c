// What an instruction costs by its opcode, its engine and its size alone: for a compiler that chooses sizes
// before there is an instruction that InstructionCosts could look at, and for the scheduler (decision 0035).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "arch/timing_table.h"
#include "base/generation.h"
#include "cost/instruction.h"
#include "isa/definitions.h"

namespace opentrn::cost {

class UsualCosts {
 public:
  explicit UsualCosts(const arch::TimingTable& table);

  // How long the engine takes for so many elements of a partition: by the row that it has for itself, or by
  // the default one, whatever the condition of that row.
  double stream_ns(isa::Opcode opcode, isa::Engine engine, int64_t elements) const;
  // The same, and what passes between two instructions of the engine.
  double busy_ns(isa::Opcode opcode, isa::Engine engine, int64_t elements) const;
  // What an activation costs Scalar more than a copy of as many elements.
  double activation_extra_ns() const { return activation_extra_ns_; }
  // Before an activation whose function is in another table than that of the one before.
  double table_load_ns() const { return table_load_ns_; }
  // Whether the function is in one: the others need no load.
  bool has_table(ActivationFunction function) const { return has_table_[static_cast<size_t>(function)]; }
  // The function of an activation that is in one; nullopt for every other instruction.
  std::optional<ActivationFunction> table_of(const isa::Program& program, const isa::Instruction& in) const;
  // From the end of an instruction until another engine may use the result.
  double latency_ns(isa::Engine engine) const { return latency_ns_[static_cast<size_t>(engine)]; }
  // A transfer between HBM and a tile of `bytes` in each of `partitions`, a descriptor for each, by bytes and
  // descriptors alone; and a product of the Tensor engine at its full clock. 0 without such a row.
  double transfer_ns(int64_t partitions, int64_t bytes) const;
  double product_ns(TensorMode mode, int64_t columns) const;
  // Of all DMA engines together, and from a transfer's start until its result may be used.
  double dma_bytes_per_ns() const { return dma_bytes_per_ns_; }
  double dma_latency_ns() const { return dma_latency_ns_; }

 private:
  struct Line {
    double min_cycles = 0, cycles_per_element = 0, extra_cycles = 0;
  };
  std::array<std::array<Line, isa::kEngineCount>, isa::kOpcodeCount> lines_{};
  std::array<double, isa::kEngineCount> clock_ghz_{}, issue_cycles_{}, latency_ns_{};
  double activation_extra_ns_ = 0, table_load_ns_ = 0;
  std::array<bool, kActivationFunctionCount> has_table_{};
  double dma_bytes_per_ns_ = 1, dma_latency_ns_ = 0;
  double dma_engines_ = 1, descriptor_ns_ = 0, transfer_extra_ns_ = 0;
  struct Product {
    double min_cycles = 0, cycles_per_element = 0;
  };
  std::array<Product, kTensorModeCount> products_{};
  double tensor_clock_ghz_ = 1;
};

// Both kinds of costs.
struct Costs {
  explicit Costs(const arch::TimingTable& table) : instructions(table), usual(table) {}
  InstructionCosts instructions;
  UsualCosts usual;
};
// By the default tables; made once for each generation.
const Costs& default_costs(Generation generation);

}  // namespace opentrn::cost
