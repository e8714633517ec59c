// Durations for load balancing and for ordering only: what cost/ says of a transfer, and of an instruction
// what it usually costs. The timing model asks for conditions, port sharing and issue cycles too; asked for
// them here, the scheduler orders whole models worse (docs/decisions/0035).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arch/arch.h"
#include "cost/usual.h"
#include "isa/program.h"

namespace opentrn::backend {

class Estimator {
 public:
  Estimator(const isa::Program& program, const arch::Tables& tables, Generation generation)
      : program_(program), costs_(tables.timing(generation)), patterns_(cost::all_pattern_facts(program)) {}
  // How long `engine` is occupied.
  double busy_ns(const isa::Instruction& instruction, isa::Engine engine) const;
  // The same for sharing work out: with what tensor_scalar costs Scalar more than Vector, for which it is an
  // activation.
  double work_ns(const isa::Instruction& instruction, isa::Engine engine) const {
    const bool as_activation =
        engine == isa::Engine::kScalar && instruction.opcode == isa::Opcode::kTensorScalar;
    return busy_ns(instruction, engine) + (as_activation ? costs_.usual.activation_extra_ns() : 0);
  }
  // Before an activation of another function.
  double table_load_ns() const { return costs_.usual.table_load_ns(); }
  std::optional<ActivationFunction> table_of(const isa::Instruction& instruction) const {
    return costs_.usual.table_of(program_, instruction);
  }
  // From issue until others may use the result, beyond busy_ns.
  double latency_ns(isa::Engine engine) const { return costs_.usual.latency_ns(engine); }
  double dma_bytes_per_ns() const { return costs_.usual.dma_bytes_per_ns(); }
  double dma_latency_ns() const { return costs_.usual.dma_latency_ns(); }
  // What a transfer takes of all engines' bandwidth: its bytes, or more when the engines need longer for
  // them.
  double dma_bytes(const isa::Instruction& instruction) const;

 private:
  // The longest operand per partition: what an engine streams over.
  int64_t elements(const isa::Instruction& instruction) const;

  const isa::Program& program_;
  cost::Costs costs_;
  std::vector<cost::PatternFacts> patterns_;
};

}  // namespace opentrn::backend
