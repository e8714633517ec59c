// The Tensor engine: which row of the table a matmul takes, its floating-point operations, and the state of
// the array between instructions.
#pragma once

#include <array>
#include <cstdint>

#include "isa/program.h"
#include "sim/timing/cost_rules.h"
#include "trace/summary.h"

namespace opentrn::sim::timing {

struct TensorWork {
  Ps multiply = 0;          // initiation interval of the multiply
  Ps load = 0;              // loading the stationary matrix
  uint16_t tiles = 0xFFFF;  // of the 4 x 4 tiles of the array; bit 4 * row + column
  trace::FlopKind kind = trace::FlopKind::kBf16;
  double flops = 0;
};

TensorWork tensor_work(const isa::Program& program, const isa::Instruction& instruction,
                       const CostRules& rules, const std::vector<PatternFacts>& patterns);

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
  Ps free_at(uint16_t tiles) const;
  Issue issue(Ps ready, const TensorWork& work);
  void shift(Ps by);  // time passes without work being stepped (extrapolated loops)

 private:
  double rate_at(Ps time);

  std::array<Ps, 16> tile_free_{};
  Ps last_multiply_start_ = 0;
  Ps last_issue_ = 0;
  bool issued_before_ = false;
  uint16_t last_tiles_ = 0xFFFF;
  Ps load_min_ = 0, tile_issue_ = 0;
  // Clock ramp.
  double start_rate_ = 1, utilisation_min_ = 0;
  Ps ramp_ = 0, window_ = 0;
  Ps ramp_begin_ = 0, window_begin_ = 0, window_busy_ = 0;
};

}  // namespace opentrn::sim::timing
