// The DMA engines of a core and the HBM behind them, between instructions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "cost/bandwidth_slices.h"
#include "cost/dma.h"

namespace opentrn::sim::timing {

using cost::BandwidthSlices;
using cost::DmaWork;
using cost::kDmaEnginesMax;
using cost::kPsPerNs;
using cost::Ps;
using cost::to_ps;

// One HBM stack; the cores on it share its bandwidth.
class HbmStack {
 public:
  explicit HbmStack(const arch::TimingTable& table)
      : slices_(table.constant("hbm_sustained_gb_s") / kPsPerNs, to_ps(kSliceNs)) {}
  // When `bytes` have passed, if they begin at `begin`.
  Ps reserve(Ps begin, int64_t bytes) { return slices_.reserve(begin, bytes); }
  // Of the microsecond of a moment.
  BandwidthSlices::Bytes bytes_at(Ps at) const { return slices_.bytes_at(at); }
  void shift(Ps by) { slices_.shift(by); }

 private:
  static constexpr double kSliceNs = 1000;  // how finely bandwidth is shared out; our choice
  BandwidthSlices slices_;
};

// How long the DMA engines of at least one core had work.
class ActiveTime {
 public:
  // Counts what is new of [begin, end). Intervals come by their begins, as far as instructions start in
  // order.
  void add(Ps begin, Ps end) {
    sum_ += std::max<Ps>(0, end - std::max(begin, until_));
    until_ = std::max(until_, end);
  }
  void shift(Ps by) { until_ += by; }
  Ps sum() const { return sum_; }

 private:
  Ps sum_ = 0, until_ = 0;
};

inline constexpr uint32_t kNobody = 0xFFFFFFFFu;
inline constexpr int kDmaQueuesMax = 16;  // that one program uses

// What happened to one transfer.
struct Transfer {
  Ps trigger_free = 0;       // the triggering engine can go on
  Ps descriptors_begin = 0;  // generation begins, after waiting for the unit that does it
  Ps descriptors_end = 0;
  Ps arrival = 0;                       // descriptors are at the DMA engines
  Ps data_begin = 0;                    // of the engine that finishes last
  Ps engines_end = 0;                   // that engine's own rate
  Ps data_end = 0;                      // after HBM had its say
  Ps complete = 0;                      // the semaphore is seen
  uint32_t queued_behind = kNobody;     // transfer before it in its queue on that engine
  uint32_t generated_behind = kNobody;  // transfer that held the descriptor unit
};

class DmaEngines {
 public:
  DmaEngines(const arch::TimingTable& table, int engines);
  // `id` names the transfer for queued_behind and generated_behind, until forget_holders(). Fills `transfer`,
  // a new one.
  void run(Ps issue, isa::Engine trigger, isa::DgeMode mode, int queue, const DmaWork& work, HbmStack& hbm,
           ActiveTime& active, uint32_t id, Transfer& transfer);
  // Later transfers name none of the transfers so far: a loop gives the same ids again in each round.
  void forget_holders();
  // Summed over engines.
  Ps busy() const { return busy_; }
  void shift(Ps by);

 private:
  // One hardware engine. Within a queue transfers go in order; between queues it goes round robin, which is
  // taken as equal shares for the queues that have work. A transfer's end is foreseen when it arrives; later
  // arrivals on other queues do not move it, but find the engine as busy as it is.
  struct Engine {
    std::array<Ps, kDmaQueuesMax> left{};  // work in each queue, at `time`
    std::array<uint32_t, kDmaQueuesMax> last{};
    Ps all_left = 0;  // of all queues
    Ps time = 0;
    // `queue`: the one that is asked about next, which most often is alone.
    void drain(Ps now, int queue, int queues) {
      const Ps elapsed = now - time;
      if (elapsed <= 0) return;
      time = now;
      Ps& own = left[static_cast<size_t>(queue)];
      if (own != all_left) return share_out(elapsed, queues);
      const Ps done = std::min(own, elapsed);
      own -= done;
      all_left -= done;
    }
    void share_out(Ps elapsed, int queues);
    // When `work` more of `queue` will be through.
    Ps foresee(int queue, Ps work, int queues) const {
      Ps end = time + work;
      if (all_left == left[static_cast<size_t>(queue)]) return end;
      for (int q = 0; q < queues; ++q)
        if (q != queue) end += std::min(left[static_cast<size_t>(q)], work);
      return end;
    }
    bool same(const Engine& other, int queues) const;
  };
  // Neighbouring engines with one history, as transfers of whole tiles make all of them, share one state.
  struct Group {
    int end = 0;  // engines up to here, from the end of the group before
    Engine state;
  };
  // Of a transfer, by all of its engines.
  struct Reached {
    Ps first_begin = -1;  // of its data; -1: not known
    Ps busy_until = 0;
  };
  void queue_up(Engine& engine, int slot, Ps arrival, Ps busy, uint32_t id, Transfer& transfer,
                Reached& reached);
  // Where it is not the same for all engines.
  void spread_out(int slot, const DmaWork& work, Ps later, uint32_t id, Transfer& transfer, Reached& reached);
  // Makes a group begin at `engine`; returns which. `from`: a group that begins at or before it.
  int split_at(int engine, int from);
  // Joins equal neighbours among groups [first, last].
  void join(int first, int last);
  int slot_of(int queue);
  // How much later descriptors reach each further engine.
  Ps spread(isa::DgeMode mode, const DmaWork& work) const;
  void generate(Ps issue, isa::Engine trigger, isa::DgeMode mode, const DmaWork& work, uint32_t id,
                Transfer& transfer);

  int count_ = 0;
  std::array<Group, kDmaEnginesMax> groups_{};  // the first group_count_ are in use
  int group_count_ = 1;
  std::array<int, kDmaQueuesMax> queue_of_slot_{};
  int slots_ = 0;
  std::array<Ps, isa::kEngineCount> unit_free_{};  // descriptor generation, by triggering engine
  std::array<uint32_t, isa::kEngineCount> unit_holder_{};
  Ps busy_ = 0;
  Ps start_latency_ = 0, swdge_latency_ = 0, hwdge_latency_ = 0, completion_ = 0;
  Ps trigger_ = 0, hwdge_instruction_ = 0;
  double swdge_descriptor_ps_ = 0, swdge_spread_ps_ = 0;
  std::array<Ps, isa::kEngineCount> hwdge_trigger_{};
};

}  // namespace opentrn::sim::timing
