// select_reduce, range_select, affine_select, iota.
#include <cstring>

#include <fmt/format.h>

#include "numerics/alu.h"
#include "sim/functional/accumulate.h"
#include "sim/functional/instructions/body.h"
#include "sim/functional/rows.h"

namespace opentrn::sim::bodies {

// dst = predicate ? on_true : on_false; the accumulators keep the maximum. [doc: nki.isa.select_reduce]
void select_reduce(Context& cx) {
  using namespace isa::slot::select_reduce;
  const AluOp reduce_op = cx.optional_alu(kAReduceOp).value_or(AluOp::kMaximum);
  if (reduce_op != AluOp::kMaximum)
    cx.broken("reduce_op", fmt::format("select_reduce reduces with maximum, not {}", name(reduce_op)));
  const bool reverse = cx.boolean(kAReversePred);
  View predicate = cx.source(kPredicate);
  if (!is_integer(predicate.dtype) && predicate.dtype != DType::kBool)
    cx.broken("predicate", fmt::format("the predicate is {}", name(predicate.dtype)),
              "use an 8- or 16-bit integer type");
  View on_true = cx.source(kOnTrue);
  const PerPartition on_false = cx.per_partition(kOnFalse, on_true.partitions);
  const View dst = cx.destination(kDst);
  cx.expect_same_shape(dst, on_true, kDst, kOnTrue);
  cx.expect_same_shape(dst, predicate, kDst, kPredicate);
  cx.separate(dst, on_true, predicate);
  const isa::ReduceCmd cmd = cx.reduce_cmd(kAReduceCmd);
  if (cmd == isa::ReduceCmd::kIdle) cx.engines().vector.defined.reset();
  Accumulation best(cx, cx.engines().vector, cmd, reduce_op, {}, cx.lane(dst, kDst), dst.partitions);
  // An integer predicate is not zero exactly when its fp32 value is not.
  for_rows<2>(cx, {&on_true, &predicate}, dst, [&](int64_t p, const float* const* in, float* out, int64_t n) {
    const float other = on_false.at(p);
    for (int64_t i = 0; i < n; ++i) out[i] = (in[1][i] != 0.0f) != reverse ? in[0][i] : other;
    if (best.active()) best.add_row(p, out, n);
  });
  best.store(cx, kReduceRes);
}

// Keeps elements whose position satisfies both comparisons, in fp32. [doc: nki.isa.range_select]
void range_select(Context& cx) {
  using namespace isa::slot::range_select;
  const AluOp comp0 = cx.alu(kACompOp0);
  const AluOp comp1 = cx.alu(kACompOp1);
  const AluOp reduce_op = cx.optional_alu(kAReduceOp).value_or(AluOp::kMaximum);
  for (AluOp op : {comp0, comp1})
    if (op != AluOp::kEqual && op != AluOp::kLess && op != AluOp::kLessEqual && op != AluOp::kGreater &&
        op != AluOp::kGreaterEqual)
      cx.broken("comp_op", fmt::format("{} is not a comparison of range_select", name(op)));
  if (reduce_op != AluOp::kMaximum)
    cx.broken("reduce_op", fmt::format("range_select reduces with maximum, not {}", name(reduce_op)));
  View on_true = cx.source(kOnTrueTile);
  const PerPartition bound0 = cx.per_partition(kBound0, on_true.partitions);
  const PerPartition bound1 = cx.per_partition(kBound1, on_true.partitions);
  const View dst = cx.destination(kDst);
  cx.expect_same_shape(dst, on_true, kDst, kOnTrueTile);
  cx.separate(dst, on_true);
  const float start = static_cast<float>(cx.real(kARangeStart));
  const float on_false = static_cast<float>(cx.real(kAOnFalseValue));
  Accumulation best(cx, cx.engines().vector, cx.reduce_cmd(kAReduceCmd), reduce_op, {}, cx.lane(dst, kDst),
                    dst.partitions);
  const int64_t elements = dst.elements;
  float* const position = cx.scratch.floats(elements);
  for (int64_t i = 0; i < elements; ++i) position[i] = start + static_cast<float>(i);
  for_rows<1>(cx, {&on_true}, dst, [&](int64_t p, const float* const* in, float* out, int64_t n) {
    ScratchScope scope;
    float* first = scope.floats(n);
    float* second = scope.floats(n);
    numerics::alu_tensor_scalar(comp0, position, bound0.at(p), false, first, static_cast<size_t>(n));
    numerics::alu_tensor_scalar(comp1, position, bound1.at(p), false, second, static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) out[i] = first[i] != 0.0f && second[i] != 0.0f ? in[0][i] : on_false;
    if (best.active()) best.add_row(p, out, n);
  });
  best.store(cx, kReduceRes);
}

namespace {

// offset + partition * multiplier + sum of steps, in int32, row-major over the pattern.
class AffinePattern {
 public:
  AffinePattern(const Context& cx, std::span<const int64_t> pattern, int64_t offset, int64_t multiplier,
                const View& tile, int slot)
      : offset_(offset), multiplier_(multiplier) {
    if (pattern.size() % 2 != 0 || pattern.size() > 2 * kRankMax)
      cx.broken("pattern", fmt::format("the pattern has {} numbers", pattern.size()),
                "up to 4 [step, num] pairs");
    int64_t count = 1;
    for (size_t i = 0; i < pattern.size(); i += 2) {
      dims_[rank_++] = {pattern[i], pattern[i + 1]};
      if (pattern[i + 1] < 1 || __builtin_mul_overflow(count, pattern[i + 1], &count))
        cx.broken("pattern", fmt::format("a dimension of the pattern has {} elements", pattern[i + 1]));
    }
    cx.expect_elements(tile, slot, count);
  }

  void fill(int64_t p, int64_t n, int32_t* out) const {
    uint32_t value =
        static_cast<uint32_t>(offset_) + static_cast<uint32_t>(p) * static_cast<uint32_t>(multiplier_);
    std::array<int64_t, kRankMax> index{};
    for (int64_t i = 0; i < n; ++i) {
      out[i] = static_cast<int32_t>(value);
      for (int d = rank_ - 1; d >= 0; --d) {
        value += static_cast<uint32_t>(dims_[d].step);
        if (++index[d] < dims_[d].count) break;
        value -= static_cast<uint32_t>(dims_[d].step) * static_cast<uint32_t>(dims_[d].count);
        index[d] = 0;
      }
    }
  }

 private:
  static constexpr size_t kRankMax = 8;
  struct Axis {
    int64_t step;
    int64_t count;
  };
  int64_t offset_;
  int64_t multiplier_;
  std::array<Axis, kRankMax> dims_{};
  int rank_ = 0;
};

}  // namespace

// Values are int32; narrower integers hold them (iota.C3), floats are rounded once.
void iota(Context& cx) {
  using namespace isa::slot::iota;
  const std::span<const int64_t> pattern = cx.list(kAPattern);
  const View dst = cx.destination(kDst);
  const AffinePattern values(cx, pattern, cx.integer(kAOffset), cx.integer(kAChannelMultiplier), dst, kDst);
  const int64_t n = dst.elements;
  const bool integer = is_integer(dst.dtype) || dst.dtype == DType::kBool;
  cx.parallel(dst.partitions, dst.repeats() ? 0 : dst.total(), [&](int64_t begin, int64_t end) {
    ScratchScope scope;
    int32_t* row = scope.array<int32_t>(n);
    int64_t* wide = scope.array<int64_t>(n);
    float* real = scope.floats(n);
    for (int64_t p = begin; p < end; ++p) {
      values.fill(p, n, row);
      if (integer) {
        std::copy(row, row + n, wide);
        store_row_i64(dst, p, wide);
      } else {
        for (int64_t i = 0; i < n; ++i) real[i] = static_cast<float>(row[i]);
        store_row(dst, p, real);
      }
    }
  });
}

void affine_select(Context& cx) {
  using namespace isa::slot::affine_select;
  const AluOp compare = cx.alu(kACmpOp);
  const std::span<const int64_t> pattern = cx.list(kAPattern);
  View on_true = cx.source(kOnTrueTile);
  const View dst = cx.destination(kDst);
  cx.expect_same_shape(dst, on_true, kDst, kOnTrueTile);
  cx.separate(dst, on_true);
  const AffinePattern values(cx, pattern, cx.integer(kAOffset), cx.integer(kAChannelMultiplier), dst, kDst);
  const float on_false = static_cast<float>(cx.real(kAOnFalseValue));
  const int64_t n = dst.elements;
  const int bytes = dst.element_bytes;
  const bool keep_bits = on_true.dtype == dst.dtype;
  const uint64_t on_false_bits = keep_bits ? numerics::from_float(dst.dtype, on_false) : 0;
  cx.parallel(dst.partitions, dst.repeats() ? 0 : dst.total(), [&](int64_t begin, int64_t end) {
    ScratchScope scope;
    int32_t* affine = scope.array<int32_t>(n);
    int64_t* chosen = scope.array<int64_t>(n);
    float* row_scratch = scope.floats(n);
    float* out = scope.floats(n);
    std::byte* raw = scope.bytes(n * 8);
    for (int64_t p = begin; p < end; ++p) {
      values.fill(p, n, affine);
      std::copy(affine, affine + n, chosen);
      numerics::alu_tensor_scalar_int(compare, DType::kInt32, chosen, 0, false, chosen,
                                      static_cast<size_t>(n));
      if (!keep_bits) {
        const float* row = load_row(on_true, p, row_scratch);
        for (int64_t i = 0; i < n; ++i) out[i] = chosen[i] != 0 ? row[i] : on_false;
        store_row(dst, p, out);
        continue;
      }
      std::byte* to = raw;
      for_runs_of_partition(on_true, p, [&](std::byte* at, int64_t count, int64_t stride) {
        numerics::copy_bits(bytes, at, stride / bytes, to, 1, static_cast<size_t>(count));
        to += count * bytes;
      });
      for (int64_t i = 0; i < n; ++i)
        if (chosen[i] == 0)
          std::memcpy(raw + i * bytes, &on_false_bits, static_cast<size_t>(bytes));  // little endian
      const std::byte* from = raw;
      for_runs_of_partition(dst, p, [&](std::byte* at, int64_t count, int64_t stride) {
        numerics::copy_bits(bytes, from, 1, at, stride / bytes, static_cast<size_t>(count));
        from += count * bytes;
      });
    }
  });
}

}  // namespace opentrn::sim::bodies
