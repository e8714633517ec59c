// The DMA engines of a core and the HBM behind them, between instructions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "sim/timing/dma_cost.h"

namespace opentrn::sim::timing {

// One HBM stack; the cores on it share its bandwidth, first come, first served.
class HbmStack {
 public:
  explicit HbmStack(const arch::TimingTable& table) : ps_per_byte_(kPsPerNs / table.constant("hbm_sustained_gb_s")) {}
  // When `bytes` have passed, if they start at `start`.
  Ps reserve(Ps start, int64_t bytes) {
    free_ = std::max(free_, start) + static_cast<Ps>(static_cast<double>(bytes) * ps_per_byte_ + 0.5);
    return free_;
  }
  void shift(Ps by) { free_ += by; }

 private:
  double ps_per_byte_;
  Ps free_ = 0;
};

inline constexpr uint32_t kNobody = 0xFFFFFFFFu;

// What happened to one transfer.
struct Transfer {
  Ps trigger_free = 0;       // the triggering engine can go on
  Ps descriptors_begin = 0;  // generation begins, after waiting for the unit that does it
  Ps descriptors_end = 0;
  Ps arrival = 0;            // descriptors are at the DMA engines
  Ps data_begin = 0;         // of the engine that finishes last
  Ps engines_end = 0;        // that engine's own rate
  Ps data_end = 0;           // after HBM had its say
  Ps complete = 0;           // the semaphore is seen
  uint32_t queued_behind = kNobody;      // transfer that held that engine
  uint32_t generated_behind = kNobody;   // transfer that held the descriptor unit
};

class DmaEngines {
 public:
  DmaEngines(const arch::TimingTable& table, int engines);
  // `id` names the transfer for queued_behind.
  Transfer run(Ps issue, isa::Engine trigger, isa::DgeMode mode, const DmaWork& work, HbmStack& hbm, uint32_t id);
  // Time in which at least one engine was busy, and the sum over engines.
  Ps active() const { return active_; }
  Ps busy() const { return busy_; }
  Ps free_of(int engine) const { return free_[static_cast<size_t>(engine)]; }
  void shift(Ps by);

 private:
  void generate(Ps issue, isa::Engine trigger, isa::DgeMode mode, const DmaWork& work, uint32_t id, Transfer& transfer);

  int count_ = 0;
  std::array<Ps, kDmaEnginesMax> free_{};
  std::array<uint32_t, kDmaEnginesMax> holder_{};
  std::array<Ps, isa::kEngineCount> unit_free_{};        // descriptor generation, by triggering engine
  std::array<uint32_t, isa::kEngineCount> unit_holder_{};
  Ps active_ = 0, active_until_ = 0, busy_ = 0;
  Ps start_latency_ = 0, swdge_latency_ = 0, hwdge_latency_ = 0, completion_ = 0;
  Ps trigger_ = 0, hwdge_instruction_ = 0;
  double swdge_descriptor_ps_ = 0;
  std::array<Ps, isa::kEngineCount> hwdge_trigger_{};
};

}  // namespace opentrn::sim::timing
