// ChainRun: the run of one chain (chain.h).
//
// One thread, the leader, sets up the instructions in program order, each inside the call of the one before,
// so that what their bodies hold stays alive on its stack. Others follow it: they compute their bands as far
// as instructions are set up. Then the leader computes, too.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "base/spin_lock.h"
#include "isa/program.h"
#include "sim/functional/buffer.h"
#include "sim/functional/chain.h"
#include "sim/functional/producer.h"
#include "sim/functional/view.h"

namespace opentrn::sim {

class Core;

class ChainRun {
 public:
  // Computes rows [begin, end) of an instruction's tile, counted from the first.
  using Rows = std::function<void(int64_t begin, int64_t end)>;

  ChainRun(Core& core, const isa::Program& program, const Chain& chain);
  ~ChainRun();
  ChainRun(const ChainRun&) = delete;
  ChainRun& operator=(const ChainRun&) = delete;

  // Runs everything; throws the Fault of the first instruction that has one.
  void run();
  // Called once by the body of a deferred instruction when all is checked and only the work is left. `rows`
  // has been called for every row when it returns, unless a later instruction's set-up failed, or somebody
  // has taken the `producer` of its result (null if there cannot be one).
  void defer(int64_t first_row, int64_t partitions, const Rows& rows, const Producer* producer);
  // For the deferred instruction that is being set up: what it has to call instead of reading `source`; null
  // when that is in memory.
  const Producer* producer_for(const View& source);
  // Makes the folded tile of `to` an alias of `from`, of the same type; false when a copy has to be made.
  // Partition strides of 0 are broadcasts.
  bool alias(const View& to, const View& from);

 private:
  struct Deferred {
    int64_t first_row, partitions;
    const Rows* rows;
  };
  // The producer of a tile that instruction `reader` may call in place of what was deferred.
  struct Offer {
    isa::TensorId tensor;
    uint32_t reader;
    uint32_t deferred;
    const Producer* producer;
  };
  struct Block {
    std::shared_ptr<Buffer> memory;
    int64_t row_bytes;
    uint32_t free_after;  // instruction
  };
  void lead();
  void set_up_rest();
  void offer(const Producer* producer);
  void publish();
  void give_memory(uint32_t instruction);
  void compute_lane(int64_t lane);
  void claim_and_compute(int64_t band);
  void compute(int64_t band);
  void wait_for_others() const;
  void fail();  // inside a catch clause

  Core& core_;
  const isa::Program& program_;
  const Chain& chain_;
  const int64_t bands_;
  const int64_t lanes_;  // bands that are computed at the same time, at most
  uint32_t next_ = 0;
  size_t next_folded_ = 0;
  std::vector<Deferred> deferred_;  // has its final capacity, as other lanes read it
  std::vector<Offer> offers_;
  size_t oldest_offer_ = 0;  // whose reader is not set up yet
  std::vector<Block> blocks_;

  // What the lanes share.
  const uint32_t work_;                     // deferred instructions, all of them
  std::atomic<uint32_t> published_{0};      // that may be computed: set up, and to be computed at all
  std::vector<std::atomic<bool>> claimed_;  // by band
  std::atomic<int64_t> computing_{0};       // bands
  std::atomic<bool> failed_{false};
  SpinLock error_lock_;
  std::exception_ptr error_;
};

}  // namespace opentrn::sim
