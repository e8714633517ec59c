#include "sim/functional/chain_run.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "base/fault.h"
#include "base/interrupt.h"
#include "sim/functional/core.h"

namespace opentrn::sim {

namespace {

// Of a Backoff for what another thread is about to do, microseconds away as a rule: some 200 us.
constexpr int kLongSpins = 8000;

// Rows a page apart lie in the same sets of the first-level cache, and a scan, which goes down columns, would
// lose every line before it is used up. Shorter rows gain more from lying back to back.
// [measured: benchmarks/README.md, mamba v1 and v3]
int64_t fold_pitch(int64_t row_bytes) {
  constexpr int64_t kLine = 64, kPage = 4096;
  return row_bytes % kPage == 0 ? row_bytes + kLine : row_bytes;
}

}  // namespace

ChainRun::ChainRun(Core& core, const isa::Program& program, const Chain& chain)
    : core_(core),
      program_(program),
      chain_(chain),
      bands_((chain.row_end + chain.band - 1) / chain.band),
      lanes_(std::min<int64_t>(bands_, core.pool_->size())),
      work_(static_cast<uint32_t>(std::ranges::count(chain.deferred, true))),
      claimed_(static_cast<size_t>(bands_)) {
  deferred_.reserve(work_);
}

ChainRun::~ChainRun() {
  for (const FoldedTile& tile : chain_.folded) core_.release(tile.tensor);
  std::lock_guard guard(core_.memory_lock_);
  for (Block& block : blocks_) core_.buffers_.recycle(std::move(block.memory));
}

void ChainRun::run() {
  const auto work = [this](size_t first, size_t end, int) {
    for (size_t lane = first; lane < end; ++lane) {
      if (lane == 0)
        lead();
      else
        compute_lane(static_cast<int64_t>(lane));
    }
  };
  core_.pool_->parallel_for(static_cast<size_t>(lanes_), work, Split::kAlways);
  if (error_) std::rethrow_exception(error_);
}

void ChainRun::lead() {
  try {
    set_up_rest();
  } catch (...) {
    fail();
    wait_for_others();
  }
}

void ChainRun::set_up_rest() {
  while (next_ < chain_.deferred.size()) {
    const uint32_t instruction = next_++;
    give_memory(instruction);
    if (!chain_.deferred[instruction]) {
      core_.execute(program_, chain_.begin + instruction);
      continue;
    }
    const size_t before = deferred_.size();
    core_.execute(program_, chain_.begin + instruction, this);  // goes on with the rest from inside defer()
    OPENTRN_CHECK(deferred_.size() > before, "instruction {} did not defer its work",
                  chain_.begin + instruction);
    return;
  }
  published_.store(work_, std::memory_order_release);
  compute_lane(0);
  wait_for_others();
}

void ChainRun::defer(int64_t first_row, int64_t partitions, const Rows& rows, const Producer* producer) {
  if (producer != nullptr) offer(producer);
  deferred_.push_back({first_row, partitions, &rows});
  publish();
  try {
    set_up_rest();
  } catch (...) {  // not this instruction's error: it must not be told where it happened
    fail();
    wait_for_others();  // they use what lies on this stack
  }
}

void ChainRun::offer(const Producer* producer) {
  const uint32_t now = next_ - 1;
  const auto tile = std::lower_bound(chain_.folded.begin(), chain_.folded.end(), now,
                                     [](const FoldedTile& folded, uint32_t at) { return folded.first < at; });
  if (tile == chain_.folded.end() || tile->first != now || tile->reader == kNoReader) return;
  offers_.push_back({tile->tensor, tile->reader, static_cast<uint32_t>(deferred_.size()), producer});
}

const Producer* ChainRun::producer_for(const View& source) {
  const uint32_t now = next_ - 1;
  const auto offer = std::find_if(offers_.rbegin(), offers_.rend(), [&](const Offer& candidate) {
    return candidate.reader == now && candidate.tensor == source.tensor;
  });
  if (offer == offers_.rend() || source.buffer == nullptr) return nullptr;
  deferred_[offer->deferred].partitions = 0;
  return offer->producer;
}

bool ChainRun::alias(const View& to, const View& from) {
  if (to.buffer == nullptr || to.buffer->fold_rows() == 0) return false;
  if (from.buffer == nullptr || from.buffer->fold_rows() > 0) return false;
  const auto tile = std::find_if(chain_.folded.begin(), chain_.folded.end(),
                                 [&](const FoldedTile& folded) { return folded.tensor == to.tensor; });
  if (tile == chain_.folded.end() || !tile->is_copy) return false;
  if (to.table != nullptr || from.table != nullptr || !to.free_contiguous() || !from.free_contiguous())
    return false;
  const bool same_shape = to.elements == from.elements && to.dtype == from.dtype &&
                          (to.partitions == from.partitions || from.partition_stride == 0);
  if (!same_shape || to.elements * to.element_bytes != tile->row_bytes) return false;
  to.buffer->alias(from.base - to.row_begin * from.partition_stride, from.partition_stride);
  return true;
}

void ChainRun::give_memory(uint32_t instruction) {
  for (; next_folded_ < chain_.folded.size() && chain_.folded[next_folded_].first == instruction;
       ++next_folded_) {
    const FoldedTile& tile = chain_.folded[next_folded_];
    const int64_t pitch = fold_pitch(tile.row_bytes), bytes = lanes_ * chain_.band * pitch;
    // Of the same rows only: else the lanes of one tile would lie in other places than those of the next.
    auto block = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& candidate) {
      return candidate.free_after < instruction && candidate.row_bytes == tile.row_bytes;
    });
    std::lock_guard guard(core_.memory_lock_);
    if (core_.tensors_[tile.tensor].buffer != nullptr) continue;  // another tile lies in it (placement.h)
    if (block == blocks_.end())
      block = blocks_.insert(block, {core_.buffers_.allocate(bytes), tile.row_bytes, 0});
    block->free_after = tile.last;
    const int64_t rows = program_.tensor(tile.tensor).rows;
    core_.tensors_[tile.tensor].buffer = Buffer::folded(block->memory->data(), rows * tile.row_bytes,
                                                        tile.row_bytes, pitch, chain_.band, block->memory);
  }
}

// Lets the other lanes compute what is set up, up to the first instruction whose reader may yet compute it.
void ChainRun::publish() {
  while (oldest_offer_ < offers_.size() && offers_[oldest_offer_].reader < next_) ++oldest_offer_;
  const size_t end = oldest_offer_ < offers_.size() ? offers_[oldest_offer_].deferred : deferred_.size();
  published_.store(static_cast<uint32_t>(end), std::memory_order_release);
}

// Every lane has bands of its own, the same ones in all chains of as many rows, as what they read may still
// be in its thread's cache. A thread whose bands are done takes others' from their ends: the threads of a
// busy machine are not equally fast, nor do they come at the same time.
void ChainRun::compute_lane(int64_t lane) {
  const FoldLane::Scope scope(lane);
  for (int64_t band = bands_ * lane / lanes_; band < bands_ * (lane + 1) / lanes_; ++band)
    claim_and_compute(band);
  for (int64_t step = 1; step < lanes_; ++step) {
    const int64_t other = (lane + step) % lanes_;
    for (int64_t band = bands_ * (other + 1) / lanes_; band-- > bands_ * other / lanes_;)
      claim_and_compute(band);
  }
}

// Counts the band as being computed before it is claimed: whoever finds every band claimed and none being
// computed knows that all are done.
void ChainRun::claim_and_compute(int64_t band) {
  ++computing_;
  if (!claimed_[static_cast<size_t>(band)].exchange(true)) {
    try {
      compute(band);
    } catch (...) {
      fail();
    }
  }
  --computing_;
}

void ChainRun::compute(int64_t band) {
  const int64_t row = band * chain_.band;
  for (uint32_t i = 0; i < work_; ++i) {
    for (Backoff backoff(kLongSpins); published_.load(std::memory_order_acquire) <= i; backoff.wait()) {
      if (failed_) return;
      interrupt::poll();
    }
    if (failed_) return;
    interrupt::poll();
    const Deferred& deferred = deferred_[i];
    const int64_t from = std::max(row - deferred.first_row, int64_t{0});
    const int64_t to = std::min(row + chain_.band - deferred.first_row, deferred.partitions);
    if (from < to) (*deferred.rows)(from, to);
  }
}

void ChainRun::fail() {
  {
    std::lock_guard guard(error_lock_);
    if (!error_) error_ = std::current_exception();
  }
  failed_ = true;
}

void ChainRun::wait_for_others() const {
  for (Backoff backoff(kLongSpins); computing_ > 0; backoff.wait()) interrupt::service();
}

}  // namespace opentrn::sim
