#include "sim/timing/tensor_engine.h"

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
      risen_rate_(start_rate_ + (1 - start_rate_)),  // as it is rounded
      ramp_(to_ps(table.constant("tensor_ramp_ns"))),
      window_(to_ps(table.constant("tensor_ramp_window_ns"))) {}

void TensorArray::shift(Ps by) {
  for (Ps& free : tile_free_) free += by;
  background_free_ += by;
  last_multiply_start_ += by;
  last_issue_ += by;
  ramp_begin_ += by;
  window_begin_ += by;
}

}  // namespace opentrn::sim::timing
