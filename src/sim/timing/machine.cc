#include "sim/timing/machine.h"

#include <algorithm>
#include <string>

#include "arch/stated.h"

namespace opentrn::sim::timing {

namespace {

using isa::Engine;
using isa::Opcode;

bool flag(const arch::TimingTable& table, std::string_view name) {
  return table.constant_fact(name).as<bool>();
}

}  // namespace

Machine::Machine(const arch::TimingTable& table)
    : rules(table),
      dma_rules(table, static_cast<int64_t>(table.constant("partitions"))),
      semaphore(to_ps(table.constant("semaphore_wait_ns"))),
      meeting(to_ps(table.constant("core_meeting_ns"))),
      table_load(to_ps(table.constant("activation_table_load_ns"))),
      launch(to_ps(table.constant("kernel_launch_ns"))),
      timed_extra(to_ps(table.constant("nc_latency_extra_ns"))),
      vector_gpsimd_share_sbuf(flag(table, "vector_gpsimd_share_sbuf_port")),
      fast_modes_share_gpsimd_bus(flag(table, "vector_fast_modes_share_gpsimd_bus")),
      vector_scalar_share_psum(flag(table, "vector_scalar_share_psum_port")),
      hbm_peak_bytes_per_ns(table.constant("hbm_bandwidth_gb_s") * table.constant("hbm_cores_per_stack")),
      dma_engine_bytes_per_ns(table.constant("dma_engine_gb_s")) {
  for (Engine engine : {Engine::kTensor, Engine::kVector, Engine::kScalar, Engine::kGpSimd, Engine::kSync})
    if (arch::has_engine(table, isa::name(engine)))
      result_latency[static_cast<size_t>(engine)] =
          to_ps(table.constant(std::string(isa::name(engine)) + "_result_latency_ns"));
  const double gpsimd_gb_s = table.constant("gpsimd_dma_gb_s");
  gpsimd_dma_ps_per_byte = gpsimd_gb_s > 0 ? kPsPerNs / (gpsimd_gb_s / 2) : 0;
  tensor_peak_flops_per_ns =
      2 * table.constant("tensor_rows") * table.constant("tensor_columns") * table.clock_ghz("tensor");
  const auto free_functions =
      table.constant_fact("activation_functions_without_table").as<std::vector<std::string>>();
  for (int f = 0; f < kActivationFunctionCount; ++f) {
    const std::string name(opentrn::name(static_cast<ActivationFunction>(f)));
    needs_table_[static_cast<size_t>(f)] = std::ranges::find(free_functions, name) == free_functions.end();
  }
}

InstructionCost Machine::cost(const isa::Program& program, const isa::Instruction& in, Engine engine,
                              const std::vector<PatternFacts>& patterns) const {
  InstructionCost cost;
  if (engine == Engine::kTensor && (isa::is_matmul(in.opcode) || in.opcode == Opcode::kNcTranspose)) {
    cost.tensor = tensor_work(program, in, rules, patterns);
    return cost;
  }
  if (in.opcode == Opcode::kCoreBarrier) {
    cost.busy = cost.stream = meeting;
    return cost;
  }
  if (in.opcode == Opcode::kSendRecv) {  // over GpSimd's own DMA; the other way is a DMA instruction
    const isa::Operand& dst = program.operand(in, isa::slot::sendrecv::kDst);
    const double bytes = static_cast<double>(patterns[dst.pattern].elements * size_bytes(dst.dtype));
    cost.busy = cost.stream = meeting + static_cast<Ps>(bytes * gpsimd_dma_ps_per_byte + 0.5);
    cost.uses_sbuf = true;
    return cost;
  }
  const OperandFeatures features = rules.features(program, in, engine, patterns);
  const CostRules::Streaming streaming = rules.streaming(program, in, features);
  cost.busy = streaming.busy;
  cost.stream = streaming.stream;
  cost.fast_mode = streaming.fast_mode;
  cost.uses_psum = features.psum_operands > 0;
  cost.uses_sbuf = features.access_operands > features.psum_operands;
  cost.operations = static_cast<double>(features.longest * features.rows);
  cost.sbuf_bytes = features.bytes;
  return cost;
}

}  // namespace opentrn::sim::timing
