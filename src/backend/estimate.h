// Rough durations, for load balancing and for ordering only: the timing model has the real rules.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "arch/arch.h"
#include "isa/definitions.h"
#include "isa/program.h"

namespace opentrn::backend {

class Estimator {
 public:
  Estimator(const isa::Program& program, const arch::Tables& tables, arch::Generation generation);
  // How long `engine` is occupied.
  double busy_ns(const isa::Instruction& instruction, isa::Engine engine);
  // What tensor_scalar costs Scalar more than Vector: there it is an activation.
  double as_activation_ns(const isa::Instruction& instruction, isa::Engine engine) const {
    const bool is = engine == isa::Engine::kScalar && instruction.opcode == isa::Opcode::kTensorScalar;
    return is ? activation_overhead_ns_ : 0;
  }
  // From issue until others may use the result, beyond busy_ns.
  double latency_ns(isa::Engine engine) const { return latency_ns_[static_cast<size_t>(engine)]; }
  double dma_bytes_per_ns() const { return dma_bytes_per_ns_; }
  double dma_latency_ns() const { return dma_latency_ns_; }
  // What a transfer takes of all engines' bandwidth: its bytes, or more when it is cut into descriptors so
  // small that their number decides.
  double dma_bytes(const isa::Instruction& instruction);

 private:
  struct Line {
    double min_ns = 0, ns_per_element = 0, extra_ns = 0;
  };
  int64_t elements(const isa::Instruction& instruction);

  const isa::Program& program_;
  std::array<std::array<Line, isa::kEngineCount>, isa::kOpcodeCount> lines_{};
  std::array<double, isa::kEngineCount> latency_ns_{};
  int64_t run(const isa::Operand& operand);

  std::vector<int64_t> per_partition_;  // by PatternId, -1 unknown
  std::vector<int64_t> run_;            // likewise: elements of the innermost run
  double dma_bytes_per_ns_ = 1;
  double dma_descriptor_bytes_ = 1;  // that an engine moves in the time of the smallest descriptor
  double dma_latency_ns_ = 0;
  double activation_overhead_ns_ = 0;
};

}  // namespace opentrn::backend
