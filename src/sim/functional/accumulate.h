// The reduce registers of the Vector and the Scalar Engine, driven by nki.isa.reduce_cmd.
#pragma once

#include "sim/functional/engine_state.h"

namespace opentrn::sim {

// What an accumulator is reset to.
float reduce_identity(AluOp op);

// One instruction's use of an engine's accumulators. Rows may be added from several threads, one lane each.
class Accumulation {
 public:
  // Resets or loads lanes [lane, lane + partitions) as `cmd` says. `init` is for load_reduce.
  Accumulation(const Context& cx, Accumulators& registers, isa::ReduceCmd cmd, AluOp op,
               const PerPartition& init, int64_t lane, int64_t partitions);

  // Whether rows are reduced at all.
  bool active() const { return active_; }
  void add_row(int64_t p, const float* row, int64_t n) { add_rows(p, {row, 0}, 1, n); }
  // Rows [p, p + count) of n elements.
  void add_rows(int64_t p, numerics::FloatRows rows, int64_t count, int64_t n);
  float& at(int64_t p) { return registers_.value[lane_ + p]; }
  // Reads the lanes out into a [P, 1] operand, if the slot has one.
  void store(Context& cx, int slot, bool negate = false);

 private:
  // That the instruction was announced as a user of accumulators: see engine_state_used.
  static void check_announced(const Context& cx);

  Accumulators& registers_;
  AluOp op_;
  int64_t lane_;
  int64_t partitions_;
  bool active_;
};

}  // namespace opentrn::sim
