// Weights in int8 or fp8, with one fp32 scale per channel.
//
// A weight is a constant that only products (dot_general) read. With s[n] = max |w[:, n]| / largest(type),
// over what is contracted, and q = round(w / s), to nearest even,
//
//   dot_general(x, w)   becomes   dot_general(x, convert(q)) * s
//
// which is the same product in other brackets, s being the same for every term of a sum. Converting q is
// exact. The product is computed with the operand type that the model gives, kernels load q as it is kept
// (read_narrow_operands), and the scale is applied to the sums on their way out of PSUM. A channel of zeros
// has scale 1.
//
// q is laid out as kernels read it: batches, what is contracted, channels.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "compiler/analysis/graph_names.h"
#include "compiler/weights/layout.h"
#include "compiler/weights/weights.h"
#include "numerics/quantise.h"

namespace opentrn::compiler {

namespace {

ElementType stored_element_of(WeightType type) {
  switch (type) {
    case WeightType::kInt8: return ElementType::kI8;
    case WeightType::kFp8E4M3: return ElementType::kF8E4M3;
    case WeightType::kFp8E4M3Fn: return ElementType::kF8E4M3FN;
    default: return ElementType::kF8E5M2;
  }
}

// nullopt where an element is no finite number.
std::optional<ScaledWeights> quantised(const Literal& literal, const WeightLayout& layout,
                                       ElementType element) {
  const graph::Type& type = literal.type();
  const FloatElements elements(literal);
  const size_t rows = layout.contracted.size(), columns = layout.channels.size(),
               batches = layout.batches.size();
  std::vector<float> scales(batches * columns, 0.0f), ratios(rows * columns);
  std::vector<std::byte> bytes(batches * rows * columns);
  for (size_t b = 0; b < batches; ++b) {
    for_elements(layout, layout.batches[b],
                 [&](size_t k, size_t n, int64_t at) { ratios[k * columns + n] = elements[at]; });
    if (!numerics::quantise_columns(*graph::to_dtype(element), ratios, {scales.data() + b * columns, columns},
                                    bytes.data() + b * rows * columns))
      return std::nullopt;
  }
  std::vector<int64_t> dims = dims_of(type, layout.batch_dims), scale_dims = dims;
  const auto contracted = dims_of(type, layout.contracted_dims), free = dims_of(type, layout.channel_dims);
  dims.insert(dims.end(), contracted.begin(), contracted.end());
  dims.insert(dims.end(), free.begin(), free.end());
  scale_dims.insert(scale_dims.end(), free.begin(), free.end());
  std::vector<std::byte> scale_bytes(scales.size() * sizeof(float));
  std::memcpy(scale_bytes.data(), scales.data(), scale_bytes.size());
  return ScaledWeights{{graph::Type::tensor(element, dims), std::move(bytes)},
                       {graph::Type::tensor(ElementType::kF32, scale_dims), std::move(scale_bytes)}};
}

class Quantisation {
 public:
  Quantisation(Function& function, WeightType type)
      : function_(function), weights_(function), element_(stored_element_of(type)) {}

  WeightCounts run() {
    for_products(function_, function_.body(),
                 [&](BlockId block, size_t at, OpId id) { return product(block, at, id); });
    return counts_;
  }

 private:
  // How many ops were inserted around the product.
  size_t product(BlockId block, size_t at, OpId id) {
    for (const size_t i : {0, 1}) {
      const Op op = function_.op(id);
      if (op.operands.size() != 2 || !weights_.is_weight(op, i, counts_)) continue;
      const ValueId weight = op.operands[i];
      const WeightLayout layout = layout_of(function_, op, i);
      const ScaledWeights* narrow = quantised_once(weight, layout);
      if (!narrow) continue;
      return multiply_scaled(function_, block, at, id, i, layout, *narrow);
    }
    return 0;
  }

  // A weight of several products with the same channels is quantised once.
  const ScaledWeights* quantised_once(ValueId weight, const WeightLayout& layout) {
    const auto key = std::tuple(weight, layout.batch_dims, layout.contracted_dims);
    auto found = done_.find(key);
    if (found == done_.end()) {
      const Literal& literal = *Weights::constant(function_, weight);
      found = done_.emplace(key, quantised(literal, layout, element_)).first;
      if (!found->second) {
        ++counts_.not_finite;
      } else {
        ++counts_.count;
        counts_.bytes_before += static_cast<int64_t>(literal.bytes().size());
        counts_.bytes_after += static_cast<int64_t>(found->second->weights.bytes().size() +
                                                    found->second->scales.bytes().size());
      }
    }
    return found->second ? &*found->second : nullptr;
  }

  Function& function_;
  Weights weights_;
  ElementType element_;
  std::map<std::tuple<ValueId, std::vector<int64_t>, std::vector<int64_t>>, std::optional<ScaledWeights>>
      done_;
  WeightCounts counts_;
};

}  // namespace

WeightCounts quantise_weights(Function& function, WeightType type) {
  return Quantisation(function, type).run();
}

}  // namespace opentrn::compiler
