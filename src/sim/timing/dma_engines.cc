#include "sim/timing/dma_engines.h"

#include <algorithm>

namespace opentrn::sim::timing {

using isa::DgeMode;
using isa::Engine;

DmaEngines::DmaEngines(const arch::TimingTable& table, int engines)
    : count_(engines), start_latency_(to_ps(table.constant("dma_start_latency_ns"))),
      swdge_latency_(to_ps(table.constant("dma_swdge_start_latency_ns"))),
      hwdge_latency_(to_ps(table.constant("dma_hwdge_start_latency_ns"))),
      completion_(to_ps(table.constant("dma_completion_latency_ns"))), trigger_(to_ps(table.constant("dma_trigger_ns"))),
      hwdge_instruction_(to_ps(table.constant("hwdge_instruction_ns"))),
      swdge_descriptor_ps_(table.constant("dma_swdge_descriptor_ns") * kPsPerNs) {
  holder_.fill(kNobody);
  unit_holder_.fill(kNobody);
  for (Engine engine : {Engine::kTensor, Engine::kVector, Engine::kScalar, Engine::kGpSimd, Engine::kSync})
    hwdge_trigger_[static_cast<size_t>(engine)] = to_ps(table.constant("dma_hwdge_trigger_cycles") / table.clock_ghz(isa::name(engine)));
}

void DmaEngines::generate(Ps issue, Engine trigger, DgeMode mode, const DmaWork& work, uint32_t id, Transfer& transfer) {
  const size_t unit = static_cast<size_t>(trigger);
  transfer.descriptors_begin = transfer.descriptors_end = issue;
  if (mode == DgeMode::kHwdge) {
    // Each unit takes commands from one sequencer and works through them; the sequencer goes on.
    transfer.trigger_free = issue + hwdge_trigger_[unit];
    transfer.descriptors_begin = std::max(issue, unit_free_[unit]);
    if (transfer.descriptors_begin > issue) transfer.generated_behind = unit_holder_[unit];
    unit_free_[unit] = transfer.descriptors_begin + hwdge_instruction_;
    unit_holder_[unit] = id;
    transfer.descriptors_end = unit_free_[unit];
    transfer.arrival = unit_free_[unit] + hwdge_latency_;
  } else if (mode == DgeMode::kSwdge) {
    // GpSimd writes the descriptors itself; the first engines start before the last descriptor is there.
    transfer.trigger_free = issue + static_cast<Ps>(swdge_descriptor_ps_ * static_cast<double>(work.descriptors) + 0.5);
    transfer.arrival = issue + swdge_latency_;
  } else {
    transfer.trigger_free = issue + trigger_;
    transfer.arrival = issue + start_latency_;
  }
}

Transfer DmaEngines::run(Ps issue, Engine trigger, DgeMode mode, const DmaWork& work, HbmStack& hbm, uint32_t id) {
  Transfer transfer;
  generate(issue, trigger, mode, work, id, transfer);
  Ps first_begin = 0;
  transfer.engines_end = -1;
  for (int e = work.first_engine; e <= work.last_engine; ++e) {
    const size_t engine = static_cast<size_t>(e);
    const Ps busy = e == work.first_engine ? work.first_busy : e == work.last_engine ? work.last_busy : work.middle_busy;
    const Ps begin = std::max(transfer.arrival, free_[engine]);
    const Ps end = begin + busy;
    if (e == work.first_engine || begin < first_begin) first_begin = begin;
    if (end > transfer.engines_end) {
      transfer.engines_end = end;
      transfer.data_begin = begin;
      transfer.queued_behind = begin > transfer.arrival ? holder_[engine] : kNobody;
    }
    free_[engine] = end;
    holder_[engine] = id;
    busy_ += busy;
  }
  const int64_t hbm_bytes = work.hbm_read + work.hbm_written;
  transfer.data_end = hbm_bytes > 0 ? std::max(transfer.engines_end, hbm.reserve(first_begin, hbm_bytes)) : transfer.engines_end;
  active_ += std::max<Ps>(0, transfer.data_end - std::max(first_begin, active_until_));
  active_until_ = std::max(active_until_, transfer.data_end);
  transfer.complete = transfer.data_end + completion_;
  return transfer;
}

void DmaEngines::shift(Ps by) {
  for (Ps& free : free_) free += by;
  for (Ps& free : unit_free_) free += by;
  active_until_ += by;
}

}  // namespace opentrn::sim::timing
