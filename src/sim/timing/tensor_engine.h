// The state of the Tensor engine's array between instructions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "arch/timing_table.h"
#include "cost/tensor.h"

namespace opentrn::sim::timing {

using cost::Ps;
using cost::TensorWork;

// Which parts of the array are busy until when, and how fast its clock runs.
class TensorArray {
 public:
  explicit TensorArray(const arch::TimingTable& table);

  struct Issue {
    Ps start = 0;  // when the instruction leaves the queue
    Ps multiply_start = 0;
    Ps end = 0;  // the array can take the next one
  };
  bool has_background() const { return background_rate_ > 0; }
  // When the tiles are free; what issue() will use.
  Ps free_at(const TensorWork& work) const;
  Issue issue(Ps ready, const TensorWork& work);
  void shift(Ps by);  // time passes without work being stepped (extrapolated loops)

 private:
  double rate_at(Ps time);
  Ps tiles_free_at(uint16_t tiles) const;
  void occupy(uint16_t tiles, Ps until);
  // Whether a transpose that is ready goes beside what the array is busy with (NeuronCore-v4's background
  // transpose). It can then begin when the transpose before it in the background has ended.
  bool in_background(const TensorWork& work) const;

  std::array<Ps, 16> tile_free_{};  // the first is all of them's where whole_
  bool whole_ = true;
  Ps last_multiply_start_ = 0;
  Ps last_issue_ = 0;
  bool issued_before_ = false;
  Ps load_min_ = 0, tile_issue_ = 0;
  double background_rate_ = 0;  // of transposes in the background; 0: there is none
  Ps background_free_ = 0;
  // Clock ramp.
  double start_rate_ = 1, utilisation_min_ = 0, risen_rate_ = 1;
  Ps ramp_ = 0, window_ = 0;
  Ps ramp_begin_ = 0, window_begin_ = 0, window_busy_ = 0;
};

inline Ps TensorArray::free_at(const TensorWork& work) const {
  return in_background(work) ? background_free_ : tiles_free_at(work.tiles);
}

inline bool TensorArray::in_background(const TensorWork& work) const {
  return background_rate_ > 0 && work.is_transpose() && background_free_ < tiles_free_at(work.tiles);
}

inline Ps TensorArray::tiles_free_at(uint16_t tiles) const {
  if (tiles == 0xFFFF && whole_) return tile_free_[0];  // the usual case: all move together
  Ps free = whole_ ? tile_free_[0] : 0;
  for (size_t i = 0; i < tile_free_.size() && !whole_; ++i)
    if ((tiles >> i & 1) != 0) free = std::max(free, tile_free_[i]);
  return tiles == 0xFFFF ? free : std::max(free, last_issue_);
}

// The share of the full clock at which work starting now runs. After a window of low use the clock starts
// again from `start_rate_` and rises in a straight line.
inline double TensorArray::rate_at(Ps time) {
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
  if (time - ramp_begin_ >= ramp_) return risen_rate_;
  const double risen = static_cast<double>(time - ramp_begin_) / static_cast<double>(ramp_);
  return start_rate_ + (1 - start_rate_) * std::min(1.0, risen);
}

inline TensorArray::Issue TensorArray::issue(Ps ready, const TensorWork& work) {
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
  if (background)
    background_free_ = issue.end;
  else
    occupy(work.tiles, issue.end);
  last_multiply_start_ = issue.multiply_start;
  last_issue_ = issue.multiply_start + tile_issue_;
  return issue;
}

inline void TensorArray::occupy(uint16_t tiles, Ps until) {
  if (tiles == 0xFFFF) {
    tile_free_[0] = until;
    whole_ = true;
    return;
  }
  if (std::exchange(whole_, false)) tile_free_.fill(tile_free_[0]);
  for (size_t i = 0; i < tile_free_.size(); ++i)
    if ((tiles >> i & 1) != 0) tile_free_[i] = until;
}

}  // namespace opentrn::sim::timing
