#include "compiler/weights/layout.h"

#include <algorithm>

#include "compiler/analysis/graph_names.h"
#include "compiler/weights/weights.h"
#include "numerics/convert.h"

namespace opentrn::compiler {

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

constexpr Attr kBatching[] = {Attr::lhs_batching_dimensions, Attr::rhs_batching_dimensions};
constexpr Attr kContracting[] = {Attr::lhs_contracting_dimensions, Attr::rhs_contracting_dimensions};

// Where the result has what the scale has: batches first, then the free dimensions of the left and of the
// right operand.
std::vector<int64_t> places_of_scale(const graph::Type& result, size_t side, const WeightLayout& layout) {
  std::vector<int64_t> places;
  for (size_t i = 0; i < layout.batch_dims.size(); ++i) places.push_back(static_cast<int64_t>(i));
  const auto free = static_cast<int64_t>(layout.channel_dims.size());
  const int64_t first = side == 0 ? static_cast<int64_t>(layout.batch_dims.size()) : result.rank() - free;
  for (int64_t i = 0; i < free; ++i) places.push_back(first + i);
  return places;
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

void name_dimensions(Op& product, size_t side, const WeightLayout& layout) {
  std::vector<int64_t> batching, contracting;
  for (size_t i = 0; i < layout.batch_dims.size(); ++i) batching.push_back(static_cast<int64_t>(i));
  for (size_t i = 0; i < layout.contracted_dims.size(); ++i)
    contracting.push_back(static_cast<int64_t>(layout.batch_dims.size() + i));
  product.set(kBatching[side], std::move(batching));
  product.set(kContracting[side], std::move(contracting));
}

size_t multiply_scaled(Function& function, graph::BlockId block, size_t at, OpId id, size_t side,
                       const WeightLayout& layout, const ScaledWeights& narrow) {
  const graph::LocationId location = function.op(id).location;
  const ValueId result = function.op(id).results[0];
  const graph::Type stated = function.type(result), weight = function.type(function.op(id).operands[side]);
  const graph::Type sums = stated.with_element(ElementType::kF32);
  size_t inserted = 0;
  const auto insert = [&](size_t position, OpKind kind, std::vector<ValueId> operands,
                          const graph::Type& type) {
    ++inserted;
    return function.insert(block, position, kind, std::move(operands), {type}, location);
  };
  const auto value_of = [&](OpId made) { return function.op(made).results[0]; };

  const OpId kept = insert(at, OpKind::constant_, {}, narrow.weights.type());
  function.op(kept).set(Attr::value, narrow.weights);
  const OpId wide = insert(at + 1, OpKind::convert_, {value_of(kept)},
                           narrow.weights.type().with_element(weight.element()));
  {
    Op& op = function.op(id);
    op.operands[side] = value_of(wide);
    name_dimensions(op, side, layout);
  }
  function.value(result).type = sums;

  const OpId scale = insert(at + 3, OpKind::constant_, {}, narrow.scales.type());
  function.op(scale).set(Attr::value, narrow.scales);
  const OpId spread = insert(at + 4, OpKind::broadcast_in_dim_, {value_of(scale)}, sums);
  function.op(spread).set(Attr::broadcast_dimensions, places_of_scale(sums, side, layout));
  const OpId scaled = insert(at + 5, OpKind::multiply_, {result, value_of(spread)}, sums);
  ValueId replacement = value_of(scaled);
  OpId last = scaled;
  if (stated.element() != ElementType::kF32) {
    last = insert(at + 6, OpKind::convert_, {replacement}, stated);
    replacement = value_of(last);
  }
  function.replace_uses(result, replacement);
  function.op(scaled).operands[0] = result;
  return inserted;
}

}  // namespace opentrn::compiler
