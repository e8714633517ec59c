#include "arch/totals.h"

namespace opentrn::arch {
namespace {

Totals of_chips(const Chip& chip, int chips) {
  Totals out;
  out.chips = chips;
  out.cores = chips * chip.cores;
  out.memory_gib = chips * chip.memory_gib;
  out.memory_bandwidth_gb_s = chips * chip.memory_bandwidth_gb_s;
  for (const auto& [dtype, tflops] : chip.peak_tflops)
    if (tflops.known()) out.peak_tflops[dtype] = chips * tflops;
  return out;
}

}  // namespace

Totals totals(const Tables& tables, const Instance& instance) {
  return of_chips(tables.chip(instance.chip), instance.chips);
}

Totals totals(const Tables& tables, const UltraServer& ultraserver) {
  return of_chips(tables.chip(ultraserver.chip), ultraserver.servers * ultraserver.chips_per_server);
}

double tensor_tflops(const NeuronCore& core) {
  return core.tensor_rows * core.tensor_columns * 2 * core.tensor_clock_ghz / 1000;
}

}  // namespace opentrn::arch
