// Weights in MXFP8 (e4m3fn) or MXFP4 (e2m1fn), multiplied by activations in MXFP8: OCP Microscaling v1.0.
//
// 32 elements that follow each other along the contraction share a power of two (e8m0). The Tensor engine
// multiplies only MX by MX, so activations are quantised too, when the program runs, as the Vector engine's
// quantize_mx does: from bf16 or fp16 (fp32 is rounded to bf16 first), scale 2^(floor(log2 amax) - 7),
// elements to nearest even, saturating.
//
// A weight's scale is 2^(floor(log2 amax) - e) for e = the largest exponent of an element (8, 2), as in the
// specification's own example, or twice that, whichever has the smaller sum of squared errors: the first one
// cuts off what lies between the largest element and 2^(e+1). Ties go to the first.
//
// For the evaluator the quantisation is written out in ops; for kernels the product is one op
// (packed_product.h).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/packed_product.h"
#include "compiler/rewrite/expression.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/weights/layout.h"
#include "compiler/weights/weights.h"
#include "numerics/mx.h"

namespace opentrn::compiler {

namespace {

constexpr int kScaleBias = 127;

struct Format {
  DType packed;
  ElementType element, packed_element;  // one element, and four
};

Format format_of(WeightType type) {
  if (type == WeightType::kMxFp4) return {DType::kFloat4E2M1FnX4, ElementType::kF4E2M1FN, ElementType::kUI16};
  return {DType::kFloat8E4M3FnX4, ElementType::kF8E4M3FN, ElementType::kUI32};
}

// One block of 32 by the better of two scales.
struct Block {
  std::array<std::byte, kMxBlock> packed;  // of which fp4 takes a half
  uint8_t code;
};

double packed_with(const Format& format, std::span<const float> values, int code, Block& block) {
  std::array<float, kMxBlock> scaled, back;
  for (size_t i = 0; i < kMxBlock; ++i) scaled[i] = std::ldexp(values[i], kScaleBias - code);
  constexpr size_t kPacked = kMxBlock / numerics::kMxPack;
  numerics::pack_x4(format.packed, scaled.data(), block.packed.data(), kPacked);
  numerics::unpack_x4(format.packed, block.packed.data(), back.data(), kPacked);
  block.code = static_cast<uint8_t>(code);
  double error = 0;
  for (size_t i = 0; i < kMxBlock; ++i) {
    const double difference = std::ldexp(static_cast<double>(back[i]), code - kScaleBias) - values[i];
    error += difference * difference;
  }
  return error;
}

std::optional<Block> quantised(const Format& format, std::span<const float> values) {
  float amax = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) return std::nullopt;
    amax = std::max(amax, std::fabs(value));
  }
  const int code = numerics::mx_scale_code(format.packed, amax, numerics::MxScaleRule::kOcp);
  Block narrow, wide;
  const double error = packed_with(format, values, code, narrow);
  if (error == 0 || code >= 254) return narrow;
  return packed_with(format, values, code + 1, wide) < error ? wide : narrow;
}

struct Microscaled {
  Literal packed;    // [K/4, N]
  Literal scales;    // ui8 [K/32, N]
  Literal elements;  // [K/32, 32, N], one by one
};

std::optional<Microscaled> microscaled(const Literal& literal, const WeightLayout& layout,
                                       const Format& format) {
  const FloatElements elements(literal);
  const size_t rows = layout.contracted.size(), columns = layout.channels.size();
  const size_t block_bytes = format.packed == DType::kFloat4E2M1FnX4 ? kMxBlock / 2 : kMxBlock;
  const size_t pack_bytes = block_bytes / (kMxBlock / numerics::kMxPack);
  std::vector<std::byte> packed(rows / kMxBlock * block_bytes * columns), scales(rows / kMxBlock * columns),
      single(rows * columns);
  std::array<float, kMxBlock> values;
  for (size_t group = 0; group < rows / kMxBlock; ++group)
    for (size_t n = 0; n < columns; ++n) {
      for (size_t i = 0; i < kMxBlock; ++i)
        values[i] = elements[layout.contracted[group * kMxBlock + i] + layout.channels[n]];
      const auto block = quantised(format, values);
      if (!block) return std::nullopt;
      scales[group * columns + n] = static_cast<std::byte>(block->code);
      constexpr size_t kPacks = kMxBlock / numerics::kMxPack;
      for (size_t i = 0; i < kPacks; ++i)
        std::memcpy(packed.data() + ((group * kPacks + i) * columns + n) * pack_bytes,
                    block->packed.data() + i * pack_bytes, pack_bytes);
      for (size_t i = 0; i < kMxBlock; ++i) {
        const std::byte both = block->packed[i * block_bytes / kMxBlock];
        const std::byte one =
            block_bytes == kMxBlock ? both : (i % 2 == 0 ? both & std::byte{15} : both >> 4);
        single[(group * kMxBlock + i) * columns + n] = one;
      }
    }
  const auto groups = static_cast<int64_t>(rows / kMxBlock), n = static_cast<int64_t>(columns);
  return Microscaled{
      {Type::tensor(format.packed_element, {groups * (kMxBlock / numerics::kMxPack), n}), std::move(packed)},
      {Type::tensor(ElementType::kUI8, {groups, n}), std::move(scales)},
      {Type::tensor(format.element, {groups, kMxBlock, n}), std::move(single)}};
}

// x [M, K] as MXFP8 and back, in fp32.
Expr through_mxfp8(const Expr& x) {
  Builder& builder = x.builder();
  const int64_t rows = x.type().dim(0), blocks = x.type().dim(1) / kMxBlock;
  const Expr values(builder, builder.reshape(x.as(ElementType::kF32).id(), {rows, blocks, kMxBlock}));
  const Expr amax(builder, builder.reduce(OpKind::maximum_, abs(values).id(), {2}));
  constexpr double kReserve = 7, kLargest = 448, kNoNumber = 255;
  const Expr exponent = amax.seen_as(ElementType::kI32) >> 23;  // biased; amax is not negative
  const Expr code = max(exponent - kReserve, exponent.number(0));
  const Expr down = ((254.0 - code) << 23).seen_as(ElementType::kF32);
  const Expr power = (code << 23).seen_as(ElementType::kF32);
  const Expr up = select(exponent == kNoNumber, power.number(std::nan("")),
                         select(code == 0.0, power.number(0x1p-127), power));
  const auto spread = [&](const Expr& scale) {
    return Expr(builder, builder.broadcast_in_dim(scale.id(), {rows, blocks, kMxBlock}, {0, 1}));
  };
  const Expr scaled = values * spread(down);
  const Expr cut = min(max(scaled, scaled.number(-kLargest)), scaled.number(kLargest));
  const Expr held = cut.as(ElementType::kF8E4M3FN).as(ElementType::kF32) * spread(up);
  return {builder, builder.reshape(held.id(), {rows, blocks * kMxBlock})};
}

// The weights in fp32: exact.
Expr dequantised(Builder& builder, const Microscaled& weights) {
  const Expr elements = Expr(builder, builder.constant(weights.elements)).as(ElementType::kF32);
  const auto dims = elements.type().dims_vector();
  const Literal codes(weights.scales.type().with_element(ElementType::kF8E8M0FNU), weights.scales.dense());
  const Expr scales = Expr(builder, builder.constant(codes)).as(ElementType::kF32);
  const Expr spread(builder, builder.broadcast_in_dim(scales.id(), dims, {0, 2}));
  return {builder, builder.reshape((elements * spread).id(), {dims[0] * dims[1], dims[2]})};
}

class Microscaling {
 public:
  Microscaling(const Function& function, WeightType type, bool as_kernels)
      : function_(function), weights_(function), format_(format_of(type)), as_kernels_(as_kernels) {}

  WeightCounts counts() const { return counts_; }

  std::optional<std::vector<ValueId>> replace(Builder& builder, const Op& op,
                                              std::span<const ValueId> operands) {
    if (op.kind != OpKind::dot_general_) return std::nullopt;
    for (const size_t side : {0, 1}) {
      if (!weights_.is_weight(op, side, counts_)) continue;
      const WeightLayout layout = layout_of(function_, op, side);
      const ElementType x = function_.type(op.operands[1 - side]).element();
      const bool fits = side == 1 && layout.batch_dims.empty() &&
                        layout.contracted.size() % kMxContractedMultiple == 0 &&
                        (x == ElementType::kF32 || x == ElementType::kBF16 || x == ElementType::kF16);
      if (!fits) {
        ++counts_.unfit;
        return std::nullopt;
      }
      const Microscaled* weights = once(op.operands[side], layout);
      if (!weights) return std::nullopt;
      const Type& stated = function_.type(op.results[0]);
      const Expr activations(builder, operands[0]);
      const Expr narrow = x == ElementType::kF32 ? activations.as(ElementType::kBF16) : activations;
      const Expr sums =
          as_kernels_ ? composite(narrow, op, *weights, stated) : written_out(narrow, op, *weights, stated);
      return {{sums.as(stated.element()).id()}};
    }
    return std::nullopt;
  }

 private:
  const Microscaled* once(ValueId weight, const WeightLayout& layout) {
    const auto key = std::pair(weight, layout.contracted_dims);
    auto found = done_.find(key);
    if (found == done_.end()) {
      const Literal& literal = *Weights::constant(function_, weight);
      found = done_.emplace(key, microscaled(literal, layout, format_)).first;
      if (!found->second) {
        ++counts_.not_finite;
      } else {
        ++counts_.count;
        counts_.bytes_before += static_cast<int64_t>(literal.bytes().size());
        counts_.bytes_after +=
            static_cast<int64_t>(found->second->packed.bytes().size() + found->second->scales.bytes().size());
      }
    }
    return found->second ? &*found->second : nullptr;
  }

  static Expr composite(const Expr& x, const Op& op, const Microscaled& weights, const Type& stated) {
    Builder& builder = x.builder();
    const std::vector<ValueId> operands{x.id(), builder.constant(weights.packed),
                                        builder.constant(weights.scales)};
    const auto contracted = op.integers(Attr::lhs_contracting_dimensions);
    Function& function = builder.function();
    const graph::OpId made = function.append(builder.block(), OpKind::composite_, operands,
                                             {stated.with_element(ElementType::kF32)}, builder.location());
    Op& composite = function.op(made);
    composite.set(Attr::name, std::string(kMxProductName));
    composite.set(Attr::lhs_contracting_dimensions,
                  std::vector<int64_t>(contracted.begin(), contracted.end()));
    return {builder, composite.results[0]};
  }

  static Expr written_out(const Expr& x, const Op& op, const Microscaled& weights, const Type& stated) {
    Builder& builder = x.builder();
    const auto contracted = op.integers(Attr::lhs_contracting_dimensions);
    std::vector<int64_t> order;
    int64_t rows = 1, terms = 1;
    for (int64_t d = 0; d < x.type().rank(); ++d)
      if (std::find(contracted.begin(), contracted.end(), d) == contracted.end()) {
        order.push_back(d);
        rows *= x.type().dim(static_cast<int>(d));
      }
    for (const int64_t d : contracted) terms *= x.type().dim(static_cast<int>(d));
    order.insert(order.end(), contracted.begin(), contracted.end());
    const Expr matrix(builder, builder.reshape(builder.transpose(x.id(), order), {rows, terms}));
    const Expr w = dequantised(builder, weights);
    const ValueId sums = builder.add(OpKind::dot_general_, {through_mxfp8(matrix).id(), w.id()},
                                     {{Attr::lhs_batching_dimensions, std::vector<int64_t>{}},
                                      {Attr::rhs_batching_dimensions, std::vector<int64_t>{}},
                                      {Attr::lhs_contracting_dimensions, std::vector<int64_t>{1}},
                                      {Attr::rhs_contracting_dimensions, std::vector<int64_t>{0}}},
                                     {Type::tensor(ElementType::kF32, {rows, w.type().dim(1)})});
    return {builder, builder.reshape(sums, stated.dims_vector())};
  }

  const Function& function_;
  Weights weights_;
  Format format_;
  bool as_kernels_;
  std::map<std::pair<ValueId, std::vector<int64_t>>, std::optional<Microscaled>> done_;
  WeightCounts counts_;
};

}  // namespace

WeightCounts microscale_weights(Function& function, WeightType type, bool as_kernels) {
  Microscaling pass(function, type, as_kernels);
  function = rewritten(function, [&](Builder& builder, const Op& op, std::span<const ValueId> operands) {
    return pass.replace(builder, op, operands);
  });
  return pass.counts();
}

}  // namespace opentrn::compiler
