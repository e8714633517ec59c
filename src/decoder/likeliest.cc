#include "decoder/likeliest.h"

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

// Into how many parts a row is cut, so that all rows' parts lie on partitions of their own.
int64_t parts_of(int64_t rows, int64_t columns) {
  for (int64_t parts = kRowsAtOnce / rows; parts > 1; --parts)
    if (columns % parts == 0) return parts;
  return 1;
}

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

ChosenTokens likeliest(Builder& builder, ValueId logits, std::optional<ValueId> columns) {
  const std::vector<int64_t> dims = builder.type(logits).dims_vector();
  const int64_t rows = dims[0], parts = parts_of(rows, dims[1]);
  const Type numbers = Type::tensor(ElementType::kI32, dims);
  const ValueId tokens =
      builder.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(int64_t{1})}}, {numbers});
  if (columns) {
    const ValueId count = builder.broadcast_in_dim(*columns, dims, {0});
    const ValueId least =
        builder.splat(builder.type(logits), -static_cast<double>(std::numeric_limits<float>::max()));
    logits = builder.add(OpKind::select_,
                         {builder.compare(graph::ComparisonDirection::kLt, tokens, count), logits, least});
  }
  if (parts == 1) return first_largest(builder, logits, tokens);
  const auto cut = [&](ValueId value) { return builder.reshape(value, {rows * parts, dims[1] / parts}); };
  const ChosenTokens of_parts = first_largest(builder, cut(logits), cut(tokens));
  return first_largest(builder, builder.reshape(of_parts.logit, {rows, parts}),
                       builder.reshape(of_parts.token, {rows, parts}));
}

}  // namespace opentrn::decoder
