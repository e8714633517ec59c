// From the last product backwards:
//
//   P V           P = E / rows of (sum of E), E = exp(X - rows of (max of X))
//   X = masks and scale over Q K^T, with a soft cap c: masks over c tanh(scale Q K^T / c)
//
// or, with a sink s of each row, a score that has no value: E = exp(X - rows of m), m = max(max of X, s), and
// the sum has exp(s - m) more.
//
// through converts between float types, and through reshapes that keep the last two dimensions. Converts in
// between round, in the graph; the kernel keeps fp32 there.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/activity.h"
#include "compiler/analysis/attention_op.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/index_pattern.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/takes.h"
#include "compiler/recognise/recognise.h"

namespace opentrn::compiler {

using graph::Dictionary;

namespace {

// Skipping masked keys is exact when exp(fill - score) is zero, which it is for any score of sane size.
constexpr double kFillMax = -1e30;
constexpr int64_t kCorner = 128;

std::span<const int64_t> dimensions(const Op& op, Attr attr) {
  return op.has(attr) ? op.integers(attr) : std::span<const int64_t>{};
}

bool counts_up(std::span<const int64_t> values) {
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] != static_cast<int64_t>(i)) return false;
  return true;
}

constexpr int64_t kRepeated = -1;  // a batch dimension that a side does not have

// What a product has of an array: dimensions by what they are for.
struct Factor {
  ValueId value;
  std::vector<int64_t> batch, free;
  int64_t contracted = 0;
};
// The result has the batch dimensions, then the free ones of the left, then those of the right.
struct Product {
  Factor left, right;
};

// One side of attention: its dimension for each of the softmax's batch dimensions (or kRepeated), and others.
struct Side {
  ValueId value;
  std::vector<int64_t> batch;
  int64_t free = 0, contracted = 0;

  bool repeats() const { return std::ranges::find(batch, kRepeated) != batch.end(); }
};

struct Scores {
  Side queries, keys;
  AttentionOp found;
};

// The last product: its weights' batch dimensions in the order in which its result has them. `plain`: all of
// them in front, in their order.
struct Last {
  Side values;
  bool plain = true;
  std::vector<int64_t> batch_order;
  std::vector<int64_t> result;  // by dimension: a place in batch_order, or one of these
  static constexpr int64_t kQuery = -1, kFeature = -2;
};

class Matcher {
 public:
  explicit Matcher(Function& function) : function_(function) {}

  // Replaces the product when it is attention's last one.
  bool replace(OpId id) {
    const auto product = product_of(function_.op(id));
    if (!product) return false;
    for (const bool left : {true, false}) {
      const Factor& weights = left ? product->left : product->right;
      const Factor& values = left ? product->right : product->left;
      const auto rank = static_cast<int64_t>(function_.type(weights.value).rank());
      if (weights.contracted != rank - 1 || weights.free.empty() || weights.free.back() != rank - 2 ||
          values.free.size() != 1 || repeats_positions(weights))
        continue;
      const auto softmax_of = softmax_input(weights.value);
      if (!softmax_of) continue;
      const Last last = last_of(weights, values, left);
      auto scores = scores_of(softmax_of->scores);
      if (scores) scores->found.sink = softmax_of->sink;
      if (scores && fits(*scores, last.values) &&
          lie_together(*scores, last, weights.value, softmax_of->scores)) {
        build(id, *scores, softmax_of->scores, last);
        return true;
      }
    }
    return false;
  }

 private:
  const Op* maker(ValueId value) const {
    const OpId id = function_.value(value).op;
    return id == graph::kNoOp ? nullptr : &function_.op(id);
  }
  const Op* maker(ValueId value, OpKind kind) const {
    const Op* op = maker(value);
    return op && op->kind == kind ? op : nullptr;
  }
  const Type& type(ValueId value) const { return function_.type(value); }

  ValueId without_converts(ValueId value) const {
    for (const Op* op = maker(value, OpKind::convert_);
         op && graph::is_float(type(op->operands[0]).element()); op = maker(value, OpKind::convert_))
      value = op->operands[0];
    return value;
  }

  bool keeps_last_two(const Op& reshape) const {
    const auto from = type(reshape.operands[0]).dims(), to = type(reshape.results[0]).dims();
    return from.size() >= 2 && to.size() >= 2 && std::equal(from.end() - 2, from.end(), to.end() - 2);
  }

  ValueId without_batch_reshapes(ValueId value) const {
    for (;;) {
      value = without_converts(value);
      const Op* op = maker(value, OpKind::reshape_);
      if (!op || !keeps_last_two(*op)) return value;
      value = op->operands[0];
    }
  }

  std::optional<Product> product_of(const Op& op) const {
    if (op.kind != OpKind::dot_general_ || !graph::is_float(type(op.results[0]).element()))
      return std::nullopt;
    const auto factor = [&](ValueId value, Attr batch, Attr contracted) -> std::optional<Factor> {
      Factor made{value, {}, {}, 0};
      const auto b = dimensions(op, batch), c = dimensions(op, contracted);
      made.batch.assign(b.begin(), b.end());
      if (c.size() != 1) return std::nullopt;
      made.contracted = c[0];
      for (int64_t d = 0; d < type(value).rank(); ++d)
        if (d != c[0] && std::ranges::find(b, d) == b.end()) made.free.push_back(d);
      return made;
    };
    const auto left = factor(op.operands[0], Attr::lhs_batching_dimensions, Attr::lhs_contracting_dimensions);
    const auto right =
        factor(op.operands[1], Attr::rhs_batching_dimensions, Attr::rhs_contracting_dimensions);
    if (!left || !right || type(left->value).element() != type(right->value).element()) return std::nullopt;
    return Product{*left, *right};
  }

  // Of the weights' free dimensions the last one is that of queries. A longer one before it, of a tile or
  // more, is no dimension of heads that share keys, but of positions: attention of each by itself would have
  // a few rows, where the products have all of them.
  bool repeats_positions(const Factor& weights) const {
    constexpr int64_t kTile = 128;
    const auto size = [&](int64_t d) { return type(weights.value).dim(static_cast<int>(d)); };
    return std::any_of(weights.free.begin(), weights.free.end() - 1,
                       [&](int64_t d) { return size(d) >= kTile && size(d) > size(weights.free.back()); });
  }

  // Batch dimensions of the weights that the product has as free ones (the heads that share keys, as JAX's
  // dot_product_attention has them) are repeated in the values.
  Last last_of(const Factor& weights, const Factor& values, bool weights_left) const {
    Last last{{values.value, {}, values.free[0], values.contracted}, true, {}, {}};
    last.plain = weights.free.size() == 1 && counts_up(weights.batch);
    const auto take = [&](int64_t of_weights, int64_t of_values) {
      last.result.push_back(static_cast<int64_t>(last.batch_order.size()));
      last.batch_order.push_back(of_weights);
      last.values.batch.push_back(of_values);
    };
    for (size_t i = 0; i < weights.batch.size(); ++i) take(weights.batch[i], values.batch[i]);
    if (!weights_left) last.result.push_back(Last::kFeature);
    for (size_t i = 0; i + 1 < weights.free.size(); ++i) take(weights.free[i], kRepeated);
    last.result.push_back(Last::kQuery);
    if (weights_left) last.result.push_back(Last::kFeature);
    return last;
  }

  // `value` repeats one number per row along its last dimension: those numbers, [rows] or [rows, 1].
  std::optional<ValueId> row_numbers(ValueId value) const {
    for (;;) {
      value = without_converts(value);
      const Op* op = maker(value);
      if (!op) return value;
      if (op->kind == OpKind::broadcast_in_dim_) {
        if (!counts_up(op->integers(Attr::broadcast_dimensions))) return std::nullopt;
      } else if (op->kind != OpKind::reshape_ || !only_adds_last_one(*op)) {
        return value;
      }
      value = op->operands[0];
    }
  }

  // A reduction over the last dimension, alone or `combiner` of it and something of its own type.
  struct RowNumbers {
    const Op* reduction = nullptr;
    std::optional<ValueId> other;  // what it is combined with
    ValueId both{};
    std::vector<int64_t> turned;  // the dimensions of its result in this order, where they are transposed
  };
  std::optional<RowNumbers> row_reduction(ValueId value, OpKind combiner) const {
    const auto numbers = row_numbers(value);
    const Op* op = numbers ? maker(*numbers) : nullptr;
    RowNumbers found{op, std::nullopt, value, {}};
    if (op && op->kind == OpKind::transpose_) {
      const auto order = op->integers(Attr::permutation);
      found.turned.assign(order.begin(), order.end());
      found.reduction = op = maker(without_converts(op->operands[0]));
    }
    if (!op || op->kind != OpKind::reduce_) return std::nullopt;
    const auto reduced = op->integers(Attr::dimensions);
    const bool last = reduced.size() == 1 && reduced[0] == type(op->operands[0]).rank() - 1;
    if (!last || !is_reduction(function_, *op) || combiner_of(function_, *op) != combiner)
      return std::nullopt;
    return found;
  }
  std::optional<RowNumbers> row_numbers(ValueId value, OpKind combiner) const {
    if (const auto found = row_reduction(value, combiner)) return found;
    const auto numbers = row_numbers(value);
    const Op* op = numbers ? maker(*numbers, combiner) : nullptr;
    if (!op) return std::nullopt;
    for (const size_t side : {size_t{0}, size_t{1}})
      if (auto found = row_reduction(op->operands[side], combiner)) {
        found->other = op->operands[1 - side];
        found->both = *numbers;
        return found;
      }
    return std::nullopt;
  }
  // Whether they are numbers of the rows of `rows`, which may be the transpose of what was reduced.
  bool are_of(const RowNumbers& numbers, ValueId rows) const {
    const ValueId reduced = without_converts(numbers.reduction->operands[0]);
    if (numbers.turned.empty()) return reduced == rows;
    const Op* turn = maker(rows, OpKind::transpose_);
    if (!turn || without_converts(turn->operands[0]) != reduced) return false;
    std::vector<int64_t> order = numbers.turned;
    order.push_back(static_cast<int64_t>(order.size()));
    return std::ranges::equal(turn->integers(Attr::permutation), order);
  }

  bool only_adds_last_one(const Op& reshape) const {
    const auto from = type(reshape.operands[0]).dims(), to = type(reshape.results[0]).dims();
    return to.size() == from.size() + 1 && to.back() == 1 && std::equal(from.begin(), from.end(), to.begin());
  }

  bool starts_at(const Op& reduce, double number) const {
    return splat_of(function_, reduce.operands[1]) == number;
  }

  struct SoftmaxInput {
    ValueId scores;
    std::optional<ValueId> sink;  // a number of each row, [rows]
  };
  // X of softmax(X) over the last dimension.
  std::optional<SoftmaxInput> softmax_input(ValueId weights) const {
    const Op* quotient = maker(without_batch_reshapes(weights), OpKind::divide_);
    if (!quotient) return std::nullopt;
    const ValueId top = without_converts(quotient->operands[0]);
    const Op* exponential = maker(top, OpKind::exponential_);
    const auto sum = row_numbers(quotient->operands[1], OpKind::add_);
    if (!exponential || !sum || !are_of(*sum, top) || !starts_at(*sum->reduction, 0.0)) return std::nullopt;
    const Op* difference = maker(without_converts(exponential->operands[0]), OpKind::subtract_);
    if (!difference) return std::nullopt;
    const ValueId scores = without_converts(difference->operands[0]);
    const auto maximum = row_numbers(difference->operands[1], OpKind::maximum_);
    if (!maximum || !are_of(*maximum, scores)) return std::nullopt;
    if (!starts_at(*maximum->reduction, -std::numeric_limits<double>::infinity())) return std::nullopt;
    if (!is_sink(*sum, *maximum)) return std::nullopt;
    return SoftmaxInput{scores, maximum->other};
  }

  // The sum has exp(s - m) beside its reduction where the maximum m has s, and nothing where it has nothing.
  bool is_sink(const RowNumbers& sum, const RowNumbers& maximum) const {
    if (!sum.other && !maximum.other) return true;
    if (!sum.other || !maximum.other) return false;
    const Op* exponential = maker(without_converts(*sum.other), OpKind::exponential_);
    const Op* difference =
        exponential ? maker(without_converts(exponential->operands[0]), OpKind::subtract_) : nullptr;
    return difference && without_converts(difference->operands[0]) == without_converts(*maximum.other) &&
           without_converts(difference->operands[1]) == maximum.both;
  }

  // Follows scale, masks and a transpose of batch dimensions and queries down to the product.
  std::optional<Scores> scores_of(ValueId value) const {
    AttentionOp found;
    std::vector<int64_t> turned;  // a dimension of the softmax is this one of what is below
    bool scaled = false;
    for (;;) {
      value = turned.empty() ? without_batch_reshapes(value) : without_converts(value);
      const Op* op = maker(value);
      if (!op) return std::nullopt;
      if (op->kind == OpKind::dot_general_) {
        const auto product = product_of(*op);
        if (!product) return std::nullopt;
        if (found.cap) found.scale *= *found.cap;
        return sides_of(*product, turned, std::move(found));
      }
      if (op->kind == OpKind::multiply_ || op->kind == OpKind::divide_) {
        const auto factor = splat_of(function_, op->operands[1]);
        if (!factor) return std::nullopt;
        found.scale *= op->kind == OpKind::multiply_ ? *factor : 1.0 / *factor;
        scaled = true;
        value = op->operands[0];
        continue;
      }
      if (op->kind == OpKind::tanh_) {
        if (found.cap || found.scale <= 0 || found.scale > kAttentionCapMax) return std::nullopt;
        found.cap = std::exchange(found.scale, 1.0);
        scaled = true;
        value = op->operands[0];
        continue;
      }
      if (op->kind == OpKind::transpose_ && turned.empty()) {
        const auto order = op->integers(Attr::permutation);
        turned.assign(order.begin(), order.end());
        value = op->operands[0];
        continue;
      }
      // A mask below the scale is scaled too, and one below the transpose has other dimensions.
      if (scaled || !turned.empty()) return std::nullopt;
      const auto next = op->kind == OpKind::add_      ? added(*op, found)
                        : op->kind == OpKind::select_ ? selected(*op, found)
                                                      : std::nullopt;
      if (!next) return std::nullopt;
      value = *next;
    }
  }

  // Of scores whose dimension i is `turned[i]` of the product's result; empty: i.
  std::optional<Scores> sides_of(const Product& product, std::vector<int64_t> turned,
                                 AttentionOp found) const {
    struct Place {
      int64_t left = kRepeated, right = kRepeated;
    };
    std::vector<Place> result;
    for (size_t i = 0; i < product.left.batch.size(); ++i)
      result.push_back({product.left.batch[i], product.right.batch[i]});
    for (const int64_t d : product.left.free) result.push_back({d, kRepeated});
    for (const int64_t d : product.right.free) result.push_back({kRepeated, d});
    if (result.size() < 2) return std::nullopt;
    std::vector<Place> places;
    if (turned.empty()) places = result;
    for (const int64_t d : turned) places.push_back(result[static_cast<size_t>(d)]);
    const Place query = places[places.size() - 2], key = places.back();
    const bool straight = query.left != kRepeated && query.right == kRepeated && key.left == kRepeated;
    const bool crossed = query.right != kRepeated && query.left == kRepeated && key.right == kRepeated;
    if (!straight && !crossed) return std::nullopt;
    const Factor &q = straight ? product.left : product.right, &k = straight ? product.right : product.left;
    Scores scores{{q.value, {}, straight ? query.left : query.right, q.contracted},
                  {k.value, {}, straight ? key.right : key.left, k.contracted},
                  std::move(found)};
    for (size_t i = 0; i + 2 < places.size(); ++i) {
      scores.queries.batch.push_back(straight ? places[i].left : places[i].right);
      scores.keys.batch.push_back(straight ? places[i].right : places[i].left);
    }
    return scores;
  }

  bool leads_to_product(ValueId value) const {
    for (int depth = 0; depth < 16; ++depth) {
      value = without_batch_reshapes(value);
      const Op* op = maker(value);
      if (!op) return false;
      if (op->kind == OpKind::dot_general_) return true;
      if (op->kind == OpKind::transpose_ || op->kind == OpKind::tanh_) {
        value = op->operands[0];
      } else if (op->kind == OpKind::select_) {
        value = op->operands[splat_of(function_, op->operands[2]) ? 1 : 2];
      } else if (op->kind == OpKind::multiply_ || op->kind == OpKind::divide_ || op->kind == OpKind::add_) {
        if (op->kind == OpKind::add_ && leads_to_product(op->operands[1])) return true;
        value = op->operands[0];
      } else {
        return false;
      }
    }
    return false;
  }

  bool take_diagonal(AttentionOp& found, int64_t diagonal, double fill) const {
    if (fill > kFillMax || diagonal < 0 || found.diagonal) return false;
    found.diagonal = diagonal;
    return true;
  }

  std::optional<ValueId> added(const Op& op, AttentionOp& found) const {
    const int chain = leads_to_product(op.operands[0]) ? 0 : 1;
    if (!leads_to_product(op.operands[static_cast<size_t>(chain)])) return std::nullopt;
    const ValueId mask = op.operands[static_cast<size_t>(1 - chain)];
    const auto causal = causal_bias(function_, mask);
    if (!causal || !take_diagonal(found, causal->diagonal, causal->fill))
      found.masks.insert(found.masks.begin(), {mask, false, 0});
    return op.operands[static_cast<size_t>(chain)];
  }

  std::optional<ValueId> selected(const Op& op, AttentionOp& found) const {
    const auto fill = splat_of(function_, op.operands[2]);
    if (!fill || type(op.operands[0]).rank() != type(op.results[0]).rank()) return std::nullopt;
    const auto diagonal = kept_diagonal(function_, op.operands[0]);
    if (!diagonal || !take_diagonal(found, *diagonal, *fill))
      found.masks.insert(found.masks.begin(), {op.operands[0], true, *fill});
    return op.operands[1];
  }

  static bool repeats(const Scores& scores, const Last& last) {
    return scores.queries.repeats() || scores.keys.repeats() || last.values.repeats();
  }

  // Whether dimensions can be told apart one by one, where they are not all in one order: no reshape changes
  // those of the batch.
  bool lie_together(const Scores& scores, const Last& last, ValueId weights, ValueId softmax_of) const {
    if (last.plain && !repeats(scores, last)) return true;
    const auto dims = type(softmax_of).dims();
    if (!std::ranges::equal(dims, type(weights).dims())) return false;
    const auto lies = [&](const Side& side, std::span<const int64_t> order) {
      if (side.batch.size() + 2 != dims.size()) return false;
      for (size_t i = 0; i < side.batch.size(); ++i)
        if (side.batch[i] != kRepeated && type(side.value).dim(static_cast<int>(side.batch[i])) !=
                                              dims[order.empty() ? i : static_cast<size_t>(order[i])])
          return false;
      return true;
    };
    return lies(scores.queries, {}) && lies(scores.keys, {}) && lies(last.values, last.batch_order) &&
           std::ranges::all_of(scores.found.masks, [&](const AttentionOp::Mask& mask) {
             return std::ranges::equal(type(mask.value).dims(), dims);
           });
  }

  bool fits(const Scores& scores, const Side& values) const {
    const Side& q = scores.queries;
    const int64_t features = type(q.value).dim(static_cast<int>(q.contracted));
    const ElementType element = type(values.value).element();
    const bool typed =
        element == ElementType::kF32 || element == ElementType::kBF16 || element == ElementType::kF16;
    return typed && type(q.value).element() == element && features <= kAttentionFeaturesMax &&
           type(values.value).dim(static_cast<int>(values.free)) <= kAttentionValuesMax &&
           scores.found.scale > 0 && scores.found.scale <= 1;
  }

  // -- building
  ValueId add(OpKind kind, std::vector<ValueId> operands, Type result) {
    const OpId id =
        function_.insert(block_, position_++, kind, std::move(operands), {std::move(result)}, location_);
    return function_.op(id).results[0];
  }
  ValueId transposed(ValueId value, std::vector<int64_t> order) {
    std::vector<int64_t> dims;
    for (const int64_t d : order) dims.push_back(type(value).dim(static_cast<int>(d)));
    const ValueId made = add(OpKind::transpose_, {value}, type(value).with_dims(dims));
    function_.op(function_.value(made).op).set(Attr::permutation, std::move(order));
    return made;
  }
  ValueId reshaped(ValueId value, std::vector<int64_t> dims) {
    return add(OpKind::reshape_, {value}, type(value).with_dims(std::move(dims)));
  }

  // Keys or values that several heads share are a broadcast, merged with the heads by a reshape, which no
  // strides express: it is undone, and the batch dimension of heads becomes two everywhere.
  Side split_shared_heads(Side side, std::vector<int64_t>& batch) const {
    const Op* merged = maker(side.value, OpKind::reshape_);
    const Op* repeated = merged ? maker(merged->operands[0], OpKind::broadcast_in_dim_) : nullptr;
    if (!repeated) return side;
    const auto from = type(merged->operands[0]).dims(), to = type(side.value).dims();
    if (from.size() != to.size() + 1) return side;
    const auto [a, b] = std::mismatch(to.begin(), to.end(), from.begin());
    const int64_t place = a - to.begin();
    if (a == to.end() || *a != b[0] * b[1] || !std::equal(a + 1, to.end(), b + 2)) return side;
    const auto at = std::find(side.batch.begin(), side.batch.end(), place);
    if (at == side.batch.end()) return side;
    // The same dimension of the softmax, or one that an earlier operand has split already.
    size_t position = 0;
    int64_t before = 1, reached = 1;
    for (auto i = side.batch.begin(); i != at; ++i) before *= to[static_cast<size_t>(*i)];
    while (position < batch.size() && reached < before) reached *= batch[position++];
    const bool split = position + 1 < batch.size() && batch[position] == b[0] && batch[position + 1] == b[1];
    if (!split) {
      if (reached != before || position >= batch.size() || batch[position] != *a) return side;
      batch[position] = b[0];
      batch.insert(batch.begin() + static_cast<std::ptrdiff_t>(position) + 1, b[1]);
    }
    const auto moved = [place](int64_t d) { return d > place ? d + 1 : d; };
    Side made{merged->operands[0], {}, moved(side.free), moved(side.contracted)};
    for (const int64_t d : side.batch) {
      made.batch.push_back(moved(d));
      if (d == place) made.batch.push_back(d + 1);
    }
    return made;
  }

  // [batch..., rows, columns] with the batch dimensions of the softmax, as side.batch has them.
  ValueId canonical(const Side& side, int64_t rows, int64_t columns, std::span<const int64_t> batch) {
    std::vector<int64_t> order, dims(batch.begin(), batch.end()), own;
    for (const int64_t d : side.batch)
      if (d != kRepeated) order.push_back(d);
    for (const int64_t d : {rows, columns}) {
      order.push_back(d);
      dims.push_back(type(side.value).dim(static_cast<int>(d)));
    }
    const ValueId turned = transposed(side.value, std::move(order));
    if (!side.repeats()) return reshaped(turned, std::move(dims));
    for (size_t i = 0; i < dims.size(); ++i)
      if (i >= side.batch.size() || side.batch[i] != kRepeated) own.push_back(static_cast<int64_t>(i));
    const ValueId made = add(OpKind::broadcast_in_dim_, {turned}, type(turned).with_dims(std::move(dims)));
    function_.op(function_.value(made).op).set(Attr::broadcast_dimensions, std::move(own));
    return made;
  }

  static Side in_order(Side side, const std::vector<int64_t>& order) {
    const std::vector<int64_t> batch = side.batch;
    for (size_t i = 0; i < order.size(); ++i) side.batch[i] = batch[static_cast<size_t>(order[i])];
    return side;
  }

  void build(OpId id, Scores scores, ValueId softmax_of, Last last) {
    block_ = function_.op(id).block;
    location_ = function_.op(id).location;
    const auto& ops = function_.block(block_).ops;
    position_ = static_cast<size_t>(std::find(ops.begin(), ops.end(), id) - ops.begin());
    const ValueId replaced = function_.op(id).results[0];
    std::vector<int64_t> batch(type(softmax_of).dims().begin(), type(softmax_of).dims().end() - 2);
    Side q = scores.queries, k = scores.keys, v = last.values;
    std::vector<int64_t> order;  // of dimensions of the masks; empty: as they are
    if (last.plain && !repeats(scores, last)) {
      k = split_shared_heads(k, batch);
      v = split_shared_heads(v, batch);
    } else {
      order = last.batch_order;
      q = in_order(q, order);
      k = in_order(k, order);
      const std::vector<int64_t> before = batch;
      for (size_t i = 0; i < order.size(); ++i) batch[i] = before[static_cast<size_t>(order[i])];
      order.push_back(static_cast<int64_t>(order.size()));
      order.push_back(static_cast<int64_t>(order.size()));
    }
    std::vector<ValueId> operands{canonical(q, q.free, q.contracted, batch),
                                  canonical(k, k.free, k.contracted, batch),
                                  canonical(v, v.contracted, v.free, batch)};
    const auto as_softmax = [&](ValueId value, const std::vector<int64_t>& dims) {
      return reshaped(order.empty() ? value : transposed(with_rank(value, softmax_of), order), dims);
    };
    std::vector<int64_t> full = batch;
    full.push_back(type(operands[0]).dims().end()[-2]);
    full.push_back(type(operands[1]).dims().end()[-2]);
    Dictionary attributes{{"scale", Attribute(scores.found.scale)}};
    if (scores.found.cap) attributes.emplace("cap", Attribute(*scores.found.cap));
    graph::AttributeList masks;
    for (const AttentionOp::Mask& mask : scores.found.masks) {
      operands.push_back(as_softmax(mask.value, full));
      masks.push_back(Attribute(mask.is_predicate));
      masks.push_back(Attribute(mask.fill));
    }
    if (scores.found.sink) {
      full.back() = 1;
      operands.push_back(as_softmax(*scores.found.sink, full));
      attributes.emplace("has_sink", Attribute(true));
    }
    attributes.emplace("masks", Attribute::list(std::move(masks)));
    if (scores.found.diagonal) {
      attributes.emplace("diagonal", Attribute(*scores.found.diagonal));
      operands.push_back(corner());
    }
    place(replaced, operands, std::move(attributes), batch, last);
  }

  // [rows] as [rows, 1]: what a sink of a softmax is.
  ValueId with_rank(ValueId value, ValueId softmax_of) {
    if (type(value).rank() == type(softmax_of).rank()) return value;
    std::vector<int64_t> dims(type(softmax_of).dims().begin(), type(softmax_of).dims().end() - 1);
    dims.push_back(1);
    return reshaped(value, std::move(dims));
  }

  ValueId corner() {
    std::vector<std::byte> bytes(kCorner * kCorner * sizeof(float));
    auto* numbers = reinterpret_cast<float*>(bytes.data());
    for (int64_t i = 0; i < kCorner; ++i)
      for (int64_t j = 0; j < kCorner; ++j)
        numbers[i * kCorner + j] = j <= i ? 0.0F : -std::numeric_limits<float>::infinity();
    const Type square = Type::tensor(ElementType::kF32, {kCorner, kCorner});
    const ValueId made = add(OpKind::constant_, {}, square);
    function_.op(function_.value(made).op).set(Attr::value, Literal(square, std::move(bytes)));
    return made;
  }

  // The op, and what turns its result into that of the product.
  void place(ValueId replaced, std::vector<ValueId> operands, Dictionary attributes,
             std::span<const int64_t> batch, const Last& last) {
    const int64_t queries = type(operands[0]).dims().end()[-2], features = type(operands[2]).dims().back();
    const auto rank = static_cast<int64_t>(batch.size());
    std::vector<int64_t> dims, order;
    if (rank > 0) dims.push_back(batch[0]);
    dims.push_back(queries);
    for (int64_t i = 1; i < rank; ++i) dims.push_back(batch[static_cast<size_t>(i)]);
    dims.push_back(features);
    const ValueId made = add(OpKind::composite_, std::move(operands), type(replaced).with_dims(dims));
    Op& op = function_.op(function_.value(made).op);
    op.set(Attr::name, std::string(kAttentionName));
    op.set(Attr::composite_attributes, Attribute::dictionary(std::move(attributes)));
    // Back to the dimensions of the product. Where heads were split into two, batch dimensions are all in
    // front.
    const auto place_of = [&](int64_t of) { return of == 0 ? 0 : of + 1; };
    if (last.plain)
      for (int64_t i = 0; i < rank; ++i) order.push_back(place_of(i));
    for (const int64_t of : last.result) {
      if (of == Last::kFeature)
        order.push_back(rank + 1);
      else if (of == Last::kQuery)
        order.push_back(rank > 0 ? 1 : 0);
      else if (!last.plain)
        order.push_back(place_of(of));
    }
    const auto wanted = type(replaced).dims_vector();
    const ValueId back = reshaped(transposed(made, std::move(order)), wanted);
    function_.replace_uses(replaced, back);
  }

  Function& function_;
  BlockId block_ = graph::kNoBlock;
  size_t position_ = 0;
  graph::LocationId location_ = graph::kNoLocation;
};

}  // namespace

int64_t recognise_attention(Function& function) {
  const Activity activity("recognising attention");
  int64_t found = 0;
  Matcher matcher(function);
  for (const OpId id : std::vector(function.block(function.body()).ops)) found += matcher.replace(id);
  return found;
}

}  // namespace opentrn::compiler
