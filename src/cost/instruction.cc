#include "cost/instruction.h"

namespace opentrn::cost {

using isa::Engine;
using isa::Opcode;

namespace {

bool runs_on_array(const isa::Instruction& in, Engine engine) {
  return engine == Engine::kTensor && (isa::is_matmul(in.opcode) || in.opcode == Opcode::kNcTranspose);
}

template <typename Ask>
auto unless_unknown(const Ask& ask) -> std::optional<decltype(ask())> {
  try {
    return ask();
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kNotModelled) throw;
    return std::nullopt;
  }
}

}  // namespace

InstructionCosts::InstructionCosts(const arch::TimingTable& table)
    : rules_(table),
      dma_(table, static_cast<int64_t>(table.constant("partitions"))),
      rendezvous_(to_ps(table.constant("core_rendezvous_ns"))) {
  const double gpsimd_gb_s = table.constant("gpsimd_dma_gb_s");
  gpsimd_dma_ps_per_byte_ = gpsimd_gb_s > 0 ? kPsPerNs / (gpsimd_gb_s / 2) : 0;
}

std::optional<InstructionCost> InstructionCosts::find(const isa::Program& program, const isa::Instruction& in,
                                                      Engine engine,
                                                      const std::vector<PatternFacts>& patterns) const {
  return unless_unknown([&] { return of(program, in, engine, patterns); });
}

std::optional<DmaWork> InstructionCosts::find_transfer(const isa::Program& program,
                                                       const isa::Instruction& in,
                                                       std::span<const isa::Placement> placements,
                                                       const std::vector<PatternFacts>& patterns) const {
  if (in.operand_count < 2 || !program.operand(in, 0).is_access() || !program.operand(in, 1).is_access())
    return std::nullopt;
  return unless_unknown([&] { return of_transfer(program, in, placements, patterns); });
}

InstructionCost InstructionCosts::of(const isa::Program& program, const isa::Instruction& in, Engine engine,
                                     const std::vector<PatternFacts>& patterns) const {
  InstructionCost cost;
  if (runs_on_array(in, engine)) {
    cost.tensor = tensor_work(program, in, rules_, patterns);
    return cost;
  }
  if (in.opcode == Opcode::kCoreBarrier) {
    cost.busy = cost.stream = rendezvous_;
    return cost;
  }
  if (in.opcode == Opcode::kSendRecv) {  // over GpSimd's own DMA; the other way is a DMA instruction
    const isa::Operand& dst = program.operand(in, isa::slot::sendrecv::kDst);
    const double bytes = static_cast<double>(patterns[dst.pattern].elements * size_bytes(dst.dtype));
    cost.busy = cost.stream = rendezvous_ + static_cast<Ps>(bytes * gpsimd_dma_ps_per_byte_ + 0.5);
    cost.uses_sbuf = true;
    return cost;
  }
  const OperandFeatures features = rules_.features(program, in, engine, patterns);
  const CostRules::Streaming streaming = rules_.streaming(program, in, features);
  cost.busy = streaming.busy;
  cost.stream = streaming.stream;
  cost.fast_mode = streaming.fast_mode;
  cost.uses_psum = features.psum_operands > 0;
  cost.uses_sbuf = features.access_operands > features.psum_operands;
  cost.operations = static_cast<double>(features.longest * features.rows);
  cost.sbuf_bytes = features.bytes;
  return cost;
}

}  // namespace opentrn::cost
