// The state of the Tensor engine's array between instructions.
#pragma once

#include <array>
#include <cstdint>

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
  // When the tiles are free; what issue() will use.
  Ps free_at(const TensorWork& work) const;
  Issue issue(Ps ready, const TensorWork& work);
  void shift(Ps by);  // time passes without work being stepped (extrapolated loops)

 private:
  double rate_at(Ps time);
  Ps tiles_free_at(uint16_t tiles) const;
  // Whether a transpose that is ready goes beside what the array is busy with (NeuronCore-v4's background
  // transpose). It can then begin when the transpose before it in the background has ended.
  bool in_background(const TensorWork& work) const;

  std::array<Ps, 16> tile_free_{};
  Ps last_multiply_start_ = 0;
  Ps last_issue_ = 0;
  bool issued_before_ = false;
  uint16_t last_tiles_ = 0xFFFF;
  Ps load_min_ = 0, tile_issue_ = 0;
  double background_rate_ = 0;  // of transposes in the background; 0: there is none
  Ps background_free_ = 0;
  // Clock ramp.
  double start_rate_ = 1, utilisation_min_ = 0;
  Ps ramp_ = 0, window_ = 0;
  Ps ramp_begin_ = 0, window_begin_ = 0, window_busy_ = 0;
};

}  // namespace opentrn::sim::timing
