// Durations for load balancing and for ordering only: what cost/ says of a transfer, and of an instruction
// what it usually costs. The timing model asks for conditions, port sharing and issue cycles too; asked for
// them here, the scheduler orders whole models worse (docs/decisions/0035). Looked up once for all
// instructions of a kind.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "arch/arch.h"
#include "cost/usual.h"
#include "isa/kinds.h"
#include "isa/program.h"

namespace opentrn::backend {

class Estimator {
 public:
  // `kinds` of the program, which outlive this.
  Estimator(const isa::Program& program, const isa::Kinds& kinds, const arch::Tables& tables,
            Generation generation)
      : program_(program),
        kinds_(kinds),
        costs_(tables.timing(generation)),
        patterns_(cost::all_pattern_facts(program)),
        of_kind_(kinds.count()) {}
  // How long `engine` is occupied.
  double busy_ns(isa::InstructionIndex i, isa::Engine engine) const {
    double& ns = of_kind_[kinds_.of(i)].busy_ns[static_cast<size_t>(engine)];
    if (engine == isa::Engine::kDma) return dma_bytes(i) / dma_bytes_per_ns();
    if (ns < 0) [[unlikely]]
      ns = costs_.usual.stream_ns(program_.instruction(i).opcode, engine, elements(program_.instruction(i)));
    return ns;
  }
  // The same for sharing work out: with what tensor_scalar costs Scalar more than Vector, for which it is an
  // activation.
  double work_ns(isa::InstructionIndex i, isa::Engine engine) const {
    const bool as_activation =
        engine == isa::Engine::kScalar && program_.instruction(i).opcode == isa::Opcode::kTensorScalar;
    return busy_ns(i, engine) + (as_activation ? costs_.usual.activation_extra_ns() : 0);
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
  double dma_bytes(isa::InstructionIndex i) const;

 private:
  struct OfKind {
    std::array<double, isa::kEngineCount> busy_ns;
    double dma_bytes = -1;  // where all tiles begin at their first row
    OfKind() { busy_ns.fill(-1); }
  };
  double find_dma_bytes(const isa::Instruction& instruction) const;
  bool begins_at_first_rows(const isa::Instruction& instruction) const;
  // The longest operand per partition: what an engine streams over.
  int64_t elements(const isa::Instruction& instruction) const;

  const isa::Program& program_;
  const isa::Kinds& kinds_;
  cost::Costs costs_;
  std::vector<cost::PatternFacts> patterns_;
  mutable std::vector<OfKind> of_kind_;  // negative: not yet asked for
};

}  // namespace opentrn::backend
