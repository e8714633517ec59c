// Rules of element-wise instructions, scans and reductions.
#include <algorithm>

#include "isa/constraints_context.h"

namespace opentrn::isa::constraint {

namespace {

constexpr int64_t kBnStatsElementsMax = 512;
constexpr int64_t kBnStatsOutputs = 6;
constexpr int64_t kBnTriple = 3;
constexpr DTypes kFp32 = {DType::kFloat32};
// No 32-bit integers: tensor_scalar_cumulative.
constexpr DTypes kCumulativeTypes =
    kFloats | DTypes{DType::kUint8, DType::kUint16, DType::kInt8, DType::kInt16};
constexpr DTypes kExponentialTypes = kFloats | kBitPatterns;

bool is_32bit_integer(DType d) { return d == DType::kInt32 || d == DType::kUint32; }

// Bit-vector operators treat elements as integers.
void bit_patterns(const Check& c, int number, std::initializer_list<int> slots) {
  for (int slot : slots)
    if (c.has_tile(slot) && !kBitPatterns.has(c.tile(slot).dtype())) [[unlikely]]
      c.fail(number,
             fmt::format("{} is {}; bit-vector operators take integers", c.slot_name(slot),
                         name(c.tile(slot).dtype())),
             "view the tile as an integer type");
}

void no_scatter_into_psum_on_scalar(const Check& c, int number, int dst) {
  if (c.indirect(dst, IndirectKind::kTensor) && c.tile(dst).in_psum())
    c.fail(number, "the Scalar engine cannot scatter into PSUM", "scatter into SBUF");
}

// A vector over the partitions of `data` for the result of a reduction.
void reduction_result(const Check& c, int number, int slot, int data) { c.vector_of(number, slot, data); }

bool reduce_cmd_is(const Check& c, int slot, std::initializer_list<ReduceCmd> allowed) {
  return std::ranges::find(allowed, static_cast<ReduceCmd>(c.integer(slot))) != allowed.end();
}

bool any_in_psum(const Check& c, std::initializer_list<int> slots) {
  return std::ranges::any_of(slots, [&](int slot) { return c.has_tile(slot) && c.tile(slot).in_psum(); });
}

// Operators that no engine but Vector has.
void vector_operator(const Check& c, int number, AluOp op) {
  if (c.in.engine == Engine::kUnknown || c.in.engine == Engine::kVector) return;
  if (is_bitvec(op))
    c.fail(number, fmt::format("bit-vector operators run on the Vector engine, not on {}", name(c.in.engine)),
           "leave engine unknown");
  if (op == AluOp::kAbsMax || op == AluOp::kAbsMin)
    c.fail(number, fmt::format("{} runs on the Vector engine, not on {}", name(op), name(c.in.engine)),
           "leave engine unknown");
}

void tensor_scalar_on_gpsimd(const Check& c) {
  using namespace slot::tensor_scalar;
  const bool rsqrt = c.alu(kAOp0) == AluOp::kRsqrt || static_cast<AluOp>(c.integer(kAOp1)) == AluOp::kRsqrt;
  if (c.in.engine == Engine::kGpSimd && !rsqrt)
    c.fail(10,
           fmt::format("GpSimd cannot compute {}; in tensor_scalar it has rsqrt only", name(c.alu(kAOp0))),
           "leave engine unknown, or use engine.vector");
  if (!rsqrt || c.in.engine == Engine::kScalar) return;  // Scalar has its own rules
  if (c.in.engine == Engine::kVector)
    c.fail(11, "rsqrt runs on GpSimd, not on vector", "leave engine unknown, or use activation(op=nl.rsqrt)");
  if (any_in_psum(c, {kDst, kData, kOperand0, kOperand1}))
    c.fail(11, "rsqrt runs on GpSimd, which cannot access PSUM",
           "use activation(op=nl.rsqrt), or copy the tile to SBUF first");
}

void scalar_engine_operators(const Check& c) {
  using namespace slot::tensor_scalar;
  const AluOp op0 = c.alu(kAOp0);
  const int64_t op1 = c.integer(kAOp1);
  const bool alone = op1 < 0 || static_cast<AluOp>(op1) == AluOp::kBypass;
  const bool legal =
      op0 == AluOp::kMultiply ? alone || static_cast<AluOp>(op1) == AluOp::kAdd : op0 == AluOp::kAdd && alone;
  if (!legal)
    c.fail(4,
           fmt::format("the Scalar engine cannot compute {} then {}; multiply, multiply-add and add exist",
                       name(op0), op1 < 0 ? "nothing" : name(static_cast<AluOp>(op1))),
           "leave engine unknown, or use engine.vector");
}

}  // namespace

void check_tensor_tensor(const Check& c) {
  using namespace slot::tensor_tensor;
  c.same_shape(1, kDst, kData1);
  c.same_shape(1, kDst, kData2);
  c.not_both_in_psum(2, kData1, kData2);
  const AluOp op = c.alu(kAOp);
  if (is_bitvec(op)) bit_patterns(c, 3, {kDst, kData1, kData2});
  if (op == AluOp::kPower) [[unlikely]] {
    if (c.in.engine == Engine::kVector)
      c.fail(4, "power runs on GpSimd, not on vector", "leave engine unknown, or use tensor_scalar");
    if (any_in_psum(c, {kDst, kData1, kData2}))
      c.fail(4, "power runs on GpSimd, which cannot access PSUM", "copy the tile to SBUF first");
  }
  vector_operator(c, 6, op);
  if (is_unary(op)) [[unlikely]]
    c.fail(5, fmt::format("{} takes one operand", name(op)), "use tensor_scalar or activation");
}

void check_tensor_scalar(const Check& c) {
  using namespace slot::tensor_scalar;
  c.same_shape(1, kDst, kData);
  c.vector_of(2, kOperand0, kData);
  c.vector_of(2, kOperand1, kData);
  const AluOp op0 = c.alu(kAOp0);
  const int64_t op1 = c.integer(kAOp1);
  const bool bits = is_bitvec(op0);
  if (op1 >= 0) {
    const AluOp second = static_cast<AluOp>(op1);
    if (is_bitvec(second) != bits && op0 != AluOp::kBypass && second != AluOp::kBypass) [[unlikely]]
      c.fail(3,
             fmt::format("{} and {} are of different classes; both must be bit-vector or both arithmetic",
                         name(op0), name(second)),
             "use two instructions");
    if (!c.operand(kOperand1).present() && !is_unary(second) && second != AluOp::kBypass) [[unlikely]]
      c.fail(5, fmt::format("{} needs operand1", name(second)));
  }
  if (!c.operand(kOperand0).present() && !is_unary(op0) && op0 != AluOp::kBypass) [[unlikely]]
    c.fail(5, fmt::format("{} needs operand0", name(op0)));
  vector_operator(c, 7, op0);
  if (op1 >= 0) vector_operator(c, 7, static_cast<AluOp>(op1));
  tensor_scalar_on_gpsimd(c);
  if (bits) {
    bit_patterns(c, 6, {kDst, kData, kOperand0, kOperand1});
  } else if (!is_32bit_integer(c.tile(kData).dtype())) {  // 32-bit integers: address arithmetic, undocumented
    c.dtype_in(8, kOperand0, kFp32);
    c.dtype_in(8, kOperand1, kFp32);
  }
  if (c.in.engine == Engine::kScalar) {
    if (c.generation <= 3) scalar_engine_operators(c);
    no_scatter_into_psum_on_scalar(c, 9, kDst);
  }
}

void check_scalar_tensor_tensor(const Check& c) {
  using namespace slot::scalar_tensor_tensor;
  c.same_shape(1, kDst, kData);
  c.same_shape(1, kDst, kOperand1);
  c.vector_of(2, kOperand0, kData);
  c.not_both_in_psum(3, kData, kOperand1);
  c.arithmetic(4, c.alu(kAOp0));
  c.arithmetic(4, c.alu(kAOp1));
}

void check_tensor_reduce(const Check& c) {
  using namespace slot::tensor_reduce;
  const Tile &dst = c.tile(kDst), &data = c.tile(kData);
  const int64_t axes = c.integer(kAAxes);
  if (axes < 1 || axes >= data.pattern->rank) [[unlikely]]
    c.fail(1, fmt::format("{} trailing axes of a tile of rank {} are reduced; at least one free axis, never "
                          "the partition axis",
                          axes, data.pattern->rank));
  int64_t kept = 1;
  for (int i = 1; i < data.pattern->rank - axes; ++i)
    kept *= data.pattern->dims[static_cast<size_t>(i)].count;
  if (dst.partitions != data.partitions || dst.free != kept) [[unlikely]]
    c.fail(2, fmt::format("dst is {} x {}; the reduction gives {} x {}", dst.partitions, dst.free,
                          data.partitions, kept));
  const AluOp op = c.alu(kAOp);
  if (!is_reduction(op)) [[unlikely]]
    c.fail(3, fmt::format("{} is not a reduction operator", name(op)));
  if (!is_bitvec(op)) return;
  bit_patterns(c, 4, {kDst, kData});
  if (c.boolean(kANegate))
    c.fail(5, fmt::format("negate with {}; only arithmetic results can be negated", name(op)));
}

void check_tensor_scalar_reduce(const Check& c) {
  using namespace slot::tensor_scalar_reduce;
  c.same_shape(1, kDst, kData);
  c.vector_of(2, kOperand0, kData);
  c.vector_of(2, kReduceInit, kData);
  reduction_result(c, 3, kReduceRes, kData);
  c.arithmetic(4, c.alu(kAOp0));
  const AluOp op = c.alu(kAReduceOp);
  if (op != AluOp::kAdd && op != AluOp::kMultiply && op != AluOp::kMaximum && op != AluOp::kMinimum)
      [[unlikely]]
    c.fail(5, fmt::format("reduce_op is {}; add, multiply, maximum and minimum exist", name(op)));
  if (!reduce_cmd_is(c, kAReduceCmd, {ReduceCmd::kResetReduce, ReduceCmd::kReduce, ReduceCmd::kLoadReduce}))
      [[unlikely]]
    c.fail(6, "reduce_cmd must be reset_reduce, reduce or load_reduce");
  if (c.operand(kReduceInit).present() != reduce_cmd_is(c, kAReduceCmd, {ReduceCmd::kLoadReduce}))
      [[unlikely]]
    c.fail(7, "reduce_init is needed with load_reduce, and only there");
}

void check_tensor_scalar_cumulative(const Check& c) {
  using namespace slot::tensor_scalar_cumulative;
  c.same_shape(1, kDst, kSrc);
  c.vector_of(2, kImm0, kSrc);
  c.vector_of(2, kImm1, kSrc);
  c.arithmetic(3, c.alu(kAOp0));
  const AluOp op = c.alu(kAOp1);
  if (op != AluOp::kAdd && op != AluOp::kSubtract && op != AluOp::kMultiply && op != AluOp::kMaximum &&
      op != AluOp::kMinimum) [[unlikely]]
    c.fail(4, fmt::format("op1 is {}; add, subtract, multiply, maximum and minimum exist", name(op)));
  c.dtype_in(5, kDst, kCumulativeTypes);
  c.dtype_in(5, kSrc, kCumulativeTypes);
  c.dtype_in(6, kImm0, kFp32);
  c.dtype_in(6, kImm1, kFp32);
  if (!reduce_cmd_is(c, kAReduceCmd, {ReduceCmd::kResetReduce, ReduceCmd::kReduce, ReduceCmd::kLoadReduce}))
      [[unlikely]]
    c.fail(7, "reduce_cmd must be reset_reduce, reduce or load_reduce");
  if (reduce_cmd_is(c, kAReduceCmd, {ReduceCmd::kLoadReduce}) && !c.operand(kImm1).present()) [[unlikely]]
    c.fail(8, "load_reduce needs imm1");
}

void check_tensor_tensor_scan(const Check& c) {
  using namespace slot::tensor_tensor_scan;
  c.same_shape(1, kDst, kData0);
  c.same_shape(1, kDst, kData1);
  c.not_both_in_psum(2, kData0, kData1);
  c.vector_of(3, kInitial, kData0);
  for (AluOp op : {c.alu(kAOp0), c.alu(kAOp1)})
    if (is_bitvec(op) || is_unary(op)) [[unlikely]]
      c.fail(4, fmt::format("{} is not a binary arithmetic operator", name(op)));
}

void check_tensor_partition_reduce(const Check& c) {
  using namespace slot::tensor_partition_reduce;
  const Tile &dst = c.tile(kDst), &data = c.tile(kData);
  if (dst.partitions != 1 || dst.free != data.free) [[unlikely]]
    c.fail(1, fmt::format("dst is {} x {}; the reduction gives 1 x {}", dst.partitions, dst.free, data.free));
  const AluOp op = c.alu(kAOp);
  const bool known = op == AluOp::kAdd || op == AluOp::kAverage || op == AluOp::kMaximum ||
                     op == AluOp::kBitwiseOr || op == AluOp::kBitwiseAnd;
  if (!known) [[unlikely]]
    c.fail(2, fmt::format("op is {}; add, average, maximum, bitwise_or and bitwise_and exist", name(op)));
  if (is_bitvec(op)) bit_patterns(c, 3, {kDst, kData});
}

// activation and activation_reduce: the same slots.
void check_activation(const Check& c) {
  using namespace slot::activation;
  const bool always_reduces = c.in.opcode == Opcode::kActivationReduce;
  c.same_shape(1, kDst, kData);
  c.vector_of(2, kBias, kData);
  c.vector_of(2, kScale, kData);
  c.dtype_in(3, kScale, kFp32);
  if (c.has_tile(kBias) && c.tile(kBias).dtype() == DType::kTFloat32) [[unlikely]]
    c.fail(4, "bias is tfloat32; every other type is possible");
  if (c.generation < 3 && c.has_immediate(kBias) && c.immediate(kBias) != 0) [[unlikely]]
    c.fail(5, fmt::format("bias is {}; before NeuronCore-v3 it must be a [P, 1] tile", c.immediate(kBias)),
           "fill a tile with memset and pass it");
  reduction_result(c, 6, kReduceRes, kData);
  const int64_t reduce_op = c.integer(kAReduceOp);
  if (reduce_op >= 0 && static_cast<AluOp>(reduce_op) != AluOp::kAdd && (!always_reduces || c.generation < 3))
      [[unlikely]]
    c.fail(7, fmt::format("reduce_op is {}; only add is possible", name(static_cast<AluOp>(reduce_op))),
           "activate2 has more on NeuronCore-v4");
  no_scatter_into_psum_on_scalar(c, 8, kDst);
  const bool reciprocal = static_cast<ActivationFunction>(c.integer(kAOp)) == ActivationFunction::kReciprocal;
  if (c.generation < 3 && reciprocal && c.has_tile(kBias)) [[unlikely]]
    c.fail(always_reduces ? 9 : 10, "reciprocal with a bias; before NeuronCore-v3 it has none",
           "add the bias with tensor_scalar first");
  if (!always_reduces && reduce_cmd_is(c, kAReduceCmd, {ReduceCmd::kLoadReduce})) [[unlikely]]
    c.fail(9, "reduce_cmd is load_reduce; the Scalar engine cannot load its accumulators");
}

void check_activate2(const Check& c) {
  using namespace slot::activate2;
  c.same_shape(1, kDst, kData);
  for (int operand : {int{kImm0}, int{kImm1}, int{kReluParam}}) c.vector_of(2, operand, kData);
  const AluOp op0 = c.alu(kAOp0), op1 = c.alu(kAOp1);
  const bool known =
      op0 == AluOp::kMultiply ? op1 == AluOp::kAdd || op1 == AluOp::kSubtract || op1 == AluOp::kBypass
      : op1 == AluOp::kBypass ? op0 == AluOp::kAdd || op0 == AluOp::kSubtract || op0 == AluOp::kBypass
                              : false;
  if (!known)
    c.fail(3, fmt::format("({}, {}) is none of the six operator pairs", name(op0), name(op1)),
           "(multiply, add), (multiply, subtract), (multiply, bypass), (add, bypass), (subtract, bypass), "
           "(bypass, bypass)");
  if (c.has_tile(kImm0) && c.has_tile(kImm1)) c.same_dtype(4, kImm0, kImm1);
  if ((c.boolean(kAReverse0) && op0 == AluOp::kBypass) || (c.boolean(kAReverse1) && op1 == AluOp::kBypass))
    c.fail(5, "an operator that is bypassed cannot be reversed");
  const int64_t reduce = c.integer(kAReduceOp);
  const AluOp op = static_cast<AluOp>(reduce);
  if (reduce >= 0 && op != AluOp::kAdd && op != AluOp::kMaximum && op != AluOp::kMinimum &&
      op != AluOp::kAbsMax && op != AluOp::kAbsMin)
    c.fail(6, fmt::format("reduce_op is {}; add, maximum, minimum, abs_max and abs_min exist", name(op)));
  reduction_result(c, 7, kReduceRes, kData);
  no_scatter_into_psum_on_scalar(c, 8, kDst);
}

void check_exponential(const Check& c) {
  using namespace slot::exponential;
  c.same_shape(1, kDst, kSrc);
  c.vector_of(2, kMaxValue, kSrc);
  c.vector_of(2, kReduceInit, kSrc);
  reduction_result(c, 3, kReduceRes, kSrc);
  c.dtype_in(4, kDst, kExponentialTypes);
  c.dtype_in(4, kSrc, kExponentialTypes);
  c.dtype_in(5, kMaxValue, kFp32);
  if (reduce_cmd_is(c, kAReduceCmd, {ReduceCmd::kReset}))
    c.fail(6, "reduce_cmd must be idle, reset_reduce, reduce or load_reduce");
  const bool initialises =
      c.has_tile(kReduceInit) || (c.has_immediate(kReduceInit) && c.immediate(kReduceInit) != 0);
  if (initialises && !reduce_cmd_is(c, kAReduceCmd, {ReduceCmd::kLoadReduce}))
    c.fail(7, "reduce_init is used only with load_reduce");
  c.dtype_in(8, kReduceRes, kFloats);
}

void check_reciprocal(const Check& c) { c.same_shape(1, slot::reciprocal::kDst, slot::reciprocal::kData); }

void check_bn_stats(const Check& c) {
  using namespace slot::bn_stats;
  if (c.tile(kData).free > kBnStatsElementsMax) [[unlikely]]
    c.fail(1,
           fmt::format("data has {} elements per partition; at most {} are possible", c.tile(kData).free,
                       kBnStatsElementsMax),
           "tile by nl.tile_size.bn_stats_fmax and combine with bn_aggr");
  c.elements(2, kDst, kBnStatsOutputs);
  c.same_partitions(3, kDst, kData);
}

void check_bn_aggr(const Check& c) {
  using namespace slot::bn_aggr;
  if (c.tile(kData).free % kBnTriple != 0) [[unlikely]]
    c.fail(1, fmt::format(
                  "data has {} elements per partition; (count, mean, variance * count) triples are needed",
                  c.tile(kData).free));
  c.elements(2, kDst, 2);
  c.same_partitions(3, kDst, kData);
}

}  // namespace opentrn::isa::constraint
