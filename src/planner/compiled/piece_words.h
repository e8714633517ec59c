// The words that graphs of pieces are written in: those of neural networks, over a builder.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "planner/compiled/piece_graph.h"

namespace opentrn::planner::compiled {

using graph::Attr;
using graph::Attribute;
using graph::Builder;
using graph::ElementType;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

using Dims = std::vector<int64_t>;

// Values between products are in `element_`, and so are sums of them; inside of norms, softmax and
// activations they are in float32.
class PieceWords {
 protected:
  static constexpr ElementType kReal = ElementType::kF32, kIndex = ElementType::kI32;
  static constexpr double kEpsilon = 1e-5, kMasked = -1e30;

  explicit PieceWords(const Piece& piece)
      : piece_(piece),
        element_(piece.wide ? ElementType::kF32 : ElementType::kBF16),
        function_(module_.add_function("main")),
        builder_(module_, function_, function_.body()) {
    module_.name = to_string(piece);
  }

  graph::Module finished() {
    builder_.return_values(results_);
    for (const ValueId result : results_) function_.result_types.push_back(builder_.type(result));
    function_.result_attributes.resize(results_.size());
    if (!function_.argument_attributes.empty())
      function_.argument_attributes.resize(function_.arguments().size());
    return std::move(module_);
  }

  ValueId argument(Dims dims, ElementType element) {
    const ValueId value = function_.add_argument(builder_.block(), Type::tensor(element, std::move(dims)));
    return value;
  }
  ValueId argument(Dims dims) { return argument(std::move(dims), element_); }
  ValueId vector(int64_t size) { return argument({size}, kReal); }
  ValueId heads_of(int64_t rows) { return argument({piece_.heads, rows, piece_.features}); }
  int64_t values() const { return piece_.values > 0 ? piece_.values : piece_.features; }
  ValueId values_of(int64_t rows) { return argument({piece_.heads, rows, values()}); }
  void give(ValueId value) { results_.push_back(value); }
  ValueId given(ValueId value) {
    if (!piece_.lean) give(value);
    return value;
  }
  // For the backward pass, as the next product reads it.
  ValueId kept(ValueId value) { return given(narrow(value)); }
  void give_gradient(ValueId value) {
    value = narrow(value);
    if (piece_.adds && piece_.chunks > 1) return give_sum_of_chunk(value);
    if (piece_.adds) value = plus(argument(builder_.type(value).dims_vector()), value);
    give(value);
  }

  // Of a block; of one of several chunks as its tick reads it, from where those of all of them lie.
  ValueId weight(Dims dims) {
    return piece_.chunks > 1 ? of_chunk(all_chunks(dims), dims) : argument(std::move(dims));
  }
  ValueId all_chunks(Dims dims) {
    dims.insert(dims.begin(), piece_.chunks);
    return argument(std::move(dims));
  }
  ValueId of_chunk(ValueId all, const Dims& dims) {
    Dims sizes = dims;
    sizes.insert(sizes.begin(), 1);
    std::vector<ValueId> operands = chunk_place(dims.size());
    operands.insert(operands.begin(), all);
    return builder_.reshape(builder_.add(OpKind::dynamic_slice_, std::move(operands),
                                         {{Attr::slice_sizes, Attribute(std::move(sizes))}}),
                            dims);
  }
  // The last argument is where the result of that number is written.
  void give_at(size_t result) {
    function_.argument_attributes.resize(function_.arguments().size());
    function_.argument_attributes.back()["tf.aliasing_output"] = Attribute(static_cast<int64_t>(result));
  }
  // In place.
  void give_sum_of_chunk(ValueId value) {
    const Dims dims = builder_.type(value).dims_vector();
    Dims sizes = dims;
    sizes.insert(sizes.begin(), 1);
    const ValueId all = all_chunks(dims);
    give_at(results_.size());
    std::vector<ValueId> operands = chunk_place(dims.size());
    operands.insert(operands.begin(), {all, builder_.reshape(plus(of_chunk(all, dims), value), sizes)});
    give(builder_.add(OpKind::dynamic_update_slice_, std::move(operands)));
  }
  std::vector<ValueId> chunk_place(size_t rank) {
    if (!chunk_) chunk_ = argument({}, kIndex);
    std::vector<ValueId> place(rank + 1, splat(Type::tensor(kIndex, {}), 0));
    place.front() = *chunk_;
    return place;
  }

  struct Unit {
    ValueId normal, root;  // rows of mean square 1, and what they were multiplied by
  };
  Unit unit(ValueId x) {
    if (!piece_.root_mean_square) x = minus(x, along_columns(mean(x), x));
    const ValueId square = mean(times(x, x));
    const ValueId root = builder_.add(OpKind::rsqrt_, {plus(square, splat(square, kEpsilon))});
    return {times(x, along_columns(root, x)), root};
  }
  // The gradient of what was normalised, from that of the rows of mean square 1.
  ValueId norm_slope(const Unit& made, ValueId g) {
    ValueId inner = minus(g, times(made.normal, along_columns(mean(times(g, made.normal)), g)));
    if (!piece_.root_mean_square) inner = minus(inner, along_columns(mean(g), g));
    return times(inner, along_columns(made.root, g));
  }
  ValueId mean(ValueId x) {
    const ValueId sum = builder_.reduce(OpKind::add_, x, {1});
    return times(sum, splat(sum, 1.0 / double(builder_.type(x).dims_vector()[1])));
  }
  ValueId along_columns(ValueId rows, ValueId like) {
    return builder_.broadcast_in_dim(rows, builder_.type(like).dims_vector(), {0});
  }
  ValueId along_rows(ValueId columns) {
    return builder_.broadcast_in_dim(columns, {piece_.rows, piece_.hidden}, {1});
  }
  ValueId along_rows(ValueId columns, ValueId like) {
    return builder_.broadcast_in_dim(columns, builder_.type(like).dims_vector(), {1});
  }
  ValueId over_keys(ValueId rows, ValueId like) {
    Dims kept;
    for (int64_t d = 0; d + 1 < builder_.type(like).rank(); ++d) kept.push_back(d);
    return builder_.broadcast_in_dim(rows, builder_.type(like).dims_vector(), std::move(kept));
  }
  // Rotary positions: each pair of features (i, i + half) of a head turned by its row's angle; backward too,
  // with other signs in the table.
  ValueId turned(ValueId x) { return turned(x, piece_.features); }
  ValueId turned(ValueId x, int64_t features) {
    if (features == 0) return x;
    const Dims dims = builder_.type(x).dims_vector();
    const int64_t half = features / 2;
    // Sequences have the same angles.
    const int64_t length = piece_.keys > 0 ? positions() : dims[0];
    const Dims halves{dims[0] / length, length, dims[1] / features, 2, half};
    const ValueId pairs = builder_.reshape(x, halves);
    const ValueId swapped = builder_.add(OpKind::reverse_, {pairs}, {{Attr::dimensions, Attribute(Dims{3})}});
    const auto table = [&] {
      return builder_.broadcast_in_dim(argument({length, 2, half}, kReal), halves, {1, 3, 4});
    };
    const ValueId straight = times(pairs, table());
    return builder_.reshape(plus(straight, times(swapped, table())), dims);
  }
  ValueId wide(ValueId value) { return builder_.convert(value, kReal); }
  ValueId narrow(ValueId value) { return builder_.convert(value, element_); }
  ValueId plus(ValueId x, ValueId y) { return builder_.add(OpKind::add_, {x, y}); }
  ValueId minus(ValueId x, ValueId y) { return builder_.add(OpKind::subtract_, {x, y}); }
  ValueId times(ValueId x, ValueId y) { return builder_.add(OpKind::multiply_, {x, y}); }
  ValueId splat(ValueId like, double value) { return splat(builder_.type(like), value); }
  ValueId splat(const Type& type, double value) { return builder_.splat(type, value); }
  ValueId none() { return splat(Type::tensor(kIndex, {}), 0); }
  ValueId silu(ValueId x) { return times(x, builder_.add(OpKind::logistic_, {x})); }
  // GELU's usual approximation, by tanh: x s, s = logistic(2 sqrt(2 / pi) (x + 0.044715 x^3)).
  static constexpr double kGeluScale = 1.5957691216057308, kGeluCube = 0.044715;
  ValueId gelu_share(ValueId x, ValueId square) {
    const ValueId bent = plus(times(square, splat(x, kGeluScale * kGeluCube)), splat(x, kGeluScale));
    return builder_.add(OpKind::logistic_, {times(x, bent)});
  }
  ValueId gelu(ValueId x) { return times(x, gelu_share(x, times(x, x))); }
  ValueId gelu_slope(ValueId x) {
    const ValueId square = times(x, x), share = gelu_share(x, square);
    const ValueId bent = plus(times(square, splat(x, 3 * kGeluScale * kGeluCube)), splat(x, kGeluScale));
    return times(share, plus(splat(x, 1), times(times(x, bent), minus(splat(x, 1), share))));
  }
  ValueId product(ValueId x, ValueId weight) {
    return dot(x, {}, 1, weight, {}, 0, {builder_.type(x).dim(0), builder_.type(weight).dim(1)});
  }
  // x W^T, of a product's gradient.
  ValueId product_turned(ValueId x, ValueId weight) {
    return dot(x, {}, 1, weight, {}, 1, {builder_.type(x).dim(0), builder_.type(weight).dim(0)});
  }
  // x^T y, a weight's gradient.
  ValueId product_of_rows(ValueId x, ValueId y) {
    return dot(x, {}, 0, y, {}, 0, {builder_.type(x).dim(1), builder_.type(y).dim(1)});
  }
  // A product as the next one reads it, by a weight of so many columns, and its bias.
  ValueId projected(ValueId in, int64_t columns) {
    const ValueId made = narrow(product(in, weight({builder_.type(in).dim(1), columns})));
    return shifted(made);
  }
  // A product whose bias stands behind the sum over ranks, before the next norm.
  ValueId summed_over_ranks(ValueId in) {
    return narrow(product(in, weight({builder_.type(in).dim(1), piece_.hidden})));
  }
  ValueId batched(ValueId a, int64_t a_contracted, ValueId b, int64_t b_contracted, Dims dims) {
    Dims batch;
    for (int64_t d = 0; d + 2 < static_cast<int64_t>(dims.size()); ++d) batch.push_back(d);
    return dot(a, batch, a_contracted, b, batch, b_contracted, std::move(dims));
  }
  ValueId dot(ValueId a, Dims a_batch, int64_t a_contracted, ValueId b, Dims b_batch, int64_t b_contracted,
              Dims dims) {
    return builder_.add(OpKind::dot_general_, {a, b},
                        {{Attr::lhs_batching_dimensions, Attribute(std::move(a_batch))},
                         {Attr::rhs_batching_dimensions, Attribute(std::move(b_batch))},
                         {Attr::lhs_contracting_dimensions, Attribute(Dims{a_contracted})},
                         {Attr::rhs_contracting_dimensions, Attribute(Dims{b_contracted})}},
                        {Type::tensor(kReal, std::move(dims))});
  }

  ValueId normed(ValueId x) {
    const ValueId scale = along_rows(vector(builder_.type(x).dim(1)), x);
    const ValueId made = narrow(times(unit(wide(x)).normal, scale));
    return piece_.root_mean_square ? made : shifted(made);
  }
  ValueId shifted(ValueId x) {
    if (!piece_.biased) return x;
    const Dims dims = builder_.type(x).dims_vector();
    return plus(x, builder_.broadcast_in_dim(weight({dims[1]}), dims, {1}));
  }
  // What a weight that reads `in` has, and the bias behind it.
  void give_gradients(ValueId in, ValueId d) {
    give_gradient(product_of_rows(in, d));
    give_gradient_of_bias(d);
  }
  void give_gradient_of_bias(ValueId d) {
    if (piece_.biased) give_gradient(builder_.reduce(OpKind::add_, wide(d), {0}));
  }

  ValueId norm_back(ValueId d) { return narrow(norm_back(argument(builder_.type(d).dims_vector()), d)); }
  // Through a norm of `x`, in float32.
  ValueId norm_back(ValueId x, ValueId d) {
    if (!piece_.root_mean_square) give_gradient_of_bias(d);
    const std::vector<ValueId> both = barred({x, d});
    const Unit made = unit(wide(both[0]));
    const ValueId slope = wide(both[1]);
    give_gradient(builder_.reduce(OpKind::add_, times(slope, made.normal), {0}));
    const ValueId scale = along_rows(vector(builder_.type(x).dim(1)), slope);
    return norm_slope(made, times(slope, scale));
  }

  ValueId residual_and_norm() {
    const ValueId x =
        shifted(plus(argument({piece_.rows, piece_.hidden}), argument({piece_.rows, piece_.hidden})));
    give(x);
    return given(normed(x));
  }

  ValueId norm_and_residual_back(ValueId d) {
    return norm_and_residual_back(argument({piece_.rows, piece_.hidden}), d);
  }
  // The barriers of the exported step, behind which norms, gates and attention's weights are made again.
  std::vector<ValueId> barred(std::vector<ValueId> values) {
    return function_.op(builder_.add_op(OpKind::optimization_barrier_, std::move(values))).results;
  }
  ValueId norm_and_residual_back(ValueId x, ValueId d) {
    const ValueId through = norm_back(x, d);
    const ValueId made = plus(argument({piece_.rows, piece_.hidden}), narrow(through));
    give_gradient_of_bias(made);
    return made;
  }

  // -- an MLP of `inner` columns between those of a token. What the backward pass reads is given by the
  // forward pass, as it leaves the program that made it.
  ValueId mlp_of(ValueId in, int64_t inner) { return summed_over_ranks(mlp_inside(in, inner)); }
  ValueId mlp_inside(ValueId in, int64_t inner) {
    const ValueId up = given(projected(in, inner));
    ValueId acted{};
    if (piece_.gated) {
      const ValueId gate = given(projected(in, inner));
      acted = times(silu(wide(gate)), wide(up));
    } else {
      acted = gelu(wide(up));
    }
    return kept(acted);
  }
  ValueId mlp_back(ValueId d_out, int64_t rows, int64_t inner) {
    const auto inside = [&] { return argument({rows, inner}); };
    const ValueId in = argument({rows, piece_.hidden});
    const ValueId up = inside();
    const ValueId d_acted = narrow(product_turned(d_out, weight({inner, piece_.hidden})));
    give_gradient(product_of_rows(inside(), d_out));
    const ValueId gate = piece_.gated ? inside() : up;
    ValueId d_in{};
    const std::vector<ValueId> d_firsts = through_activation({up, gate, d_acted});
    for (size_t i = 0; i < d_firsts.size(); ++i) {
      give_gradients(in, d_firsts[i]);
      const ValueId back = narrow(product_turned(d_firsts[i], weight({piece_.hidden, inner})));
      d_in = i == 0 ? back : plus(d_in, back);
    }
    return d_in;
  }
  // Gradients of what an MLP's first products gave, from those, the gate's (or the same) and the gradient of
  // what comes of them. In the exported step's order, which is another for the engines that share this work.
  std::vector<ValueId> through_activation(std::vector<ValueId> kept_and_gradient) {
    kept_and_gradient = barred(std::move(kept_and_gradient));
    const ValueId up = wide(kept_and_gradient[0]), d_acted = wide(kept_and_gradient[2]);
    if (!piece_.gated) return {narrow(times(d_acted, gelu_slope(up)))};
    const ValueId gate = wide(kept_and_gradient[1]);
    const ValueId share = builder_.add(OpKind::logistic_, {gate});
    const ValueId slope = plus(splat(share, 1), times(gate, minus(splat(share, 1), share)));
    return {narrow(times(times(d_acted, gate), share)),
            narrow(times(times(times(d_acted, up), share), slope))};
  }

  // Weights of `piece_.updated`; nothing where it has none.
  void update_weights() {
    const Updated& of = piece_.updated;
    const int64_t hidden = piece_.hidden;
    if (of.vocabulary > 0) update({part_of_rank(hidden), of.vocabulary});
    if (of.kv_rank > 0) {
      update_latent(of);
    } else if (of.queries > 0) {
      const int64_t parts = of.halves ? 2 : 1;
      for (const int64_t columns : {of.queries, of.key_values, of.key_values})
        update_into(parts * columns, parts);
      update_out_of(of.queries);
    }
    for (const int64_t inner : {of.experts > 0 ? of.shared : of.inner}) {
      if (inner == 0) continue;
      for (int i = 0; i < (of.gated ? 2 : 1); ++i) update_into(inner);
      update_out_of(inner);
    }
    if (of.experts == 0) return;
    for (int i = 0; i < (of.gated ? 2 : 1); ++i) update({of.experts, part_of_rank(hidden), of.inner});
    update({of.experts, of.inner, part_of_rank(hidden)});
  }
  int64_t part_of_rank(int64_t whole) const {
    const int64_t ranks = piece_.updated.ranks;
    return ranks > 1 && whole % ranks == 0 ? whole / ranks : whole;
  }
  // Weights from and to a token's numbers, which ZeRO cuts, and their biases.
  void update_into(int64_t columns, int64_t parts = 1) {
    update({part_of_rank(piece_.hidden) / parts, columns});
    if (piece_.biased) update({columns});
  }
  void update_out_of(int64_t rows) {
    update({rows, part_of_rank(piece_.hidden)});
    if (piece_.biased) update({part_of_rank(piece_.hidden)});
  }
  void update_latent(const Updated& of) {
    const int64_t parts = of.compressed ? 2 : 1, hidden = part_of_rank(piece_.hidden);
    if (of.query_rank > 0) update({hidden, of.query_rank / parts});
    update({of.query_rank > 0 ? part_of_rank(of.query_rank) : hidden, of.queries});
    update({hidden, (of.kv_rank + of.rope) / parts});
    update({part_of_rank(of.kv_rank), of.key_values});
    update({of.values, hidden});
  }
  // Adam's, of weights and moments in float32.
  void update(const Dims& dims) {
    // Where it lies, as the exported step's state.
    size_t result = results_.size();
    const auto real = [&] {
      const ValueId kept = argument(dims, kReal);
      give_at(result++);
      return kept;
    };
    const ValueId weights = real(), moment = real(), square = real();
    const ValueId gradient = wide(argument(dims));
    const auto mixed = [&](ValueId kept, double share, ValueId fresh) {
      return plus(times(kept, splat(kept, share)), times(fresh, splat(fresh, 1 - share)));
    };
    const ValueId m = mixed(moment, 0.9, gradient), v = mixed(square, 0.99, times(gradient, gradient));
    const ValueId root = builder_.add(OpKind::rsqrt_, {plus(v, splat(v, 1e-12))});
    const ValueId made = minus(weights, times(times(m, root), splat(m, 1e-3)));
    for (const ValueId each : {made, m, v}) give(each);
    if (!piece_.wide) give(narrow(made));
  }

  ValueId transposed(ValueId x, Dims order) {
    return builder_.add(OpKind::transpose_, {x}, {{Attr::permutation, Attribute(std::move(order))}});
  }
  // Of each sequence: all, or the core's part.
  int64_t positions() const {
    const bool is_part = piece_.part == Part::kBeforeKeys || piece_.part == Part::kBehindKeys;
    if (!is_part) return piece_.keys;
    const int64_t own = piece_.keys / std::max<int64_t>(piece_.context, 1);
    return piece_.context == 0 || has_half_positions() ? own / 2 : own;
  }
  // Of a rank's part of each sequence, where cores cannot have whole ones.
  bool has_half_positions() const {
    return piece_.halves && piece_.context > 0 && piece_.rows % (piece_.keys / piece_.context) != 0;
  }
  const Piece& piece_;
  ElementType element_;
  graph::Module module_;
  graph::Function& function_;
  Builder builder_;
  std::vector<ValueId> results_;
  std::optional<ValueId> chunk_;  // its number
};

}  // namespace opentrn::planner::compiled
