#include "sim/timing/machine.h"

#include <algorithm>
#include <string>

#include "arch/stated.h"

namespace opentrn::sim::timing {

namespace {

using isa::Engine;

bool flag(const arch::TimingTable& table, std::string_view name) {
  return table.constant_fact(name).as<bool>();
}

}  // namespace

int cores_per_hbm_stack(const arch::TimingTable& table) {
  return std::max(1, static_cast<int>(table.constant("hbm_cores_per_stack")));
}

Machine::Machine(const arch::TimingTable& table)
    : costs(table),
      semaphore(to_ps(table.constant("semaphore_wait_ns"))),
      loop_jump(to_ps(table.constant("loop_jump_ns"))),
      table_load(to_ps(table.constant("activation_table_load_ns"))),
      launch(to_ps(table.constant("kernel_launch_ns"))),
      timed_extra(to_ps(table.constant("nc_latency_extra_ns"))),
      collective_trigger(to_ps(table.constant("dma_trigger_ns"))),
      vector_gpsimd_share_sbuf(flag(table, "vector_gpsimd_share_sbuf_port")),
      fast_modes_share_gpsimd_bus(flag(table, "vector_fast_modes_share_gpsimd_bus")),
      vector_scalar_share_psum(flag(table, "vector_scalar_share_psum_port")),
      hbm_peak_bytes_per_ns(table.constant("hbm_bandwidth_gb_s") * table.constant("hbm_cores_per_stack")),
      dma_engine_bytes_per_ns(table.constant("dma_engine_gb_s")) {
  for (Engine engine : {Engine::kTensor, Engine::kVector, Engine::kScalar, Engine::kGpSimd, Engine::kSync})
    if (arch::has_engine(table, isa::name(engine)))
      result_latency[static_cast<size_t>(engine)] =
          to_ps(table.constant(std::string(isa::name(engine)) + "_result_latency_ns"));
  tensor_peak_flops_per_ns =
      2 * table.constant("tensor_rows") * table.constant("tensor_columns") * table.clock_ghz("tensor");
  const auto free_functions =
      table.constant_fact("activation_functions_without_table").as<std::vector<std::string>>();
  for (int f = 0; f < kActivationFunctionCount; ++f) {
    const std::string name(opentrn::name(static_cast<ActivationFunction>(f)));
    needs_table_[static_cast<size_t>(f)] = std::ranges::find(free_functions, name) == free_functions.end();
  }
}

}  // namespace opentrn::sim::timing
