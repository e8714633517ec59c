#include "decoder/likeliest.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace opentrn::decoder {

using graph::Attr;
using graph::Attribute;
using graph::Builder;
using graph::ElementType;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

namespace {

constexpr int64_t kRowsAtOnce = 128;
constexpr double kLowestLogit = -std::numeric_limits<float>::max();

// Of each row of `logits`, [rows, columns], whose columns are these tokens.
ChosenTokens first_largest(Builder& builder, ValueId logits, ValueId tokens) {
  const std::vector<int64_t> dims = builder.type(logits).dims_vector();
  const ValueId logit = builder.reduce(OpKind::maximum_, logits, {1});
  const ValueId is_largest =
      builder.compare(graph::ComparisonDirection::kEq, logits, builder.broadcast_in_dim(logit, dims, {0}));
  const ValueId none =
      builder.splat(Type::tensor(ElementType::kI32, dims), std::numeric_limits<int32_t>::max());
  const ValueId token =
      builder.reduce(OpKind::minimum_, builder.add(OpKind::select_, {is_largest, tokens, none}), {1});
  return {token, logit};
}

}  // namespace

// Parts of equal size need no copy of the logits; fewer than half of the partitions are not worth that.
RowParts parts_of(int64_t rows, int64_t columns) {
  const int64_t most = std::max<int64_t>(1, std::min(kRowsAtOnce / rows, columns));
  for (int64_t count = most; 2 * count > most; --count)
    if (columns % count == 0) return {count, columns / count};
  return {most, (columns + most - 1) / most};
}

ValueId in_parts(Builder& builder, ValueId logits, const RowParts& parts) {
  const std::vector<int64_t> dims = builder.type(logits).dims_vector();
  if (const int64_t missing = parts.count * parts.width - dims[1]; missing > 0)
    logits = builder.concatenate(
        {logits, builder.splat(Type::tensor(ElementType::kF32, {dims[0], missing}), kLowestLogit)}, 1);
  return builder.reshape(logits, {dims[0] * parts.count, parts.width});
}

ValueId columns_in_parts(Builder& builder, int64_t rows, const RowParts& parts) {
  const ValueId columns = builder.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(int64_t{1})}},
                                      {Type::tensor(ElementType::kI32, {rows, parts.count * parts.width})});
  return builder.reshape(columns, {rows * parts.count, parts.width});
}

ChosenTokens likeliest(Builder& builder, ValueId logits, std::optional<ValueId> columns) {
  const std::vector<int64_t> dims = builder.type(logits).dims_vector();
  const int64_t rows = dims[0];
  const RowParts parts = parts_of(rows, dims[1]);
  logits = in_parts(builder, logits, parts);
  const ValueId tokens = columns_in_parts(builder, rows, parts);
  if (columns) {
    const Type& type = builder.type(logits);
    const ValueId count = builder.broadcast_in_dim(*columns, type.dims_vector(), {0});
    const ValueId is_logit = builder.compare(graph::ComparisonDirection::kLt, tokens, count);
    logits = builder.add(OpKind::select_, {is_logit, logits, builder.splat(type, kLowestLogit)});
  }
  const ChosenTokens of_parts = first_largest(builder, logits, tokens);
  if (parts.count == 1) return of_parts;
  return first_largest(builder, builder.reshape(of_parts.logit, {rows, parts.count}),
                       builder.reshape(of_parts.token, {rows, parts.count}));
}

}  // namespace opentrn::decoder
