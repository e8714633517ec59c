#include <algorithm>

#include "arch/totals.h"
#include "profile/model.h"

namespace opentrn::profile {

namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

int64_t share_of(const arch::Chip& chip) {
  if (!chip.memory_gib.known() || !chip.cores.known()) return -1;
  return static_cast<int64_t>(chip.memory_gib * kGiB / chip.cores);
}

Serving::Rate rate(const arch::Spec<double>& usd_h, double inferences_per_s) {
  if (!usd_h.known()) return {};
  return {true, usd_h, usd_h / 3600 / inferences_per_s * 1e6};
}

Serving row(const arch::Chip& chip, int chips, const arch::Price& price, double latency_ns,
            int64_t hbm_bytes) {
  Serving serving;
  serving.chip = chip.name;
  serving.chips = chips;
  serving.cores = chips * chip.cores;
  const int64_t share = share_of(chip);
  serving.fits = share < 0 || hbm_bytes <= share;
  serving.inferences_per_s = serving.cores * 1e9 / latency_ns;
  serving.on_demand = rate(price.on_demand_usd_h, serving.inferences_per_s);
  serving.reserved = rate(price.reserved_usd_h, serving.inferences_per_s);
  serving.capacity_block = rate(price.capacity_block_usd_h, serving.inferences_per_s);
  return serving;
}

}  // namespace

int64_t hbm_bytes_per_core(const arch::Tables& tables, Generation generation) {
  int64_t smallest = -1;
  for (const arch::Chip& chip : tables.chips())
    if (const int64_t share = share_of(chip); chip.generation == generation && share >= 0)
      smallest = smallest < 0 ? share : std::min(smallest, share);
  return smallest;
}

std::vector<Serving> serving(const arch::Tables& tables, Generation generation, double latency_ns,
                             int64_t hbm_bytes, int cores_used) {
  std::vector<Serving> rows;
  if (latency_ns <= 0) return rows;
  for (const arch::Instance& instance : tables.instances()) {
    const arch::Chip& chip = tables.chip(instance.chip);
    if (chip.generation != generation) continue;
    rows.push_back(row(chip, instance.chips, instance.price, latency_ns * cores_used, hbm_bytes));
    rows.back().instance = instance.name;
  }
  for (const arch::UltraServer& server : tables.ultraservers()) {
    const arch::Chip& chip = tables.chip(server.chip);
    if (chip.generation != generation) continue;
    rows.push_back(row(chip, server.servers * server.chips_per_server, server.price, latency_ns * cores_used,
                       hbm_bytes));
    rows.back().instance = server.name;
  }
  std::ranges::stable_sort(rows, {}, [](const Serving& row) { return std::pair(row.cores, row.instance); });
  return rows;
}

void add_serving(ModelProfile& model, const isa::Executable& executable, const arch::Tables& tables,
                 double beside_copies_ns, int cores_used) {
  model.busy_latency_ns = beside_copies_ns > 0 ? model.launch_ns + beside_copies_ns : model.latency_ns;
  model.serving =
      serving(tables, executable.generation, model.busy_latency_ns, executable.hbm_bytes_used, cores_used);
}

}  // namespace opentrn::profile
