// Weights in MXFP8 (e4m3fn) or MXFP4 (e2m1fn), multiplied by activations in MXFP8: OCP Microscaling v1.0.
//
// 32 elements that follow each other along the contraction share a power of two (e8m0). The Tensor engine
// multiplies only MX by MX, so activations are quantised too, when the program runs, as the Vector engine's
// quantize_mx does: from bf16 or fp16 (fp32 is rounded to bf16 first), scale 2^(floor(log2 amax) - 7),
// elements to nearest even, saturating.
//
// A weight's scale follows numerics/quantise.h.
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
#include "compiler/weights/mx_product.h"
#include "compiler/weights/weights.h"
#include "numerics/mx.h"
#include "numerics/quantise.h"

namespace opentrn::compiler {

namespace {

struct Format {
  DType packed;
  ElementType element, packed_element;  // one element, and four
};

Format format_of(WeightType type) {
  if (type == WeightType::kMxFp4) return {DType::kFloat4E2M1FnX4, ElementType::kF4E2M1FN, ElementType::kUI16};
  return {DType::kFloat8E4M3FnX4, ElementType::kF8E4M3FN, ElementType::kUI32};
}

struct Microscaled {
  Literal packed;    // [K/4, N]
  Literal scales;    // ui8 [K/32, N]
  Literal elements;  // [K/32, 32, N], one by one
};

// Packs of four, [groups, 8, N], one by one: [groups, 32, N].
std::vector<std::byte> one_by_one(std::span<const std::byte> packed, size_t columns, size_t pack_bytes) {
  constexpr size_t kPack = numerics::kMxPack;
  std::vector<std::byte> single(packed.size() / pack_bytes * kPack);
  for (size_t pack = 0; pack < packed.size() / pack_bytes; ++pack)
    for (size_t i = 0; i < kPack; ++i) {
      const std::byte both = packed[pack * pack_bytes + i * pack_bytes / kPack];
      const std::byte one = pack_bytes == kPack ? both : (i % 2 == 0 ? both & std::byte{15} : both >> 4);
      single[(pack / columns * kPack + i) * columns + pack % columns] = one;
    }
  return single;
}

std::optional<Microscaled> microscaled(const Literal& literal, const WeightLayout& layout,
                                       const Format& format) {
  const FloatElements elements(literal);
  const size_t rows = layout.contracted.size(), columns = layout.channels.size();
  const auto pack_bytes = static_cast<size_t>(size_bytes(format.packed));
  std::vector<float> values(rows * columns);
  for (size_t k = 0; k < rows; ++k)
    for (size_t n = 0; n < columns; ++n)
      values[k * columns + n] = elements[layout.contracted[k] + layout.channels[n]];
  std::vector<std::byte> packed(rows / numerics::kMxPack * columns * pack_bytes),
      scales(rows / kMxBlock * columns);
  if (!numerics::microscale_columns(format.packed, values, columns, packed.data(),
                                    reinterpret_cast<uint8_t*>(scales.data())))
    return std::nullopt;
  std::vector<std::byte> single = one_by_one(packed, columns, pack_bytes);
  const auto groups = static_cast<int64_t>(rows / kMxBlock), n = static_cast<int64_t>(columns);
  return Microscaled{
      {Type::tensor(format.packed_element, {groups * (kMxBlock / numerics::kMxPack), n}), std::move(packed)},
      {Type::tensor(ElementType::kUI8, {groups, n}), std::move(scales)},
      {Type::tensor(format.element, {groups, kMxBlock, n}), std::move(single)}};
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
    return {builder, mx_product_op(builder, operands, {contracted.begin(), contracted.end()}, stated)};
  }

  static Expr written_out(const Expr& x, const Op& op, const Microscaled& weights, const Type& stated) {
    Builder& builder = x.builder();
    return mx_product_written_out(x, {builder, builder.constant(weights.elements)},
                                  {builder, builder.constant(weights.scales)},
                                  op.integers(Attr::lhs_contracting_dimensions), stated.dims_vector());
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
