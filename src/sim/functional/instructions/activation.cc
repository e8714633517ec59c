// activation, activation_reduce, activate2 (Scalar Engine); exponential (Vector Engine).
#include <fmt/format.h>

#include "numerics/activation.h"
#include "numerics/alu.h"
#include "sim/functional/accumulate.h"
#include "sim/functional/instructions/body.h"
#include "sim/functional/rows.h"

namespace opentrn::sim::bodies {

namespace {

// Time of an element in fp32 additions: 5 (exp) to 11 (gelu). [measured: benchmarks/functional_bench.cc]
constexpr int64_t kActivationCost = 6;

// dst = rows(data), a few rows or a part of one at a time: rows(first partition, in, out, rows, n). Rows go
// into the accumulators before they are rounded to dst. [assumed]
template <typename Rows>
void activate_tile(const Context& cx, const View& data, const View& dst, bool by_partition, Accumulation& sum,
                   Rows&& rows) {
  const auto activated = [&](const Block<1>& block) {
    const size_t n = static_cast<size_t>(block.n);
    if (!block.one_partition || !by_partition)
      return rows(block.row, block.in[0], block.out, static_cast<size_t>(block.rows), n);
    for (size_t r = 0; r < static_cast<size_t>(block.rows); ++r)
      rows(block.row, {block.in[0].data + r * block.in[0].pitch, 0},
           {block.out.data + r * block.out.pitch, 0}, 1, n);
  };
  if (!sum.active()) return for_blocks<1>(cx, {&data}, dst, by_partition, activated, kActivationCost);
  for_whole_rows<1>(
      cx, {&data}, dst,
      [&](const Block<1>& block) {
        activated(block);
        sum.add_rows(block.row, block.out, block.rows, block.n);
      },
      kActivationCost);
}

void require_reduce_op(const Context& cx, AluOp op) {
  const bool allowed = op == AluOp::kAdd || op == AluOp::kMaximum || op == AluOp::kMinimum ||
                       op == AluOp::kAbsMax || op == AluOp::kAbsMin;
  if (!allowed) cx.broken("reduce_op", fmt::format("the Scalar Engine cannot reduce with {}", name(op)));
}

// f(data * scale + bias): the product and the sum are rounded to fp32 each. [assumed]
void scale_bias_activation(Context& cx, isa::ReduceCmd cmd) {
  using namespace isa::slot::activation;
  const ActivationFunction function = cx.activation(kAOp);
  const AluOp reduce_op = cx.optional_alu(kAReduceOp).value_or(AluOp::kAdd);
  require_reduce_op(cx, reduce_op);
  View data = cx.source(kData);
  const PerPartition bias = cx.per_partition(kBias, data.partitions);
  const PerPartition scale = cx.per_partition(kScale, data.partitions);
  const View dst = cx.destination(kDst);
  cx.expect_same_shape(dst, data, kDst, kData);
  cx.separate(dst, data);
  Accumulation sum(cx, cx.engines().scalar, cmd, reduce_op, {}, cx.lane(dst, kDst), data.partitions);
  const bool scales = scale.present && (scale.is_vector || scale.scalar != 1.0f);
  const numerics::Affine none;
  constexpr float kNoSlope = 0;
  activate_tile(cx, data, dst, scale.is_vector || bias.is_vector, sum,
                [&](int64_t p, FloatRows in, MutableFloatRows out, size_t rows, size_t n) {
                  if (!scales && !bias.present)
                    return numerics::activate(function, in, out, rows, n, {&kNoSlope, 0});
                  numerics::activate(function, scales ? scale.from(p) : numerics::RowScalars{&none.scale, 0},
                                     bias.present ? bias.from(p) : numerics::RowScalars{&none.bias, 0}, in,
                                     out, rows, n);
                });
  sum.store(cx, kReduceRes);
}

}  // namespace

void activation(Context& cx) { scale_bias_activation(cx, cx.reduce_cmd(isa::slot::activation::kAReduceCmd)); }

// The older form: always resets, then reduces. [doc: nki.isa.activation_reduce]
void activation_reduce(Context& cx) { scale_bias_activation(cx, isa::ReduceCmd::kResetReduce); }

void activate2(Context& cx) {
  using namespace isa::slot::activate2;
  const ActivationFunction function = cx.activation(kAOp);
  const AluOp op0 = cx.alu(kAOp0);
  const AluOp op1 = cx.alu(kAOp1);
  if (is_bitvec(op0) || is_bitvec(op1)) cx.broken("op", "bit-vector operators are not supported");
  const AluOp reduce_op = cx.optional_alu(kAReduceOp).value_or(AluOp::kAdd);
  require_reduce_op(cx, reduce_op);
  View data = cx.source(kData);
  const PerPartition imm0 = cx.per_partition(kImm0, data.partitions);
  const PerPartition imm1 = cx.per_partition(kImm1, data.partitions);
  const PerPartition relu_param = cx.per_partition(kReluParam, data.partitions);
  if ((op0 != AluOp::kBypass && !imm0.present) || (op1 != AluOp::kBypass && !imm1.present))
    cx.broken("operand", "an operator has no immediate");
  const View dst = cx.destination(kDst);
  cx.expect_same_shape(dst, data, kDst, kData);
  cx.separate(dst, data);
  const bool reverse0 = cx.boolean(kAReverse0);
  const bool reverse1 = cx.boolean(kAReverse1);
  Accumulation sum(cx, cx.engines().scalar, cx.reduce_cmd(kAReduceCmd), reduce_op, {}, cx.lane(dst, kDst),
                   data.partitions);
  const bool by_partition = imm0.is_vector || imm1.is_vector || relu_param.is_vector;
  activate_tile(cx, data, dst, by_partition, sum,
                [&](int64_t p, FloatRows in, MutableFloatRows out, size_t rows, size_t n) {
                  FloatRows value = in;
                  if (op0 != AluOp::kBypass) {
                    numerics::alu_tensor_scalar(op0, value, imm0.from(p), reverse0, out, rows, n);
                    value = out;
                  }
                  if (op1 != AluOp::kBypass) {
                    numerics::alu_tensor_scalar(op1, value, imm1.from(p), reverse1, out, rows, n);
                    value = out;
                  }
                  numerics::activate(function, value, out, rows, n, relu_param.from(p));
                });
  sum.store(cx, kReduceRes);
}

// exp(src - max_value) on the Vector Engine, with a running sum. reduce_cmd.idle leaves the accumulators
// undefined. [doc: nki.isa.exponential]
void exponential(Context& cx) {
  using namespace isa::slot::exponential;
  View src = cx.source(kSrc);
  const PerPartition max_value = cx.per_partition(kMaxValue, src.partitions);
  const PerPartition init = cx.per_partition(kReduceInit, src.partitions);
  const isa::ReduceCmd cmd = cx.reduce_cmd(kAReduceCmd);
  const View dst = cx.destination(kDst);
  cx.expect_same_shape(dst, src, kDst, kSrc);
  cx.separate(dst, src);
  if (cmd == isa::ReduceCmd::kIdle) cx.engines().vector.defined.reset();
  Accumulation sum(cx, cx.engines().vector, cmd, AluOp::kAdd, init, cx.lane(dst, kDst), src.partitions);
  activate_tile(cx, src, dst, max_value.is_vector, sum,
                [&](int64_t p, FloatRows in, MutableFloatRows out, size_t rows, size_t n) {
                  constexpr float kNoSlope = 0;
                  FloatRows value = in;
                  if (max_value.present) {
                    numerics::alu_tensor_scalar(AluOp::kSubtract, in, max_value.from(p), false, out, rows, n);
                    value = out;
                  }
                  numerics::activate(ActivationFunction::kExp, value, out, rows, n, {&kNoSlope, 0});
                });
  sum.store(cx, kReduceRes);
}

}  // namespace opentrn::sim::bodies
