#include "planner/compiled/piece_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "planner/compiled/attention_words.h"

namespace opentrn::planner::compiled {

namespace {

class Sheet : AttentionWords {
 public:
  explicit Sheet(const Piece& piece) : AttentionWords(piece) {}

  graph::Module run() {
    for (int i = 0; i < (piece_.paired ? 2 : 1); ++i) make();
    return finished();
  }

 private:
  void make() {
    switch (piece_.part) {
      case Part::kNorms: piece_.backward ? norms_backward() : norms_forward(); break;
      case Part::kProducts: piece_.backward ? products_backward() : products_forward(); break;
      case Part::kAttention: piece_.backward ? attention_backward() : attention_forward(); break;
      case Part::kDecode: decode(); break;
      case Part::kOptimizer: optimizer(); break;
      case Part::kMlp: piece_.backward ? mlp_backward() : mlp_forward(); break;
      case Part::kLinear: linear(); break;
      case Part::kAttentionHalf:
      case Part::kMlpHalf: piece_.backward ? half_backward() : half_forward(); break;
      case Part::kCompress: piece_.backward ? compress_backward() : compress_forward(); break;
      case Part::kBeforeKeys: piece_.backward ? keys_backward() : keys_forward(); break;
      case Part::kBehindKeys: piece_.backward ? queries_backward() : queries_forward(); break;
      case Part::kNorm: piece_.backward ? norm_backward() : norm_forward(); break;
      default: OPENTRN_CHECK(false, "a part of another file");
    }
    update_weights();
  }

  // -- parts
  void norms_forward() {
    const ValueId x = wide(argument({piece_.rows, piece_.hidden}));
    ValueId sum = x;
    for (int i = 0; i < 2; ++i) {
      sum = plus(sum, wide(argument({piece_.rows, piece_.hidden})));  // what a branch adds
      give(narrow(times(unit(sum).normal, along_rows(vector(piece_.hidden)))));
    }
    give(narrow(sum));
  }

  void norms_backward() {
    ValueId gradient = wide(argument({piece_.rows, piece_.hidden}));
    for (int i = 0; i < 2; ++i) {
      const ValueId x = wide(argument({piece_.rows, piece_.hidden}));
      const ValueId of_branch = wide(argument({piece_.rows, piece_.hidden}));
      const Unit made = unit(x);
      give(builder_.reduce(OpKind::add_, times(of_branch, made.normal), {0}));
      gradient = plus(gradient, norm_slope(made, times(of_branch, along_rows(vector(piece_.hidden)))));
    }
    give(narrow(gradient));
  }

  void products_forward() {
    const ValueId x = argument({piece_.rows, piece_.hidden});
    give(narrow(turned(product(x, argument({piece_.hidden, piece_.queries})))));
    give(narrow(turned(product(x, argument({piece_.hidden, piece_.key_values})))));
    give(narrow(product(x, argument({piece_.hidden, piece_.key_values}))));
    give(narrow(product(argument({piece_.rows, piece_.queries}), argument({piece_.queries, piece_.hidden}))));
    if (piece_.inner > 0) mlp_forward();
  }

  void mlp_forward() {
    const ValueId y = argument({piece_.rows, piece_.hidden});
    const ValueId up = product(y, argument({piece_.hidden, piece_.inner}));
    const ValueId in =
        piece_.gated ? times(silu(product(y, argument({piece_.hidden, piece_.inner}))), up) : gelu(up);
    give(narrow(product(narrow(in), argument({piece_.inner, piece_.hidden}))));
  }

  void mlp_backward() {
    const ValueId dy = argument({piece_.rows, piece_.hidden});
    // Its input, and what its first products gave.
    const ValueId y = argument({piece_.rows, piece_.hidden});
    const ValueId up = wide(argument({piece_.rows, piece_.inner}));
    const ValueId d_in = product_turned(dy, argument({piece_.inner, piece_.hidden}));
    std::vector<ValueId> d_firsts;
    ValueId in;
    if (piece_.gated) {
      const ValueId gate = wide(argument({piece_.rows, piece_.inner}));
      const ValueId share = builder_.add(OpKind::logistic_, {gate});
      const ValueId acted = times(gate, share);
      in = times(acted, up);
      // d silu = share (1 + gate (1 - share))
      const ValueId slope = times(share, plus(splat(share, 1), times(gate, minus(splat(share, 1), share))));
      d_firsts = {narrow(times(d_in, acted)), narrow(times(times(d_in, up), slope))};
    } else {
      in = gelu(up);
      d_firsts = {narrow(times(d_in, gelu_slope(up)))};
    }
    give_gradient(product_of_rows(narrow(in), dy));
    std::vector<ValueId> d_y;
    for (const ValueId d : d_firsts) {
      give_gradient(product_of_rows(y, d));
      d_y.push_back(product_turned(d, argument({piece_.hidden, piece_.inner})));
    }
    give(narrow(d_y.size() > 1 ? plus(d_y[0], d_y[1]) : d_y[0]));
  }

  // A product alone; backward both of its gradients.
  void linear() {
    const ValueId x = argument({piece_.rows, piece_.hidden}),
                  weight = argument({piece_.hidden, piece_.inner});
    if (!piece_.backward) {
      give(narrow(product(x, weight)));
      return;
    }
    const ValueId d = argument({piece_.rows, piece_.inner});
    give(narrow(product_turned(d, weight)));
    give_gradient(product_of_rows(x, d));
  }

  void products_backward() {
    if (piece_.inner > 0) mlp_backward();
    // Attention's output layer and its projections.
    const ValueId dx = argument({piece_.rows, piece_.hidden}), o = argument({piece_.rows, piece_.queries});
    give_gradient(product_of_rows(o, dx));
    give(narrow(product_turned(dx, argument({piece_.queries, piece_.hidden}))));
    const ValueId x = argument({piece_.rows, piece_.hidden});
    ValueId d_x{};
    const int64_t columns[] = {piece_.queries, piece_.key_values, piece_.key_values};
    for (int i = 0; i < 3; ++i) {
      ValueId d = argument({piece_.rows, columns[i]});
      if (i < 2 && piece_.features > 0) d = narrow(turned(wide(d)));
      give_gradient(product_of_rows(x, d));
      const ValueId back = product_turned(d, argument({piece_.hidden, columns[i]}));
      d_x = i == 0 ? back : plus(d_x, back);
    }
    give(narrow(d_x));
  }

  void attention_forward() {
    const ValueId q = heads_of(piece_.rows), k = heads_of(piece_.keys), v = values_of(piece_.keys);
    give(attended(q, k, v));
  }

  void attention_backward() {
    const ValueId q = heads_of(piece_.rows), k = heads_of(piece_.keys), v = values_of(piece_.keys);
    const ValueId made = values_of(piece_.rows), d_made = values_of(piece_.rows);
    for (const ValueId each : attended_backward(q, k, v, made, d_made)) give(each);
  }

  // -- halves of a block, between one meeting of ranks and the next; every value that the backward pass reads
  // is given by the forward pass, as it leaves the program that made it.
  void half_forward() {
    const int64_t width = piece_.compressed && piece_.query_rank > 0 ? piece_.query_rank : piece_.hidden;
    const ValueId in = piece_.normed ? residual_and_norm() : own_rows(width);
    if (piece_.again && piece_.part == Part::kMlpHalf)
      mlp_inside(in, piece_.inner);
    else
      give(piece_.part == Part::kMlpHalf ? mlp_of(in, piece_.inner) : attention_of(in));
  }

  // `d`: gradient of what the block adds to, and of what it adds (summed over ranks).
  void half_backward() {
    if (piece_.again && piece_.part == Part::kMlpHalf) {
      mlp_again_and_back();
      return;
    }
    const ValueId d_out = own_rows(piece_.hidden);
    const ValueId d_in =
        piece_.part == Part::kMlpHalf ? mlp_back(d_out, piece_.rows, piece_.inner) : attention_back(d_out);
    give(piece_.normed ? norm_and_residual_back(d_in) : d_in);
    if (piece_.again) give(attention_of(piece_.normed ? residual_and_norm() : own_rows(piece_.hidden)));
  }

  void norm_forward() { residual_and_norm(); }
  void norm_backward() { give(norm_and_residual_back(argument({piece_.rows, piece_.hidden}))); }

  // An MLP that runs forward again does so in the part that its backward pass is.
  void mlp_again_and_back() {
    const ValueId d_out = argument({piece_.rows, piece_.hidden});
    const auto token = [&] { return argument({piece_.rows, piece_.hidden}); };
    const ValueId x = piece_.normed ? plus(token(), token()) : token();
    const ValueId in = piece_.normed ? normed(x) : x;
    std::vector<ValueId> weights, made;
    for (int i = 0; i < (piece_.gated ? 2 : 1); ++i) {
      weights.push_back(weight({piece_.hidden, piece_.inner}));
      made.push_back(shifted(narrow(product(in, weights.back()))));
    }
    const ValueId up = wide(made[0]), gate = wide(made.back());
    const ValueId acted = narrow(piece_.gated ? times(silu(gate), up) : gelu(up));
    const ValueId d_acted = narrow(product_turned(d_out, weight({piece_.inner, piece_.hidden})));
    give_gradient(product_of_rows(acted, d_out));
    ValueId d_in{};
    const std::vector<ValueId> d_firsts = through_activation({made[0], made.back(), d_acted});
    for (size_t i = 0; i < d_firsts.size(); ++i) {
      give_gradients(in, d_firsts[i]);
      const ValueId back = narrow(product_turned(d_firsts[i], weights[i]));
      d_in = i == 0 ? back : plus(d_in, back);
    }
    give(piece_.normed ? norm_and_residual_back(x, d_in) : d_in);
  }

  ValueId attention_of(ValueId in) {
    const auto [q, k, v] = projections(in);
    return mixed_of(q, k, v);
  }

  std::array<ValueId, 3> projections(ValueId in) {
    if (piece_.kv_rank > 0) return latent_projections(in);
    const int64_t queries = piece_.heads * piece_.features, shared = piece_.kv_heads * piece_.features;
    // Products first, as the exported step has them.
    const auto placed = [&](ValueId x) { return piece_.rotary ? narrow(turned(wide(x))) : x; };
    ValueId q = projected(in, queries), k = projected(in, shared), v = projected(in, shared);
    q = placed(q), k = placed(k);
    if (piece_.window > 0) {
      q = given(heads_first(in_blocks(q, positions()), piece_.heads, piece_.window));
      if (piece_.part == Part::kBeforeKeys) return {q, given(k), given(v)};
      return {q, given(near_keys(k)), given(near_keys(v))};
    }
    q = given(heads_first(q, piece_.heads));
    if (piece_.context > 0) return {q, given(k), given(v)};
    k = for_queries(k, positions());
    v = for_queries(v, positions());
    return {q, given(k), given(v)};
  }

  // -- latent attention: queries, and keys with values, by way of fewer features, of which a norm is taken;
  // all heads have the same features of keys that have positions
  struct Compressed {
    ValueId of_queries, of_keys, placed;  // the last are features of keys that have positions
  };
  Compressed compressed_of(ValueId in) {
    const auto compressed = [&](ValueId x) { return given(normed(given(x))); };
    const ValueId of_queries = piece_.query_rank > 0 ? compressed(projected(in, piece_.query_rank)) : in;
    const ValueId down = projected(in, piece_.kv_rank + piece_.rope);
    return {of_queries, compressed(columns_of(down, 0, piece_.kv_rank)),
            columns_of(down, piece_.kv_rank, piece_.rope)};
  }
  std::array<ValueId, 3> latent_projections(ValueId in) {
    if (!piece_.compressed) return heads_of_compressed(compressed_of(in));
    const ValueId of_keys = argument({piece_.rows, piece_.kv_rank});
    return heads_of_compressed({in, of_keys, argument({piece_.rows, piece_.rope})});
  }
  void compress_forward() {
    const ValueId in = piece_.normed ? residual_and_norm() : argument({piece_.rows, piece_.hidden});
    give(compressed_of(in).placed);
  }
  // `piece_.rows` are half of a rank's; of the weights a core has gradients of half the columns, of all rows.
  void compress_backward() {
    const ValueId in = argument({2 * piece_.rows, piece_.hidden});
    ValueId d_in{};
    bool is_first = true;
    const auto through = [&](ValueId d) {
      const int64_t columns = builder_.type(d).dim(1);
      give_gradient(product_of_rows(in, argument({2 * piece_.rows, columns / 2})));
      const ValueId back = narrow(product_turned(d, weight({piece_.hidden, columns})));
      d_in = is_first ? back : plus(d_in, back);
      is_first = false;
    };
    const auto of_norm = [&](int64_t columns) { return norm_back(argument({piece_.rows, columns})); };
    if (piece_.query_rank > 0) through(given(of_norm(piece_.query_rank)));
    const ValueId placed = argument({piece_.rows, piece_.rope});
    through(given(concatenated({of_norm(piece_.kv_rank), narrow(turned(wide(placed), piece_.rope))})));
    give(piece_.normed ? norm_and_residual_back(d_in) : d_in);
  }
  std::array<ValueId, 3> heads_of_compressed(const Compressed& from) {
    const int64_t fixed = piece_.features - piece_.rope;
    const ValueId q = projected(from.of_queries, piece_.heads * piece_.features);
    const ValueId up = projected(from.of_keys, piece_.heads * (fixed + values()));
    const ValueId all_q = by_head(q, piece_.features), all_up = by_head(up, fixed + values());
    const Dims of_rope{piece_.rows, piece_.heads, piece_.rope};
    const ValueId turned_q =
        by_head(narrow(turned(wide(builder_.reshape(columns_of(all_q, fixed, piece_.rope),
                                                    {piece_.rows, piece_.heads * piece_.rope})),
                              piece_.rope)),
                piece_.rope);
    const ValueId turned_k = narrow(turned(wide(from.placed), piece_.rope));
    const ValueId q_heads = concatenated({columns_of(all_q, 0, fixed), turned_q});
    const ValueId k_heads =
        concatenated({columns_of(all_up, 0, fixed), builder_.broadcast_in_dim(turned_k, of_rope, {0, 2})});
    const ValueId v_heads = columns_of(all_up, fixed, values());
    if (piece_.context > 0) return {given(heads_first(q_heads)), given(k_heads), given(v_heads)};
    return {given(heads_first(q_heads)), given(heads_first(k_heads)), given(heads_first(v_heads))};
  }
  // Of what was read, from gradients of queries, keys and values of heads [rows, heads, features].
  ValueId latent_queries_back(ValueId in, ValueId d) {
    const int64_t fixed = piece_.features - piece_.rope;
    const ValueId d_turned = flat(columns_of(d, fixed, piece_.rope));
    const ValueId placed = by_head(narrow(turned(wide(d_turned), piece_.rope)), piece_.rope);
    const ValueId d_q = flat(concatenated({columns_of(d, 0, fixed), placed}));
    if (piece_.query_rank == 0) return back_by(in, d_q);
    const ValueId d_compressed = back_by(argument({piece_.rows, piece_.query_rank}), d_q);
    return piece_.compressed ? d_compressed : back_by(in, norm_back(d_compressed));
  }
  // Cores add up what they have of keys and values.
  void compressed_keys_back(ValueId d_k, ValueId d_v) {
    const int64_t fixed = piece_.features - piece_.rope;
    const ValueId d_up = flat(concatenated({columns_of(d_k, 0, fixed), d_v}));
    give(back_by(argument({piece_.rows, piece_.kv_rank}), d_up));
    give(builder_.reduce(OpKind::add_, columns_of(d_k, fixed, piece_.rope), {1}));
  }
  ValueId latent_keys_back(ValueId in, ValueId d_k, ValueId d_v) {
    const int64_t fixed = piece_.features - piece_.rope;
    const ValueId d_placed = builder_.reduce(OpKind::add_, columns_of(d_k, fixed, piece_.rope), {1});
    const ValueId d_up = flat(concatenated({columns_of(d_k, 0, fixed), d_v}));
    const ValueId d_compressed = norm_back(back_by(argument({piece_.rows, piece_.kv_rank}), d_up));
    return back_by(in, concatenated({d_compressed, narrow(turned(wide(d_placed), piece_.rope))}));
  }
  // The gradient of the weight by which `d` is of a product of `in`, and of `in`.
  ValueId back_by(ValueId in, ValueId d) {
    give_gradient(product_of_rows(in, d));
    return narrow(product_turned(d, weight({builder_.type(in).dim(1), builder_.type(d).dim(1)})));
  }
  ValueId flat(ValueId x) {
    const Dims dims = builder_.type(x).dims_vector();
    return builder_.reshape(x, {dims[0], dims[1] * dims[2]});
  }
  // Of the last dimension.
  ValueId columns_of(ValueId x, int64_t first, int64_t count) {
    Dims limits = builder_.type(x).dims_vector();
    Dims starts(limits.size(), 0);
    starts.back() = first;
    limits.back() = first + count;
    return builder_.slice(x, std::move(starts), std::move(limits));
  }
  ValueId concatenated(std::vector<ValueId> parts) {
    const int64_t last = builder_.type(parts[0]).rank() - 1;
    return builder_.concatenate(std::move(parts), last);
  }
  ValueId by_head(ValueId x, int64_t features) {
    return builder_.reshape(x, {piece_.rows, builder_.type(x).dim(1) / features, features});
  }
  ValueId of_rows(ValueId x) {
    const Dims dims = builder_.type(x).dims_vector();
    return builder_.reshape(transposed(x, {0, 2, 1, 3}), {dims[0] * dims[2], dims[1], dims[3]});
  }

  ValueId mixed_of(ValueId q, ValueId k, ValueId v) {
    const ValueId made = given(attended(q, k, v));
    const ValueId rows = heads_last(made);
    return summed_over_ranks(given(piece_.window > 0 ? of_blocks(rows, positions()) : rows));
  }

  // -- attention in windows: blocks as long as one, filled up, are as sequences, each with the keys of the
  // block before. Of rows, before heads are apart.
  // Cores with halves of sequences have half of the blocks.
  int64_t own_blocks() const { return positions() < piece_.keys ? blocks() / 2 : blocks(); }
  Dims by_block(int64_t blocks, int64_t positions, ValueId rows) {
    return {sequences(), blocks, positions, builder_.type(rows).dim(1)};
  }
  ValueId zeros(Dims dims) { return splat(Type::tensor(element_, std::move(dims)), 0); }
  ValueId as_blocks(ValueId rows, int64_t length) {
    const int64_t columns = builder_.type(rows).dim(1), all = part_up(length, piece_.window);
    if (all > length) {
      rows = builder_.reshape(rows, {sequences(), length, columns});
      rows = builder_.concatenate({rows, zeros({sequences(), all - length, columns})}, 1);
      rows = builder_.reshape(rows, {sequences() * all, columns});
    }
    return builder_.reshape(rows, by_block(all / piece_.window, piece_.window, rows));
  }
  static int64_t part_up(int64_t length, int64_t window) { return (length + window - 1) / window * window; }
  ValueId flat_rows(ValueId x) {
    const Dims dims = builder_.type(x).dims_vector();
    return builder_.reshape(x, {dims[0] * dims[1] * dims[2], dims[3]});
  }
  ValueId in_blocks(ValueId rows, int64_t length) { return flat_rows(as_blocks(rows, length)); }
  // What was filled up goes.
  ValueId of_blocks(ValueId rows, int64_t length) {
    const int64_t columns = builder_.type(rows).dim(1), all = part_up(length, piece_.window);
    if (all == length) return rows;
    rows = builder_.reshape(rows, {sequences(), all, columns});
    rows = builder_.slice(rows, {0, 0, 0}, {sequences(), length, columns});
    return builder_.reshape(rows, {sequences() * length, columns});
  }
  // The first ones, as many as the core has.
  ValueId own_part(ValueId by_blocks) {
    const Dims dims = builder_.type(by_blocks).dims_vector();
    if (dims[1] == own_blocks()) return by_blocks;
    return builder_.slice(by_blocks, {0, 0, 0, 0}, {dims[0], own_blocks(), dims[2], dims[3]});
  }
  // Keys or values of all rows: of own blocks, each with the one before, by head of queries.
  ValueId near_keys(ValueId rows) {
    const ValueId own = as_blocks(rows, piece_.keys);
    const ValueId last = builder_.slice(own, {0, 0, 0, 0}, by_block(blocks() - 1, piece_.window, rows));
    const ValueId before = builder_.concatenate({zeros(by_block(1, piece_.window, rows)), last}, 1);
    return for_queries(flat_rows(builder_.concatenate({own_part(before), own_part(own)}, 2)),
                       2 * piece_.window);
  }
  // Keys' gradients, of their own block and of the one behind.
  ValueId near_keys_back(ValueId d) {
    const int64_t window = piece_.window;
    const ValueId rows = of_keys(d);
    const ValueId both = builder_.reshape(rows, by_block(blocks(), 2 * window, rows));
    const ValueId before = builder_.slice(both, {0, 0, 0, 0}, by_block(blocks(), window, rows));
    const ValueId own = builder_.slice(both, {0, 0, window, 0}, by_block(blocks(), 2 * window, rows));
    return of_blocks(flat_rows(plus(own, from_behind(before))), piece_.keys);
  }
  ValueId from_behind(ValueId by_blocks) {
    Dims dims = builder_.type(by_blocks).dims_vector();
    const ValueId behind = builder_.slice(by_blocks, {0, 1, 0, 0}, dims);
    dims[1] = 1;
    return builder_.concatenate({behind, zeros(dims)}, 1);
  }
  Dims of_window(int64_t blocks, int64_t positions) const {
    return {sequences() * blocks, piece_.heads, positions, piece_.features};
  }
  // Of both parts of a block and the one before it, which another core may have.
  void give_near(ValueId d) {
    const Dims dims = of_window(own_blocks(), 2 * piece_.window);
    Dims limits = dims;
    limits[2] = piece_.window;
    give(builder_.slice(d, {0, 0, 0, 0}, limits));
    give(builder_.slice(d, {0, 0, piece_.window, 0}, dims));
  }
  ValueId near_of_all() {
    const ValueId own = of_keys(argument(of_window(own_blocks(), piece_.window)));
    const ValueId before = of_keys(argument(of_window(blocks(), piece_.window)));
    const ValueId shifted = from_behind(builder_.reshape(before, by_block(blocks(), piece_.window, before)));
    return plus(own, flat_rows(own_part(shifted)));
  }

  void keys_forward() { (void)projections(piece_.normed ? residual_and_norm() : own_rows(piece_.hidden)); }

  void queries_forward() {
    if (piece_.window > 0) {
      const ValueId q = argument(of_window(own_blocks(), piece_.window));
      const auto keys = [&] {
        return near_keys(argument({sequences() * piece_.keys, piece_.kv_heads * piece_.features}));
      };
      const ValueId k = given(keys());
      return give(mixed_of(q, k, given(keys())));
    }
    const ValueId q = argument(of_heads(positions())), k = keys_of_all(piece_.features);
    give(mixed_of(q, k, keys_of_all(values())));
  }

  // Keys or values of whole sequences, by head of queries: ranks gather them by head of keys.
  ValueId keys_of_all(int64_t features) {
    if (piece_.context == 0) return argument({sequences(), piece_.heads, piece_.keys, features});
    if (piece_.kv_rank > 0)
      return given(heads_first(argument({sequences() * piece_.keys, piece_.heads, features})));
    const ValueId all = argument({sequences() * piece_.keys, piece_.kv_heads * piece_.features});
    return given(for_queries(all, piece_.keys));
  }

  void queries_backward() {
    const ValueId d_out = own_rows(piece_.hidden);
    const auto [d_q, d_k, d_v] = attention_inside_back(d_out);
    if (piece_.kv_rank > 0) {
      for (const ValueId d : {d_k, d_v}) give(of_rows(d));
      give(latent_queries_back(argument({piece_.rows, piece_.hidden}), of_rows(d_q)));
      return;
    }
    const bool ends_by_row = piece_.context > 0 && !has_half_positions();
    for (const ValueId d : {d_k, d_v}) piece_.window > 0 ? give_near(d) : give(ends_by_row ? of_keys(d) : d);
    ValueId d = heads_last(d_q);
    if (piece_.rotary) d = narrow(turned(wide(d)));
    give(d);
    if (piece_.context > 0 && !piece_.halves) gradient(argument({piece_.rows, piece_.hidden}), d);
    give(narrow(product_turned(d, weight({piece_.hidden, piece_.heads * piece_.features}))));
  }

  void keys_backward() {
    ValueId d_in = argument({piece_.rows, piece_.hidden});  // by way of queries
    if (piece_.kv_rank > 0) {
      const auto of_heads = [&](int64_t features) { return argument({piece_.rows, piece_.heads, features}); };
      const ValueId d_k = of_heads(piece_.features), read = argument({piece_.rows, piece_.hidden});
      d_in = plus(d_in, latent_keys_back(read, d_k, of_heads(values())));
      give(piece_.normed ? norm_and_residual_back(d_in) : d_in);
      return;
    }
    const ValueId in = rows_read(piece_.hidden);
    if (piece_.context == 0 || piece_.halves)
      gradient(in, argument({piece_.rows, piece_.heads * piece_.features}));
    for (int i = 0; i < 2; ++i) {
      ValueId d = piece_.context > 0  ? scattered_keys()
                  : piece_.window > 0 ? near_of_all()
                                      : of_keys(argument(of_heads(positions())));
      if (i == 0 && piece_.rotary) d = narrow(turned(wide(d)));
      give(d);
      gradient(in, d);
      d_in = plus(d_in, narrow(product_turned(d, weight({piece_.hidden, builder_.type(d).dim(1)}))));
    }
    give(piece_.normed ? norm_and_residual_back(d_in) : d_in);
  }

  // What ranks that share sequences scatter of keys' gradients. Where cores have halves of positions, each
  // turns half of all of them to rows for that, and takes its own rows of what the rank gets.
  ValueId scattered_keys() {
    const int64_t columns = piece_.kv_heads * piece_.features;
    if (!has_half_positions()) return argument({piece_.rows, columns});
    give(of_keys(argument(of_heads(piece_.keys / 2))));
    const ValueId all = argument({2 * piece_.rows, columns}), place = argument({}, kIndex);
    return builder_.add(OpKind::dynamic_slice_, {all, place, none()},
                        {{Attr::slice_sizes, Attribute(Dims{piece_.rows, columns})}});
  }

  ValueId attention_back(ValueId d_out) {
    const auto d = attention_inside_back(d_out);
    if (piece_.kv_rank > 0) {
      if (piece_.compressed) {
        compressed_keys_back(of_rows(d[1]), of_rows(d[2]));
        const bool reads_tokens = piece_.query_rank == 0;
        return latent_queries_back(reads_tokens ? argument({piece_.rows, piece_.hidden}) : d[0],
                                   of_rows(d[0]));
      }
      const ValueId in = argument({piece_.rows, piece_.hidden});
      const ValueId of_keys = latent_keys_back(in, of_rows(d[1]), of_rows(d[2]));
      return plus(of_keys, latent_queries_back(in, of_rows(d[0])));
    }
    std::vector<ValueId> d_projected = {heads_last(d[0])};
    if (piece_.window > 0) d_projected[0] = of_blocks(d_projected[0], positions());
    for (const ValueId each : {d[1], d[2]})
      d_projected.push_back(piece_.window > 0 ? near_keys_back(each) : of_keys(each));
    for (int i = 0; i < 2; ++i)
      if (piece_.rotary) d_projected[i] = narrow(turned(wide(d_projected[i])));
    if (piece_.halves)
      for (const ValueId each : d_projected) give(each);
    return back_through(rows_read(piece_.hidden), d_projected);
  }

  std::array<ValueId, 3> attention_inside_back(ValueId d_out) {
    const int64_t columns = piece_.heads * values();
    const ValueId d_mixed = narrow(product_turned(d_out, weight({columns, piece_.hidden})));
    give_gradient(product_of_rows(rows_read(columns), of_all_rows(d_out)));
    Dims own = of_heads(positions()), all = of_heads(piece_.keys);
    if (piece_.window > 0) {
      own = of_window(own_blocks(), piece_.window);
      all = of_window(own_blocks(), 2 * piece_.window);
      const ValueId q = argument(own), k = argument(all), v = argument(all), made = argument(own);
      const ValueId d_made = heads_first(in_blocks(d_mixed, positions()), piece_.heads, piece_.window);
      return attended_backward(q, k, v, made, d_made);
    }
    const ValueId q = argument(own), k = argument(all);
    own.back() = all.back() = values();
    const ValueId v = argument(all), made = argument(own);
    return attended_backward(q, k, v, made, heads_first(d_mixed, piece_.heads));
  }

  // Of a core with halves: where ranks have gathered all, it takes its own.
  ValueId own_rows(int64_t columns) {
    const Dims own{piece_.rows, columns};
    if (!piece_.selects) return argument(own);
    const ValueId all = argument({2 * piece_.rows, columns}), place = argument({}, kIndex);
    return builder_.add(OpKind::dynamic_slice_, {all, place, none()}, {{Attr::slice_sizes, Attribute(own)}});
  }

  // What weights that read it have gradients by: of all rows, but of the weights a half.
  ValueId rows_read(int64_t columns) {
    return piece_.halves ? argument({2 * piece_.rows, columns / 2}) : argument({piece_.rows, columns});
  }
  ValueId of_all_rows(ValueId d) {
    return piece_.halves ? argument({2 * piece_.rows, builder_.type(d).dim(1)}) : d;
  }
  void gradient(ValueId in, ValueId d) { give_gradients(in, of_all_rows(d)); }

  // Gradients of weights that read `in`, and of `in`, from those of what they gave.
  ValueId back_through(ValueId in, const std::vector<ValueId>& d_outs) {
    ValueId d_in{};
    for (size_t i = 0; i < d_outs.size(); ++i) {
      gradient(in, d_outs[i]);
      const ValueId read = weight({piece_.hidden, builder_.type(d_outs[i]).dim(1)});
      const ValueId back = narrow(product_turned(d_outs[i], read));
      d_in = i == 0 ? back : plus(d_in, back);
    }
    return d_in;
  }

  int64_t sequences() const { return piece_.rows / positions(); }
  Dims of_heads(int64_t positions) const { return {sequences(), piece_.heads, positions, piece_.features}; }

  // [rows, heads of a row] to [sequences, heads, positions, features], and back.
  ValueId heads_first(ValueId x, int64_t heads) { return heads_first(x, heads, positions()); }
  ValueId heads_first(ValueId x, int64_t heads, int64_t positions) {
    const int64_t features = builder_.type(x).dim(1) / heads;
    const int64_t count = builder_.type(x).dim(0) / positions;
    return transposed(builder_.reshape(x, {count, positions, heads, features}), {0, 2, 1, 3});
  }
  ValueId heads_first(ValueId x) {
    const Dims dims = builder_.type(x).dims_vector();
    return transposed(builder_.reshape(x, {sequences(), dims[0] / sequences(), dims[1], dims[2]}),
                      {0, 2, 1, 3});
  }
  ValueId heads_last(ValueId x) {
    const Dims dims = builder_.type(x).dims_vector();
    return builder_.reshape(transposed(x, {0, 2, 1, 3}), {dims[0] * dims[2], dims[1] * dims[3]});
  }
  // Keys or values, one for each head of queries that meets them, heads first; and the sum of their
  // gradients. Where the rank has queries of some heads of keys that others of them meet elsewhere, a number
  // says for each head of keys where queries of the next one begin.
  ValueId for_queries(ValueId x, int64_t positions) {
    if (!is_shared()) return heads_first(x, piece_.heads, positions);
    const int64_t count = builder_.type(x).dim(0) / positions;
    const Dims one{count, positions, piece_.kv_heads, piece_.features};
    if (piece_.shared > 0) return transposed(met_heads(builder_.reshape(x, one)), {0, 2, 1, 3});
    x = builder_.broadcast_in_dim(builder_.reshape(x, one), by_meeting(count, positions), {0, 1, 2, 4});
    x = builder_.reshape(x, {count, positions, piece_.kv_heads * each_meets(), piece_.features});
    return transposed(x, {0, 2, 1, 3});
  }
  // Of queries [sequences, positions, heads, features], whether each meets a head of keys before the next
  // one.
  ValueId meets_before(const Dims& dims, ValueId next) {
    const ValueId number = builder_.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(int64_t{0})}},
                                        {Type::tensor(kIndex, {dims[2]})});
    const ValueId all = builder_.broadcast_in_dim(next, {dims[2]}, {});
    return builder_.broadcast_in_dim(builder_.compare(graph::ComparisonDirection::kLt, number, all), dims,
                                     {2});
  }
  ValueId met_heads(ValueId x) {
    Dims dims = builder_.type(x).dims_vector();
    const auto head = [&](int64_t i) {
      const ValueId one = builder_.slice(x, {0, 0, i, 0}, {dims[0], dims[1], i + 1, dims[3]});
      const Dims all{dims[0], dims[1], piece_.heads, dims[3]};
      return builder_.broadcast_in_dim(builder_.reshape(one, {dims[0], dims[1], dims[3]}), all, {0, 1, 3});
    };
    ValueId met = head(piece_.kv_heads - 1);
    for (int64_t i = piece_.kv_heads - 1; i-- > 0;) {
      const ValueId own = head(i);
      met = builder_.add(OpKind::select_,
                         {meets_before(builder_.type(met).dims_vector(), argument({}, kIndex)), own, met});
    }
    return met;
  }
  ValueId met_heads_back(ValueId d) {
    const Dims dims = builder_.type(d).dims_vector();
    std::vector<ValueId> parts;
    const auto add = [&](ValueId of_head) {
      parts.push_back(
          builder_.reshape(builder_.reduce(OpKind::add_, of_head, {2}), {dims[0], dims[1], 1, dims[3]}));
    };
    for (int64_t i = 0; i + 1 < piece_.kv_heads; ++i) {
      const ValueId before = meets_before(dims, argument({}, kIndex)), zero = splat(d, 0);
      add(builder_.add(OpKind::select_, {before, d, zero}));
      d = builder_.add(OpKind::select_, {before, zero, d});
    }
    add(d);
    return builder_.concatenate(std::move(parts), 2);
  }
  ValueId of_keys(ValueId d) {
    if (!is_shared()) return heads_last(d);
    const int64_t count = builder_.type(d).dim(0), positions = builder_.type(d).dim(2);
    const int64_t rows = count * positions;
    d = transposed(d, {0, 2, 1, 3});
    if (piece_.shared > 0)
      return builder_.reshape(met_heads_back(d), {rows, piece_.kv_heads * piece_.features});
    const ValueId sum = builder_.reduce(OpKind::add_, builder_.reshape(d, by_meeting(count, positions)), {3});
    return builder_.reshape(sum, {rows, piece_.kv_heads * piece_.features});
  }
  bool is_shared() const { return piece_.kv_heads != piece_.heads || piece_.shared > 0; }
  Dims by_meeting(int64_t sequences, int64_t positions) const {
    return {sequences, positions, piece_.kv_heads, each_meets(), piece_.features};
  }
  int64_t each_meets() const { return piece_.heads / piece_.kv_heads; }

  // One new token of each sequence: its keys and values lie in a cache of `keys` positions already.
  void decode() {
    const int64_t n = piece_.rows, groups = piece_.kv_heads, shared = piece_.heads / groups;
    const int64_t features = piece_.features, s = piece_.keys;
    ValueId x = argument({n, piece_.hidden});
    const ValueId in = normed(x);
    const ValueId q = product(in, argument({piece_.hidden, piece_.heads * features}));
    give(narrow(product(in, argument({piece_.hidden, groups * features}))));
    give(narrow(product(in, argument({piece_.hidden, groups * features}))));
    const ValueId k = argument({n, s, groups, features}), v = argument({n, s, groups, features});
    const Dims scores_dims{n, groups, shared, s};
    ValueId scores =
        dot(narrow(builder_.reshape(q, {n, groups, shared, features})), {0, 1}, 3, k, {0, 2}, 3, scores_dims);
    scores = times(scores, splat(scores, 1 / std::sqrt(double(features))));
    const auto over = [&](ValueId value) { return builder_.broadcast_in_dim(value, scores_dims, {0, 1, 2}); };
    const ValueId raised = builder_.add(
        OpKind::exponential_, {minus(scores, over(builder_.reduce(OpKind::maximum_, scores, {3})))});
    const ValueId shares =
        builder_.add(OpKind::divide_, {raised, over(builder_.reduce(OpKind::add_, raised, {3}))});
    const ValueId made = dot(narrow(shares), {0, 1}, 3, v, {0, 2}, 1, {n, groups, shared, features});
    const ValueId mixed = narrow(builder_.reshape(made, {n, piece_.heads * features}));
    // Attention's sum over ranks stands between this and the MLP; the work is the same.
    x = narrow(plus(wide(x), product(mixed, argument({piece_.heads * features, piece_.hidden}))));
    const ValueId y = normed(x);
    if (piece_.inner == 0) {  // experts stand behind it
      give(y);
      return;
    }
    const ValueId up = product(y, argument({piece_.hidden, piece_.inner}));
    const ValueId acted =
        piece_.gated ? times(silu(product(y, argument({piece_.hidden, piece_.inner}))), up) : gelu(up);
    give(narrow(product(narrow(acted), argument({piece_.inner, piece_.hidden}))));
  }

  // Adam on weights and moments in float32, and the weights as products read them.
  void optimizer() {
    for (int64_t i = 0; i < std::max<int64_t>(1, piece_.heads); ++i) update({piece_.rows, piece_.hidden});
  }
};

}  // namespace

graph::Module graph_of(const Piece& piece) {
  switch (piece.part) {
    case Part::kRoute:
    case Part::kExperts:
    case Part::kCombine:
    case Part::kMixture:
    case Part::kCounts:
    case Part::kPlaces: return graph_of_experts(piece);
    case Part::kJointAttention:
    case Part::kJointMlp:
    case Part::kJointNorm:
    case Part::kJointStart:
    case Part::kVelocity: return graph_of_streams(piece);
    case Part::kFetch:
    case Part::kKeep:
    case Part::kLoopTest: return graph_of_ticks(piece);
    case Part::kOutput:
    case Part::kEmbedding:
    case Part::kPatches:
    case Part::kSum:
    case Part::kLogits:
    case Part::kShares:
    case Part::kLogitsBackward: return graph_of_ends(piece);
    default: return Sheet(piece).run();
  }
}

}  // namespace opentrn::planner::compiled
