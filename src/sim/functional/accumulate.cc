#include "sim/functional/accumulate.h"

#include <limits>

#include <fmt/format.h>

#include "numerics/alu.h"
#include "numerics/convert.h"
#include "sim/functional/access.h"

namespace opentrn::sim {

float reduce_identity(AluOp op) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  switch (op) {
    case AluOp::kMultiply:
    case AluOp::kLogicalAnd: return 1.0f;
    case AluOp::kMaximum: return -kInfinity;
    case AluOp::kMinimum:
    case AluOp::kAbsMin: return kInfinity;
    default: return 0.0f;
  }
}

namespace {

void require_defined(const Context& cx, const Accumulators& registers, int64_t lane, int64_t partitions) {
  if (!cx.core.checks().accumulators) return;
  for (int64_t p = 0; p < partitions; ++p)
    if (!registers.defined[lane + p])
      cx.fail(FaultKind::kProgram, "sim.undefined_accumulator",
              fmt::format("the accumulator of lane {} holds nothing defined here", lane + p),
              "start with reduce_cmd.reset_reduce or load_reduce; reduce_cmd.idle on the same engine "
              "undefines it");
}

}  // namespace

Accumulation::Accumulation(const Context& cx, Accumulators& registers, isa::ReduceCmd cmd, AluOp op,
                           const PerPartition& init, int64_t lane, int64_t partitions)
    : registers_(registers),
      op_(op),
      lane_(lane),
      partitions_(partitions),
      active_(cmd != isa::ReduceCmd::kIdle && cmd != isa::ReduceCmd::kReset) {
  using isa::ReduceCmd;
  if (cmd == ReduceCmd::kIdle) return;
  check_announced(cx);
  if (cmd == ReduceCmd::kReduce) {
    require_defined(cx, registers, lane, partitions);
    return;
  }
  if (cmd == ReduceCmd::kLoadReduce && !init.present)
    cx.broken("reduce_cmd", "load_reduce has no initial value", "pass reduce_init");
  for (int64_t p = 0; p < partitions; ++p) {
    at(p) = cmd == ReduceCmd::kLoadReduce ? init.at(p) : reduce_identity(op);
    registers.defined.set(static_cast<size_t>(lane + p));
  }
}

void Accumulation::check_announced(const Context& cx) {
  OPENTRN_CHECK((engine_state_used(cx.program, cx.in) & (kVectorAccumulators | kScalarAccumulators)) != 0,
                "{} uses accumulators unannounced", cx.name());
}

void Accumulation::add_rows(int64_t p, numerics::FloatRows rows, int64_t count, int64_t n) {
  numerics::alu_reduce_rows(op_, &at(p), rows, static_cast<size_t>(count), static_cast<size_t>(n), &at(p));
}

void Accumulation::store(Context& cx, int slot, bool negate) {
  if (!cx.has(slot)) return;
  check_announced(cx);
  require_defined(cx, registers_, lane_, partitions_);
  const View result = cx.column(slot, partitions_);
  std::array<float, kPartitionsMax> values;
  for (int64_t p = 0; p < partitions_; ++p) values[p] = negate ? -at(p) : at(p);
  numerics::store_f32_strided(result.dtype, values.data(), result.base,
                              result.partition_stride / result.element_bytes,
                              static_cast<size_t>(partitions_), result.rounding);
}

}  // namespace opentrn::sim
