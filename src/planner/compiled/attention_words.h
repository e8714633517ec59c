// Attention in the words of pieces: weights of queries and keys, what they mix, and gradients.
#pragma once

#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "planner/compiled/piece_words.h"

namespace opentrn::planner::compiled {

class AttentionWords : protected PieceWords {
 protected:
  explicit AttentionWords(const Piece& piece) : PieceWords(piece) {}

  int64_t blocks() const { return (piece_.keys + piece_.window - 1) / piece_.window; }

  // softmax(scale Q K^T + mask), [heads, queries, keys] or [sequences, heads, queries, keys] in float32.
  ValueId weights_of(ValueId q, ValueId k) {
    Dims made = builder_.type(q).dims_vector();
    const auto last = static_cast<int64_t>(made.size()) - 1;
    const double features = double(made.back());
    made.back() = builder_.type(k).dim(static_cast<int>(last) - 1);
    ValueId scores = batched(q, last, k, last, made);
    scores = times(scores, splat(scores, 1 / std::sqrt(features)));
    if (piece_.window > 0) {
      scores = in_window(scores);
    } else if (piece_.causal) {
      const Dims dims = builder_.type(scores).dims_vector();
      const Type positions = Type::tensor(kIndex, {dims[dims.size() - 2], dims.back()});
      const auto counted = [&](int64_t dimension) {
        return builder_.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(dimension)}}, {positions});
      };
      ValueId query = counted(0);
      if (piece_.part == Part::kBehindKeys)  // from where the core's part begins
        query = plus(query, builder_.broadcast_in_dim(argument({}, kIndex), positions.dims_vector(), {}));
      const ValueId seen = builder_.broadcast_in_dim(
          builder_.compare(graph::ComparisonDirection::kGe, query, counted(1)), dims, {last - 1, last});
      scores = builder_.add(OpKind::select_, {seen, scores, splat(scores, kMasked)});
    }
    const ValueId largest = over_keys(builder_.reduce(OpKind::maximum_, scores, {last}), scores);
    const ValueId raised = builder_.add(OpKind::exponential_, {minus(scores, largest)});
    const ValueId sum = over_keys(builder_.reduce(OpKind::add_, raised, {last}), scores);
    return builder_.add(OpKind::divide_, {raised, sum});
  }

  // As in_window of the exported step: what is the same in all blocks, and of all queries of a block.
  ValueId in_window(ValueId scores) {
    using enum graph::ComparisonDirection;
    const Dims all = builder_.type(scores).dims_vector();
    const Dims near{all[2], all[3]}, there{all[0], all[3]};
    const auto counted = [&](const Dims& dims, int64_t dimension) {
      return builder_.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(dimension)}},
                          {Type::tensor(kIndex, dims)});
    };
    const auto number = [&](ValueId like, int64_t value) { return splat(like, double(value)); };
    const auto masked = [&](ValueId is_met, const Dims& dims) {
      const Type real = Type::tensor(kReal, dims);
      return builder_.add(OpKind::select_, {is_met, splat(real, 0), splat(real, kMasked)});
    };
    const ValueId query = counted(near, 0), key = counted(near, 1);
    const ValueId last = plus(query, number(query, piece_.window));
    const ValueId is_near =
        builder_.add(OpKind::and_, {builder_.compare(kLe, key, last), builder_.compare(kGt, key, query)});
    ValueId block = counted(there, 0);
    const ValueId place = counted(there, 1);
    block = builder_.add(OpKind::remainder_, {block, number(block, blocks())});
    const ValueId is_there =
        builder_.add(OpKind::or_, {builder_.compare(kGt, block, number(block, 0)),
                                   builder_.compare(kGe, place, number(place, piece_.window))});
    scores = plus(scores, builder_.broadcast_in_dim(masked(is_near, near), all, {2, 3}));
    return plus(scores, builder_.broadcast_in_dim(masked(is_there, there), all, {0, 3}));
  }

  ValueId attended(ValueId q, ValueId k, ValueId v) {
    Dims made = builder_.type(q).dims_vector();
    const auto last = static_cast<int64_t>(made.size()) - 1;
    made.back() = builder_.type(v).dim(static_cast<int>(last));
    return narrow(batched(narrow(weights_of(q, k)), last, v, last - 1, made));
  }

  // Gradients of queries, keys and values.
  std::array<ValueId, 3> attended_backward(ValueId q, ValueId k, ValueId v, ValueId made, ValueId d_made) {
    const std::vector<ValueId> all = barred({q, k, v, made, d_made});
    q = all[0], k = all[1], v = all[2], made = all[3], d_made = all[4];
    const auto dims = [&](ValueId value) { return builder_.type(value).dims_vector(); };
    const int64_t last = builder_.type(q).rank() - 1, rows = last - 1;
    const ValueId p = weights_of(q, k), narrow_p = narrow(p);
    const ValueId d_v = narrow(batched(narrow_p, rows, d_made, rows, dims(v)));
    const ValueId d_p = batched(d_made, last, v, last, dims(p));
    const ValueId row = builder_.reduce(OpKind::add_, times(wide(made), wide(d_made)), {last});
    ValueId d_s = times(p, minus(d_p, over_keys(row, p)));
    d_s = narrow(times(d_s, splat(d_s, 1 / std::sqrt(double(dims(q).back())))));
    const ValueId d_q = narrow(batched(d_s, last, k, rows, dims(q)));
    return {d_q, narrow(batched(d_s, rows, q, rows, dims(k))), d_v};
  }
};

}  // namespace opentrn::planner::compiled
