// What passes that change constant operands of products share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/weights/weights.h"
#include "graph/literal.h"
#include "graph/module.h"

namespace opentrn::compiler {

// A weight as batches x contracted x channels: the place of an element is the sum of three offsets.
struct WeightLayout {
  std::vector<int64_t> batch_dims, contracted_dims, channel_dims;
  std::vector<int64_t> batches, contracted, channels;  // offsets in elements
};
WeightLayout layout_of(const graph::Type& type, std::span<const int64_t> batching,
                       std::span<const int64_t> contracting);
// Of operand `side` of a dot_general.
WeightLayout layout_of(const graph::Function& function, const graph::Op& product, size_t side);
std::vector<int64_t> dims_of(const graph::Type& type, std::span<const int64_t> dims);

// The product names the dimensions of an operand that is laid out as batches, what is contracted, channels.
void name_dimensions(graph::Op& product, size_t side, const WeightLayout& layout);

// Weights laid out as kernels read them, batches, what is contracted, channels; and fp32 [batches, channels].
struct ScaledWeights {
  graph::Literal weights, scales;
};
// Operand `side` of the product at `at` becomes convert(weights), and the result is multiplied by the scales,
// in fp32. How many ops were inserted around the product.
size_t multiply_scaled(graph::Function& function, graph::BlockId block, size_t at, graph::OpId product,
                       size_t side, const WeightLayout& layout, const ScaledWeights& narrow);

// The elements of a float literal as fp32, in place where they are that already.
class FloatElements {
 public:
  explicit FloatElements(const graph::Literal& literal);
  float operator[](int64_t i) const { return data_[i]; }

 private:
  std::vector<float> copy_;
  const float* data_ = nullptr;
};

// visit(contracted, channel, offset) for all elements of a batch, in blocks that suit both orders of memory.
template <typename Visit>
void for_elements(const WeightLayout& layout, int64_t batch_offset, Visit&& visit) {
  const size_t rows = layout.contracted.size(), columns = layout.channels.size();
  // Channels that lie together: whole rows.
  if (columns > 0 && layout.channels.back() == static_cast<int64_t>(columns) - 1) {
    for (size_t k = 0; k < rows; ++k) {
      const int64_t row = batch_offset + layout.contracted[k];
      for (size_t n = 0; n < columns; ++n) visit(k, n, row + static_cast<int64_t>(n));
    }
    return;
  }
  constexpr size_t kBlock = 64;
  for (size_t k0 = 0; k0 < rows; k0 += kBlock)
    for (size_t n0 = 0; n0 < columns; n0 += kBlock)
      for (size_t k = k0; k < std::min(rows, k0 + kBlock); ++k)
        for (size_t n = n0; n < std::min(columns, n0 + kBlock); ++n)
          visit(k, n, batch_offset + layout.contracted[k] + layout.channels[n]);
}

// visit(block, position, product) for every dot_general, those of regions first; it gives the number of ops
// that it inserted into the block.
template <typename Visit>
void for_products(graph::Function& function, graph::BlockId block, Visit&& visit) {
  for (size_t at = 0; at < function.block(block).ops.size(); ++at) {
    const graph::OpId op = function.block(block).ops[at];
    for (const graph::BlockId region : std::vector(function.op(op).regions))
      for_products(function, region, visit);
    if (function.op(op).kind == graph::OpKind::dot_general_) at += visit(block, at, op);
  }
}

// Which operands of products are weights: constants of floats that only products read, large enough.
class Weights {
 public:
  explicit Weights(const graph::Function& function);

  static const graph::Literal* constant(const graph::Function& function, graph::ValueId value);
  // Operand `side` of a dot_general. One that is none for its size or its readers is counted.
  bool is_weight(const graph::Op& product, size_t side, WeightCounts& counts) const;

 private:
  const graph::Function& function_;
  std::vector<bool> read_otherwise_;  // by value: by an op that is no product
};

}  // namespace opentrn::compiler
