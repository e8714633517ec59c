#include "sim/timing/tensor_engine.h"

#include <algorithm>

namespace opentrn::sim::timing {

using cost::to_ps;

TensorArray::TensorArray(const arch::TimingTable& table)
    : load_min_(to_ps(table.constant("tensor_load_exposed_ns"))),
      tile_issue_(to_ps(table.constant("tensor_tile_issue_cycles") / table.clock_ghz("tensor") /
                        table.constant("tensor_sustained_rate"))),
      // A chain of transposes runs at `background_transpose_rate` in all, of which one part is the
      // foreground's.
      background_rate_(table.constant_fact("background_transpose").as<bool>()
                           ? table.constant("background_transpose_rate") - 1
                           : 0),
      start_rate_(table.constant("tensor_ramp_start_rate")),
      utilisation_min_(table.constant("tensor_ramp_utilisation")),
      ramp_(to_ps(table.constant("tensor_ramp_ns"))),
      window_(to_ps(table.constant("tensor_ramp_window_ns"))) {}

Ps TensorArray::free_at(const TensorWork& work) const {
  return in_background(work) ? background_free_ : tiles_free_at(work.tiles);
}

bool TensorArray::in_background(const TensorWork& work) const {
  return background_rate_ > 0 && work.is_transpose() && background_free_ < tiles_free_at(work.tiles);
}

Ps TensorArray::tiles_free_at(uint16_t tiles) const {
  Ps free = 0;
  if (tiles == 0xFFFF && last_tiles_ == 0xFFFF) return tile_free_[0];  // the usual case: all move together
  for (size_t i = 0; i < tile_free_.size(); ++i)
    if ((tiles >> i & 1) != 0) free = std::max(free, tile_free_[i]);
  return tiles == 0xFFFF ? free : std::max(free, last_issue_);
}

// The share of the full clock at which work starting now runs. After a window of low use the clock starts
// again from `start_rate_` and rises in a straight line.
double TensorArray::rate_at(Ps time) {
  if (ramp_ == 0 || start_rate_ >= 1) return 1;
  if (!issued_before_) {
    ramp_begin_ = window_begin_ = time;
    issued_before_ = true;
  } else if (time - window_begin_ >= window_) {
    const double use = static_cast<double>(window_busy_) / static_cast<double>(time - window_begin_);
    if (use < utilisation_min_) ramp_begin_ = time;
    window_begin_ = time;
    window_busy_ = 0;
  }
  const double risen = static_cast<double>(time - ramp_begin_) / static_cast<double>(ramp_);
  return start_rate_ + (1 - start_rate_) * std::min(1.0, risen);
}

TensorArray::Issue TensorArray::issue(Ps ready, const TensorWork& work) {
  const bool background = in_background(work) && ready < tiles_free_at(work.tiles);
  const Ps free = background ? background_free_ : tiles_free_at(work.tiles);
  // The next stationary matrix loads while the previous multiply runs: it can begin when that one began.
  const Ps load_done = std::max(ready, last_multiply_start_) + std::max(work.load, load_min_);
  Issue issue;
  issue.start = std::max(ready, free);
  issue.multiply_start = std::max(load_done, free);
  Ps busy = work.multiply;
  if (background) busy = static_cast<Ps>(static_cast<double>(busy) / background_rate_ + 0.5);
  const double rate = rate_at(issue.multiply_start);
  if (rate < 1) busy = static_cast<Ps>(static_cast<double>(busy) / rate + 0.5);
  issue.end = issue.multiply_start + busy;
  window_busy_ += busy;
  if (background) background_free_ = issue.end;
  for (size_t i = 0; i < tile_free_.size() && !background; ++i)
    if ((work.tiles >> i & 1) != 0) tile_free_[i] = issue.end;
  last_multiply_start_ = issue.multiply_start;
  last_issue_ = issue.multiply_start + tile_issue_;
  last_tiles_ = work.tiles == 0xFFFF ? 0xFFFF : 0;
  return issue;
}

void TensorArray::shift(Ps by) {
  for (Ps& free : tile_free_) free += by;
  background_free_ += by;
  last_multiply_start_ += by;
  last_issue_ += by;
  ramp_begin_ += by;
  window_begin_ += by;
}

}  // namespace opentrn::sim::timing
