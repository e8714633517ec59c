// What a run adds up, as plain numbers that can be subtracted and scaled (for extrapolated loops).
#pragma once

#include <array>
#include <cstdint>

#include "cost/rules.h"
#include "trace/summary.h"

namespace opentrn::sim::timing {

struct Totals {
  std::array<int64_t, isa::kEngineCount> busy{}, stall_engine{}, stall_dma{}, stall_other{}, instructions{};
  int64_t transfers = 0, descriptors = 0, dma_bytes = 0, hbm_read = 0, hbm_written = 0;
  int64_t dma_active = 0, dma_busy = 0;
  std::array<double, trace::kFlopKindCount> flops{};
  double operations = 0;
  double sbuf_bytes = 0;
  std::array<int64_t, trace::kResourceCount> bound_by{};

  Totals& add(const Totals& other, int64_t times);
  Totals minus(const Totals& other) const {
    Totals result = *this;
    return result.add(other, -1);
  }
};

inline Totals& Totals::add(const Totals& o, int64_t times) {
  const auto each = [times](auto& mine, const auto& theirs) {
    for (size_t i = 0; i < mine.size(); ++i)
      mine[i] += theirs[i] * static_cast<std::remove_cvref_t<decltype(mine[0])>>(times);
  };
  each(busy, o.busy);
  each(stall_engine, o.stall_engine);
  each(stall_dma, o.stall_dma);
  each(stall_other, o.stall_other);
  each(instructions, o.instructions);
  each(flops, o.flops);
  each(bound_by, o.bound_by);
  transfers += o.transfers * times;
  descriptors += o.descriptors * times;
  dma_bytes += o.dma_bytes * times;
  hbm_read += o.hbm_read * times;
  hbm_written += o.hbm_written * times;
  dma_active += o.dma_active * times;
  dma_busy += o.dma_busy * times;
  operations += o.operations * static_cast<double>(times);
  sbuf_bytes += o.sbuf_bytes * static_cast<double>(times);
  return *this;
}

}  // namespace opentrn::sim::timing
