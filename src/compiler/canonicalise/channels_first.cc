// Convolutions of images with channels last, as JAX and TensorFlow have them, in the order that the Tensor
// engine needs: channels, which it contracts over, are rows of images and lie over partitions. What is done
// to the results (biases, residuals, activations, pooling, concatenation) is done in that order too, so that
// images are transposed where the model begins and ends and not around every convolution. Products that mix
// the heads of attention, which come first and are put last for the product, are sums of heads in that order.
//
// A value with channels last gets a twin with channels first; what no rule here takes reads the value itself,
// a transpose of the twin, which is dropped where nothing does.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/canonicalise/mixed_slabs.h"
#include "compiler/canonicalise/passes.h"
#include "compiler/lowering/takes.h"
#include "compiler/rewrite/expression.h"
#include "compiler/rewrite/rewrite.h"
#include "graph/copy.h"

namespace opentrn::compiler {

namespace {

// [N, spatial..., C] to [N, C, spatial...]: where dimension d goes.
int64_t first_dim(int64_t d, int64_t rank) { return d == 0 ? 0 : d == rank - 1 ? 1 : d + 1; }

// As transpose() has it.
Dims to_first(int64_t rank) {
  Dims permutation{0, rank - 1};
  for (int64_t d = 1; d < rank - 1; ++d) permutation.push_back(d);
  return permutation;
}
Dims to_last(int64_t rank) {
  Dims permutation(static_cast<size_t>(rank));
  for (int64_t d = 0; d < rank; ++d) permutation[static_cast<size_t>(d)] = first_dim(d, rank);
  return permutation;
}

Dims slabs_outermost(int64_t rank) {
  Dims permutation(static_cast<size_t>(rank));
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[0], permutation[1]);
  return permutation;
}

// An attribute with an entry for every dimension.
Dims transposed(const Dims& list) {
  Dims result;
  for (const int64_t from : to_first(static_cast<int64_t>(list.size())))
    result.push_back(list[static_cast<size_t>(from)]);
  return result;
}

Type transposed(const Type& type) {
  Dims dims;
  for (int d = 0; d < type.rank(); ++d) dims.push_back(type.dim(d));
  return Type::tensor(type.element(), transposed(dims));
}

bool is_plain(const Type& type) {
  return type.is_tensor() && type.is_static() && !type.quantization() && type.element_count() > 0;
}

bool has_channels_last(const Function& function, const Op& op) {
  for (const ValueId value : {op.operands[0], op.operands[1], op.results[0]})
    if (!is_plain(function.type(value))) return false;
  const int64_t rank = function.type(op.results[0]).rank();
  const auto spatial = dims_of(op, Attr::output_spatial_dimensions);
  return rank >= 3 && op.integer(Attr::output_batch_dimension) == 0 &&
         op.integer(Attr::output_feature_dimension) == rank - 1 && std::ranges::is_sorted(spatial);
}

class Turning {
 public:
  explicit Turning(const Function& function) : function_(function) {}
  int64_t turned() const { return turned_; }

  std::optional<std::vector<ValueId>> operator()(Builder& builder, const Op& op,
                                                 std::span<const ValueId> operands) {
    if (op.results.size() != 1) return std::nullopt;
    std::optional<ValueId> twin;
    switch (op.kind) {
      case OpKind::convolution_: twin = convolution(builder, op, operands); break;
      case OpKind::reduce_window_: twin = reduce_window(builder, op, operands); break;
      case OpKind::reduce_:
        if (const auto result = reduce(builder, op, operands)) return {{*result}};
        return std::nullopt;
      case OpKind::pad_: twin = pad(builder, op, operands); break;
      case OpKind::concatenate_: twin = concatenate(builder, op, operands); break;
      case OpKind::dot_general_:
        if (!mixes_slabs(function_, op)) return std::nullopt;
        ++turned_;
        twin = mixed_slabs(builder, function_, op, operands);
        if (mixes_left(function_, op)) break;
        return {{builder.transpose(*twin, slabs_outermost(builder.type(*twin).rank()))}};
      default:
        if (has_elementwise(function_, op)) twin = elementwise(builder, op, operands);
    }
    if (!twin) return std::nullopt;
    const ValueId value = builder.transpose(*twin, to_last(builder.type(*twin).rank()));
    twins_[value] = *twin;
    return {{value}};
  }

 private:
  bool has_twin(ValueId value) const { return twins_.contains(value); }

  ValueId twin_of(Builder& builder, ValueId value) {
    if (const auto found = twins_.find(value); found != twins_.end()) return found->second;
    const int64_t rank = builder.type(value).rank();
    if (const Op* made = maker(builder.function(), value)) {
      if (made->kind == OpKind::constant_ && made->literal(Attr::value).is_splat())
        return splat(builder, made->literal(Attr::value));
      if (made->kind == OpKind::broadcast_in_dim_)
        return broadcast(builder, made->operands[0], dims_of(*made, Attr::broadcast_dimensions),
                         builder.type(value));
    }
    return builder.transpose(value, to_first(rank));
  }

  static ValueId splat(Builder& builder, const graph::Literal& literal) {
    const auto element = literal.bytes().first(graph::storage_bytes(literal.type().element()));
    return builder.constant({transposed(literal.type()), {element.begin(), element.end()}});
  }

  // What is broadcast is small: it is transposed itself where its dimensions would not be in order.
  static ValueId broadcast(Builder& builder, ValueId from, const Dims& dimensions, const Type& to) {
    Dims order(dimensions.size()), places;
    std::iota(order.begin(), order.end(), 0);
    const auto place = [&](int64_t d) { return first_dim(dimensions[static_cast<size_t>(d)], to.rank()); };
    std::ranges::sort(order, {}, place);
    for (const int64_t d : order) places.push_back(place(d));
    const ValueId transposed =
        std::ranges::is_sorted(order) ? from : builder.transpose(from, std::move(order));
    return builder.broadcast_in_dim(transposed, transposed_dims(to), std::move(places));
  }

  static Dims transposed_dims(const Type& type) {
    Dims dims;
    for (int d = 0; d < type.rank(); ++d) dims.push_back(type.dim(d));
    return transposed(dims);
  }

  // The op with its regions, on other operands.
  OpId copy(Builder& builder, const Op& op, std::span<const ValueId> operands) {
    // One value may be two operands, of which only one is transposed; an op with regions has no such.
    if (op.regions.empty())
      return graph::copy_op(function_, op, {operands.begin(), operands.end()}, builder.function(),
                            builder.block());
    graph::Copier copier(function_, builder.function());
    for (size_t i = 0; i < operands.size(); ++i) copier.set(op.operands[i], operands[i]);
    return copier.copy(op, builder.block());
  }
  ValueId retype(Builder& builder, OpId made, Type type) {
    const ValueId result = builder.function().op(made).results[0];
    builder.function().value(result).type = std::move(type);
    return result;
  }
  ValueId retype_transposed(Builder& builder, const Op& op, OpId made) {
    return retype(builder, made, transposed(function_.type(op.results[0])));
  }

  std::optional<ValueId> convolution(Builder& builder, const Op& op, std::span<const ValueId> operands) {
    if (!has_channels_last(function_, op)) return std::nullopt;
    const int64_t rank = builder.type(operands[0]).rank();
    Op transposed_op = op;
    std::vector<ValueId> from(operands.begin(), operands.end());
    const auto spatial = dims_of(op, Attr::input_spatial_dimensions);
    const bool plain_input = op.integer(Attr::input_batch_dimension) == 0 &&
                             op.integer(Attr::input_feature_dimension) == rank - 1 &&
                             std::ranges::is_sorted(spatial);
    if (plain_input || has_twin(operands[0])) {
      from[0] = twin_of(builder, operands[0]);
      Dims places;
      for (const int64_t d : spatial) places.push_back(first_dim(d, rank));
      transposed_op.set(Attr::input_batch_dimension,
                        first_dim(op.integer(Attr::input_batch_dimension), rank));
      transposed_op.set(Attr::input_feature_dimension,
                        first_dim(op.integer(Attr::input_feature_dimension), rank));
      transposed_op.set(Attr::input_spatial_dimensions, std::move(places));
    }
    Dims places;
    for (int64_t d = 1; d < rank - 1; ++d) places.push_back(d + 1);
    transposed_op.set(Attr::output_feature_dimension, int64_t{1});
    transposed_op.set(Attr::output_spatial_dimensions, std::move(places));
    ++turned_;
    return retype_transposed(builder, op, copy(builder, transposed_op, from));
  }

  std::optional<ValueId> elementwise(Builder& builder, const Op& op, std::span<const ValueId> operands) {
    const Type& type = function_.type(op.results[0]);
    if (!is_plain(type) || type.rank() < 3 ||
        std::ranges::none_of(operands, [&](ValueId v) { return has_twin(v); }))
      return std::nullopt;
    std::vector<ValueId> from;
    for (const ValueId operand : operands) {
      const Type& its = builder.type(operand);
      if (!is_plain(its) || (its.rank() != 0 && its.rank() != type.rank())) return std::nullopt;
      from.push_back(its.rank() == 0 ? operand : twin_of(builder, operand));
    }
    return retype_transposed(builder, op, copy(builder, op, from));
  }

  std::optional<ValueId> reduce_window(Builder& builder, const Op& op, std::span<const ValueId> operands) {
    if (operands.size() != 2 || !has_twin(operands[0])) return std::nullopt;
    Op transposed_op = op;
    for (const Attr attr :
         {Attr::window_dimensions, Attr::window_strides, Attr::base_dilations, Attr::window_dilations})
      if (op.has(attr)) transposed_op.set(attr, transposed(dims_of(op, attr)));
    if (op.has(Attr::padding)) transposed_op.set(Attr::padding, transposed_rows(op.matrix(Attr::padding)));
    return retype_transposed(builder, op,
                             copy(builder, transposed_op, {{twin_of(builder, operands[0]), operands[1]}}));
  }

  static graph::IntMatrix transposed_rows(const graph::IntMatrix& rows) {
    graph::IntMatrix result = rows;
    const Dims from = to_first(rows.rows);
    for (int64_t row = 0; row < rows.rows; ++row)
      for (int64_t column = 0; column < rows.columns; ++column)
        result.values[static_cast<size_t>(row * rows.columns + column)] =
            rows.at(from[static_cast<size_t>(row)], column);
    return result;
  }

  // Over the images, say: what is left has the order that it had, and is no twin.
  std::optional<ValueId> reduce(Builder& builder, const Op& op, std::span<const ValueId> operands) {
    if (operands.size() != 2 || !has_twin(operands[0])) return std::nullopt;
    const int64_t rank = builder.type(operands[0]).rank();
    const Dims reduced = dims_of(op, Attr::dimensions);
    Dims places, left;
    for (int64_t d = 0; d < rank; ++d)
      (std::ranges::find(reduced, d) != reduced.end() ? places : left).push_back(first_dim(d, rank));
    if (!std::ranges::is_sorted(left)) return std::nullopt;
    std::ranges::sort(places);
    Op transposed_op = op;
    transposed_op.set(Attr::dimensions, std::move(places));
    const OpId made = copy(builder, transposed_op, {{twin_of(builder, operands[0]), operands[1]}});
    return builder.function().op(made).results[0];
  }

  std::optional<ValueId> pad(Builder& builder, const Op& op, std::span<const ValueId> operands) {
    if (!has_twin(operands[0])) return std::nullopt;
    Op transposed_op = op;
    for (const Attr attr : {Attr::edge_padding_low, Attr::edge_padding_high, Attr::interior_padding})
      transposed_op.set(attr, transposed(dims_of(op, attr)));
    return retype_transposed(builder, op,
                             copy(builder, transposed_op, {{twin_of(builder, operands[0]), operands[1]}}));
  }

  std::optional<ValueId> concatenate(Builder& builder, const Op& op, std::span<const ValueId> operands) {
    if (std::ranges::none_of(operands, [&](ValueId v) { return has_twin(v); })) return std::nullopt;
    std::vector<ValueId> from;
    for (const ValueId operand : operands) from.push_back(twin_of(builder, operand));
    const int64_t rank = builder.type(operands[0]).rank();
    return builder.concatenate(std::move(from), first_dim(op.integer(Attr::dimension), rank));
  }

  const Function& function_;
  std::map<ValueId, ValueId> twins_;
  int64_t turned_ = 0;  // convolutions and products
};

}  // namespace

int64_t put_channels_first(Function& function) {
  Turning turning(function);
  Function made = rewritten(function, std::ref(turning));
  if (turning.turned() > 0) function = std::move(made);
  return turning.turned();
}

}  // namespace opentrn::compiler
