// Structured-sparse weights: of every N that follow each other along the contraction at most M are not zero.
//
// The Tensor engine's sparse product keeps 4 of 8, 12 or 16 (nc_matmul_sparse). A weight that obeys 1:2, 2:4,
// 1:4 or 2:8 obeys 4:8 or 4:16 too, so every pattern that the chips name is one of the three; the contraction
// is a multiple of their groups.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/packed_product.h"
#include "compiler/weights/layout.h"
#include "compiler/weights/weights.h"
#include "numerics/convert.h"

namespace opentrn::compiler {

using numerics::SparsityPattern;

namespace {

constexpr int kKept = 4;        // of the instruction's groups
constexpr size_t kTagPack = 4;  // tags of a ui16

// One channel's elements along the contraction.
std::vector<float> channel_of(const FloatElements& elements, const WeightLayout& layout, int64_t at) {
  std::vector<float> row;
  row.reserve(layout.contracted.size());
  for (const int64_t k : layout.contracted) row.push_back(elements[at + k]);
  return row;
}

class Pruning {
 public:
  Pruning(Function& function, SparsityPattern pattern)
      : function_(function), weights_(function), pattern_(pattern) {}

  void run() {
    for_products(function_, function_.body(),
                 [&](BlockId block, size_t at, OpId id) { return prune(block, at, id); });
  }

 private:
  size_t prune(BlockId block, size_t at, OpId product) {
    size_t inserted = 0;
    for (const size_t side : {0, 1}) {
      const Op op = function_.op(product);
      WeightCounts ignored;
      if (!weights_.is_weight(op, side, ignored)) continue;
      const WeightLayout layout = layout_of(function_, op, side);
      if (layout.contracted.size() % static_cast<size_t>(pattern_.group) != 0) continue;
      const OpId made = function_.insert(block, at + inserted++, OpKind::constant_, {},
                                         {function_.type(op.operands[side])}, op.location);
      function_.op(made).set(Attr::value, pruned(*Weights::constant(function_, op.operands[side]), layout));
      function_.op(product).operands[side] = function_.op(made).results[0];
    }
    return inserted;
  }

  Literal pruned(const Literal& literal, const WeightLayout& layout) const {
    const FloatElements elements(literal);
    const DType dtype = *graph::to_dtype(literal.type().element());
    std::vector<std::byte> bytes(literal.bytes().begin(), literal.bytes().end());
    for (const int64_t batch : layout.batches)
      for (const int64_t channel : layout.channels) {
        std::vector<float> row = channel_of(elements, layout, batch + channel);
        numerics::prune_to_pattern(pattern_, row.data(), row.size());
        for (size_t k = 0; k < row.size(); ++k)
          if (row[k] == 0.0f)
            numerics::fill_bits(size_bytes(dtype), 0,
                                bytes.data() + (batch + channel + layout.contracted[k]) * size_bytes(dtype),
                                1, 1);
      }
    return {literal.type(), std::move(bytes)};
  }

  Function& function_;
  Weights weights_;
  SparsityPattern pattern_;
};

struct Compressed {
  Literal values, tags;
};

class Compression {
 public:
  Compression(Function& function, SparsityPattern pattern)
      : function_(function),
        weights_(function),
        pattern_{kKept, kKept * pattern.compression()},
        stated_(pattern) {}

  WeightCounts run() {
    for_products(function_, function_.body(),
                 [&](BlockId block, size_t at, OpId id) { return replace(block, at, id); });
    return counts_;
  }

 private:
  size_t replace(BlockId block, size_t at, OpId id) {
    for (const size_t side : {0, 1}) {
      const Op op = function_.op(id);
      if (!weights_.is_weight(op, side, counts_)) continue;
      const WeightLayout layout = layout_of(function_, op, side);
      const auto element = function_.type(op.operands[side]).element();
      const bool fits = side == 1 && layout.batch_dims.empty() && element != ElementType::kF32 &&
                        function_.type(op.operands[0]).element() == element &&
                        layout.contracted.size() % static_cast<size_t>(pattern_.group) == 0 &&
                        layout.channels.size() % kTagPack == 0;
      if (!fits) return ++counts_.unfit, 0;
      const Literal literal = *Weights::constant(function_, op.operands[side]);
      const auto sparse = compressed(literal, layout);
      if (!sparse) return ++counts_.not_sparse, 0;
      ++counts_.count;
      counts_.bytes_before += static_cast<int64_t>(literal.bytes().size());
      counts_.bytes_after +=
          static_cast<int64_t>(sparse->values.bytes().size() + sparse->tags.bytes().size());
      return make(block, at, id, *sparse);
    }
    return 0;
  }

  // nullopt where a channel has more than the pattern allows.
  std::optional<Compressed> compressed(const Literal& literal, const WeightLayout& layout) const {
    const FloatElements elements(literal);
    const ElementType element = literal.type().element();
    const DType dtype = *graph::to_dtype(element);
    const size_t rows = layout.contracted.size(), columns = layout.channels.size(),
                 kept = rows / static_cast<size_t>(pattern_.compression()), size = size_bytes(dtype);
    std::vector<std::byte> values(kept * columns * size), dense(rows * size), row(kept * size);
    std::vector<uint8_t> tags(kept * columns), row_tags(kept);
    for (size_t n = 0; n < columns; ++n) {
      const std::vector<float> channel = channel_of(elements, layout, layout.channels[n]);
      numerics::store_f32(dtype, channel.data(), dense.data(), rows);
      if (numerics::first_violation(stated_, dtype, dense.data(), rows)) return std::nullopt;
      numerics::compress_sparse(pattern_, dtype, dense.data(), rows, row.data(), row_tags.data());
      for (size_t k = 0; k < kept; ++k) {
        std::memcpy(values.data() + (k * columns + n) * size, row.data() + k * size, size);
        tags[k * columns + n] = row_tags[k];
      }
    }
    std::vector<uint16_t> packed(kept * columns / kTagPack);
    numerics::pack_tags(tags.data(), tags.size(), packed.data());
    std::vector<std::byte> tag_bytes(packed.size() * sizeof(uint16_t));
    std::memcpy(tag_bytes.data(), packed.data(), tag_bytes.size());
    const auto k = static_cast<int64_t>(kept), n = static_cast<int64_t>(columns);
    return Compressed{
        {Type::tensor(element, {k, n}), std::move(values)},
        {Type::tensor(ElementType::kUI16, {k, n / static_cast<int64_t>(kTagPack)}), std::move(tag_bytes)}};
  }

  size_t make(BlockId block, size_t at, OpId id, const Compressed& sparse) {
    const graph::LocationId location = function_.op(id).location;
    const auto constant = [&](size_t position, const Literal& value) {
      const OpId made = function_.insert(block, position, OpKind::constant_, {}, {value.type()}, location);
      function_.op(made).set(Attr::value, value);
      return function_.op(made).results[0];
    };
    const ValueId values = constant(at, sparse.values), tags = constant(at + 1, sparse.tags);
    Op& op = function_.op(id);
    const auto contracted = op.integers(Attr::lhs_contracting_dimensions);
    std::vector<int64_t> dims(contracted.begin(), contracted.end());
    op.kind = OpKind::composite_;
    op.operands = {op.operands[0], values, tags};
    op.attributes.clear();
    op.set(Attr::name, std::string(kSparseProductName));
    op.set(Attr::lhs_contracting_dimensions, std::move(dims));
    const ValueId result = op.results[0];
    const Type stated = function_.type(result);
    if (stated.element() == ElementType::kF32) return 2;
    function_.value(result).type = stated.with_element(ElementType::kF32);
    const OpId rounded = function_.insert(block, at + 3, OpKind::convert_, {result}, {stated}, location);
    const ValueId narrow = function_.op(rounded).results[0];
    function_.replace_uses(result, narrow);
    function_.op(rounded).operands[0] = result;
    return 3;
  }

  Function& function_;
  Weights weights_;
  SparsityPattern pattern_, stated_;
  WeightCounts counts_;
};

}  // namespace

void prune_weights(Function& function, SparsityPattern pattern) { Pruning(function, pattern).run(); }

WeightCounts compress_weights(Function& function, SparsityPattern pattern) {
  return Compression(function, pattern).run();
}

}  // namespace opentrn::compiler
