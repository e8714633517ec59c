// Heads of attention, as every operator of attention has them: [batch, heads, length, size].
#pragma once

#include <limits>
#include <optional>

#include "import/onnx/emit.h"

namespace opentrn::import::onnx {

inline constexpr double kMaskedScore = -std::numeric_limits<double>::infinity();

// [batch, length, heads * size] to [batch, heads, length, size], and back.
ValueId split_heads(const Emit& e, ValueId x, int64_t heads);
ValueId join_heads(const Emit& e, ValueId x);

// Each head `times` times, one after the other.
ValueId repeat_heads(const Emit& e, ValueId x, int64_t times);

// Scores with every position where `allowed` is false set to minus infinity.
ValueId masked(const Emit& e, ValueId scores, ValueId allowed);

// What keeps queries from keys, each of a shape that spreads over the scores [batch, heads, queries, keys].
struct Masks {
  std::optional<ValueId> bias;     // added to the scores; minus infinity hides a key
  std::optional<ValueId> allowed;  // whether a query may read a key
  std::optional<ValueId> causal;   // the same, of places that are known and leave every query a key
};

struct Attended {
  ValueId weights;  // of the keys
  ValueId y;        // of the values, [batch, heads, queries, size]
};

// Softmax of the scores in `wide`, and the values by those weights. A query that reads no key gets zeros.
// `sink`: fp32, a score that takes its part of each row's sum and has no value, of a shape that spreads over
// [batch, heads, queries, 1]; `wide` is fp32 then.
Attended attended(const Emit& e, ValueId scores, const Masks& masks, ValueId v, ElementType wide,
                  std::optional<ValueId> sink = std::nullopt);

// x [batch, length, heads, size], its first `size` elements turned by angles of [batch or 1, length, size /
// 2].
ValueId rotated(const Emit& e, ValueId x, ValueId cosine, ValueId sine, int64_t size, bool interleaved);

}  // namespace opentrn::import::onnx
