// From the last product backwards:
//
//   P V           P = E / rows of (sum of E), E = exp(X - rows of (max of X))
//   X = masks and scale over Q K^T
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
#include <vector>

#include "base/activity.h"
#include "compiler/analysis/attention_op.h"
#include "compiler/analysis/index_pattern.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/takes.h"
#include "compiler/recognise/recognise.h"

namespace opentrn::compiler {

using graph::Attr;
using graph::Attribute;
using graph::BlockId;
using graph::Dictionary;
using graph::ElementType;
using graph::Function;
using graph::Literal;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

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

// One side of a product with one free and one contracted dimension.
struct Side {
  ValueId value;
  std::vector<int64_t> batch;
  int64_t free = 0, contracted = 0;
};

struct Product {
  Side left, right;
};

struct Scores {
  Product product;
  AttentionOp found;
};

class Matcher {
 public:
  explicit Matcher(Function& function) : function_(function) {}

  // Replaces the product when it is attention's last one.
  bool replace(OpId id) {
    const auto product = product_of(function_.op(id));
    if (!product) return false;
    for (const bool left : {true, false}) {
      const Side& weights = left ? product->left : product->right;
      const Side& values = left ? product->right : product->left;
      const auto rank = static_cast<int64_t>(function_.type(weights.value).rank());
      if (!counts_up(weights.batch) || weights.free != rank - 2 || weights.contracted != rank - 1) continue;
      const auto softmax_of = softmax_input(weights.value);
      if (!softmax_of) continue;
      auto scores = scores_of(softmax_of->scores);
      if (scores) scores->found.sink = softmax_of->sink;
      if (scores && fits(*scores, values)) {
        build(id, *scores, softmax_of->scores, values, left);
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
    const auto side = [&](ValueId value, Attr batch, Attr contracted) -> std::optional<Side> {
      Side made{value, {}, 0, 0};
      const auto b = dimensions(op, batch), c = dimensions(op, contracted);
      made.batch.assign(b.begin(), b.end());
      if (c.size() != 1 || b.size() + 2 != type(value).dims().size()) return std::nullopt;
      made.contracted = c[0];
      for (int64_t d = 0; d < type(value).rank(); ++d)
        if (d != c[0] && std::find(b.begin(), b.end(), d) == b.end()) made.free = d;
      return made;
    };
    const auto left = side(op.operands[0], Attr::lhs_batching_dimensions, Attr::lhs_contracting_dimensions);
    const auto right = side(op.operands[1], Attr::rhs_batching_dimensions, Attr::rhs_contracting_dimensions);
    if (!left || !right || type(left->value).element() != type(right->value).element()) return std::nullopt;
    return Product{*left, *right};
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

  // The reduction over the last dimension that `value` is; nullptr where it is none.
  const Op* row_reduction(ValueId value, OpKind combiner) const {
    const auto numbers = row_numbers(value);
    const Op* op = numbers ? maker(*numbers, OpKind::reduce_) : nullptr;
    if (!op) return nullptr;
    const auto reduced = op->integers(Attr::dimensions);
    const bool last = reduced.size() == 1 && reduced[0] == type(op->operands[0]).rank() - 1;
    return last && is_reduction(function_, *op) && combiner_of(function_, *op) == combiner ? op : nullptr;
  }

  // A reduction, alone or `combiner` of it and something of its own type.
  struct RowNumbers {
    const Op* reduction;
    std::optional<ValueId> other;  // what it is combined with
    ValueId both;
  };
  std::optional<RowNumbers> row_numbers(ValueId value, OpKind combiner) const {
    if (const Op* op = row_reduction(value, combiner)) return RowNumbers{op, std::nullopt, value};
    const auto numbers = row_numbers(value);
    const Op* op = numbers ? maker(*numbers, combiner) : nullptr;
    if (!op) return std::nullopt;
    for (const size_t side : {size_t{0}, size_t{1}})
      if (const Op* reduction = row_reduction(op->operands[side], combiner))
        return RowNumbers{reduction, op->operands[1 - side], *numbers};
    return std::nullopt;
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
    if (!exponential || !sum || without_converts(sum->reduction->operands[0]) != top ||
        !starts_at(*sum->reduction, 0.0))
      return std::nullopt;
    const Op* difference = maker(without_converts(exponential->operands[0]), OpKind::subtract_);
    if (!difference) return std::nullopt;
    const ValueId scores = without_converts(difference->operands[0]);
    const auto maximum = row_numbers(difference->operands[1], OpKind::maximum_);
    if (!maximum || without_converts(maximum->reduction->operands[0]) != scores) return std::nullopt;
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

  // Follows scale and masks down to the product.
  std::optional<Scores> scores_of(ValueId value) const {
    Scores scores;
    bool scaled = false;
    for (;;) {
      value = without_batch_reshapes(value);
      const Op* op = maker(value);
      if (!op) return std::nullopt;
      if (op->kind == OpKind::dot_general_) {
        const auto product = product_of(*op);
        if (!product) return std::nullopt;
        scores.product = *product;
        return scores;
      }
      if (op->kind == OpKind::multiply_ || op->kind == OpKind::divide_) {
        const auto factor = splat_of(function_, op->operands[1]);
        if (!factor) return std::nullopt;
        scores.found.scale *= op->kind == OpKind::multiply_ ? *factor : 1.0 / *factor;
        scaled = true;
        value = op->operands[0];
        continue;
      }
      if (scaled) return std::nullopt;  // a mask below the scale is scaled too
      const auto next = op->kind == OpKind::add_      ? added(*op, scores.found)
                        : op->kind == OpKind::select_ ? selected(*op, scores.found)
                                                      : std::nullopt;
      if (!next) return std::nullopt;
      value = *next;
    }
  }

  bool leads_to_product(ValueId value) const {
    for (int depth = 0; depth < 16; ++depth) {
      value = without_batch_reshapes(value);
      const Op* op = maker(value);
      if (!op) return false;
      if (op->kind == OpKind::dot_general_) return true;
      if (op->kind == OpKind::select_) {
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

  bool fits(const Scores& scores, const Side& values) const {
    const Side& q = scores.product.left;
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

  // [batch..., rows, columns] with the batch dimensions of the softmax.
  ValueId canonical(const Side& side, int64_t rows, int64_t columns, std::span<const int64_t> batch) {
    std::vector<int64_t> order = side.batch, dims(batch.begin(), batch.end());
    order.push_back(rows);
    order.push_back(columns);
    dims.push_back(type(side.value).dim(static_cast<int>(rows)));
    dims.push_back(type(side.value).dim(static_cast<int>(columns)));
    return reshaped(transposed(side.value, std::move(order)), std::move(dims));
  }

  void build(OpId id, const Scores& scores, ValueId softmax_of, const Side& values, bool weights_left) {
    block_ = function_.op(id).block;
    location_ = function_.op(id).location;
    const auto& ops = function_.block(block_).ops;
    position_ = static_cast<size_t>(std::find(ops.begin(), ops.end(), id) - ops.begin());
    const ValueId replaced = function_.op(id).results[0];
    std::vector<int64_t> batch(type(softmax_of).dims().begin(), type(softmax_of).dims().end() - 2);
    const Side q = scores.product.left;
    const Side k = split_shared_heads(scores.product.right, batch), v = split_shared_heads(values, batch);
    std::vector<ValueId> operands{canonical(q, q.free, q.contracted, batch),
                                  canonical(k, k.free, k.contracted, batch),
                                  canonical(v, v.contracted, v.free, batch)};
    std::vector<int64_t> full = batch;
    full.push_back(type(operands[0]).dims().end()[-2]);
    full.push_back(type(operands[1]).dims().end()[-2]);
    Dictionary attributes{{"scale", Attribute(scores.found.scale)}};
    graph::AttributeList masks;
    for (const AttentionOp::Mask& mask : scores.found.masks) {
      operands.push_back(reshaped(mask.value, full));
      masks.push_back(Attribute(mask.is_predicate));
      masks.push_back(Attribute(mask.fill));
    }
    if (scores.found.sink) {
      full.back() = 1;
      operands.push_back(reshaped(*scores.found.sink, full));
      attributes.emplace("has_sink", Attribute(true));
    }
    attributes.emplace("masks", Attribute::list(std::move(masks)));
    if (scores.found.diagonal) {
      attributes.emplace("diagonal", Attribute(*scores.found.diagonal));
      operands.push_back(corner());
    }
    place(replaced, operands, std::move(attributes), batch, weights_left);
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
             std::span<const int64_t> batch, bool weights_left) {
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
    // Back to [B..., q, e], or [B..., e, q] where the values were the left operand.
    const int64_t query_place = rank > 0 ? 1 : 0;
    if (rank > 0) order.push_back(0);
    for (int64_t i = 1; i < rank; ++i) order.push_back(i + 1);
    order.push_back(weights_left ? query_place : rank + 1);
    order.push_back(weights_left ? rank + 1 : query_place);
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
