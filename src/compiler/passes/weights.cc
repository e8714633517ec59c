#include "compiler/passes/weights.h"

#include <algorithm>

#include "numerics/convert.h"

namespace opentrn::compiler {

using graph::Attr;
using graph::ElementType;
using graph::Function;
using graph::Literal;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::ValueId;

namespace {

// Of all elements of these dimensions, the last one fastest.
std::vector<int64_t> offsets(const graph::Type& type, std::span<const int64_t> dims) {
  std::vector<int64_t> strides(static_cast<size_t>(type.rank()), 1);
  for (int d = type.rank() - 2; d >= 0; --d)
    strides[static_cast<size_t>(d)] = strides[static_cast<size_t>(d) + 1] * type.dim(d + 1);
  std::vector<int64_t> result{0};
  for (const int64_t d : dims) {
    std::vector<int64_t> longer;
    longer.reserve(result.size() * static_cast<size_t>(type.dim(static_cast<int>(d))));
    for (const int64_t offset : result)
      for (int64_t i = 0; i < type.dim(static_cast<int>(d)); ++i)
        longer.push_back(offset + i * strides[static_cast<size_t>(d)]);
    result = std::move(longer);
  }
  return result;
}

}  // namespace

WeightLayout layout_of(const graph::Type& type, std::span<const int64_t> batching,
                       std::span<const int64_t> contracting) {
  WeightLayout layout;
  layout.batch_dims.assign(batching.begin(), batching.end());
  layout.contracted_dims.assign(contracting.begin(), contracting.end());
  for (int64_t d = 0; d < type.rank(); ++d)
    if (std::find(batching.begin(), batching.end(), d) == batching.end() &&
        std::find(contracting.begin(), contracting.end(), d) == contracting.end())
      layout.channel_dims.push_back(d);
  layout.batches = offsets(type, layout.batch_dims);
  layout.contracted = offsets(type, layout.contracted_dims);
  layout.channels = offsets(type, layout.channel_dims);
  return layout;
}

WeightLayout layout_of(const Function& function, const Op& product, size_t side) {
  const auto dims = [&](Attr left, Attr right) {
    const Attr attr = side == 0 ? left : right;
    return product.has(attr) ? product.integers(attr) : std::span<const int64_t>();
  };
  return layout_of(function.type(product.operands[side]),
                   dims(Attr::lhs_batching_dimensions, Attr::rhs_batching_dimensions),
                   dims(Attr::lhs_contracting_dimensions, Attr::rhs_contracting_dimensions));
}

std::vector<int64_t> dims_of(const graph::Type& type, std::span<const int64_t> dims) {
  std::vector<int64_t> result;
  for (const int64_t d : dims) result.push_back(type.dim(static_cast<int>(d)));
  return result;
}

FloatElements::FloatElements(const Literal& literal) {
  if (literal.type().element() == ElementType::kF32) {
    data_ = reinterpret_cast<const float*>(literal.bytes().data());
    return;
  }
  copy_.resize(static_cast<size_t>(literal.type().element_count()));
  numerics::load_f32(*graph::to_dtype(literal.type().element()), literal.bytes().data(), copy_.data(),
                     copy_.size());
  data_ = copy_.data();
}

Weights::Weights(const Function& function)
    : function_(function), read_otherwise_(function.value_count(), false) {
  graph::walk(function, function.body(), [&](OpId id) {
    const Op& op = function.op(id);
    if (op.kind == OpKind::dot_general_) return;
    for (const ValueId operand : op.operands) read_otherwise_[graph::index_of(operand)] = true;
  });
}

const Literal* Weights::constant(const Function& function, ValueId value) {
  const OpId id = function.value(value).op;
  if (id == graph::kNoOp || function.op(id).kind != OpKind::constant_) return nullptr;
  return &function.op(id).literal(Attr::value);
}

bool Weights::is_weight(const Op& product, size_t side, WeightCounts& counts) const {
  const Literal* literal = constant(function_, product.operands[side]);
  if (!literal || literal->is_splat() || constant(function_, product.operands[1 - side])) return false;
  const graph::Type& type = literal->type();
  const ElementType element = type.element();
  if (type.quantization() ||
      (element != ElementType::kF32 && element != ElementType::kBF16 && element != ElementType::kF16))
    return false;
  if (type.element_count() < kWeightElements) return ++counts.small, false;
  // A value that a pass has made since is the product's alone.
  const size_t index = graph::index_of(product.operands[side]);
  if (index < read_otherwise_.size() && read_otherwise_[index]) return ++counts.shared, false;
  return true;
}

}  // namespace opentrn::compiler
