// Blocks of two streams, patches and text, which have weights of their own and attend to each other, and the
// ends of such a model: as the exported step has them (src/cli/plan_export_streams.py).
#include <array>
#include <vector>

#include "base/fault.h"
#include "planner/compiled/attention_words.h"

namespace opentrn::planner::compiled {
namespace {

using Both = std::array<ValueId, 2>;  // of patches, and of text

class StreamsSheet : AttentionWords {
 public:
  explicit StreamsSheet(const Piece& piece) : AttentionWords(piece) {}

  graph::Module run() {
    for (int i = 0; i < (piece_.paired ? 2 : 1); ++i) make();
    return finished();
  }

 private:
  void make() {
    switch (piece_.part) {
      case Part::kJointAttention: piece_.backward ? attention_backward() : attention_forward(); break;
      case Part::kJointMlp: piece_.backward ? mlp_backward() : mlp_forward(); break;
      case Part::kJointNorm: piece_.backward ? norm_backward() : norm_forward(); break;
      case Part::kJointStart: piece_.backward ? start_backward() : start_forward(); break;
      case Part::kVelocity: velocity(); break;
      default: OPENTRN_CHECK(false, "not a part of two streams");
    }
    for (int stream = 0; stream < 2; ++stream) update_weights();
  }

  int64_t sequences() const { return piece_.rows / piece_.keys; }
  int64_t tokens(size_t stream) const { return stream == 1 ? piece_.text : piece_.keys - piece_.text; }
  Dims of_all(int64_t columns) const { return {sequences(), piece_.keys, columns}; }
  Dims of_stream(size_t stream, int64_t columns) const { return {sequences(), tokens(stream), columns}; }

  Both parts(ValueId x) {
    const Dims all = builder_.type(x).dims_vector();
    Dims first = all;
    first[1] = tokens(0);
    return {builder_.slice(x, {0, 0, 0}, first), builder_.slice(x, {0, tokens(0), 0}, all)};
  }
  ValueId both(const Both& x) { return builder_.concatenate({x[0], x[1]}, 1); }
  // Products of [sequences, tokens, numbers], as the step has them.
  ValueId dot3(ValueId a, Dims of_a, ValueId b, Dims of_b, Dims dims) {
    return narrow(builder_.add(OpKind::dot_general_, {a, b},
                               {{Attr::lhs_batching_dimensions, Attribute(Dims{})},
                                {Attr::rhs_batching_dimensions, Attribute(Dims{})},
                                {Attr::lhs_contracting_dimensions, Attribute(std::move(of_a))},
                                {Attr::rhs_contracting_dimensions, Attribute(std::move(of_b))}},
                               {Type::tensor(kReal, std::move(dims))}));
  }
  ValueId by_weight(ValueId x, int64_t columns) {
    const Dims dims = builder_.type(x).dims_vector();
    return dot3(x, {2}, argument({dims[2], columns}), {0}, {dims[0], dims[1], columns});
  }
  ValueId back_by_weight(ValueId d, int64_t rows) {
    const Dims dims = builder_.type(d).dims_vector();
    return dot3(d, {2}, argument({rows, dims[2]}), {1}, {dims[0], dims[1], rows});
  }
  void give_weight_gradient(ValueId in, ValueId d) {
    give_gradient(dot3(in, {0, 1}, d, {0, 1}, {builder_.type(in).dim(2), builder_.type(d).dim(2)}));
  }
  // Of each sequence, for all of its tokens.
  ValueId made_of_time() { return argument({sequences(), 1, piece_.hidden}); }
  ValueId of_tokens(ValueId x, ValueId like) {
    return builder_.broadcast_in_dim(x, builder_.type(like).dims_vector(), {0, 1, 2});
  }
  ValueId biased(ValueId x) {
    const Dims dims = builder_.type(x).dims_vector();
    return plus(x, builder_.broadcast_in_dim(argument({dims[2]}), dims, {2}));
  }
  ValueId sum_of_tokens(ValueId real) {
    const ValueId sum = narrow(builder_.reduce(OpKind::add_, real, {1}));
    return builder_.reshape(sum, {sequences(), 1, piece_.hidden});
  }

  // -- what a half of a block begins with: what the half before it has made, by its gate, and a norm of that.
  ValueId residual() {
    const ValueId x = argument(of_all(piece_.hidden));
    Both made = parts(argument(of_all(piece_.hidden)));
    for (ValueId& each : made) {
      each = given(biased(each));
      each = times(each, of_tokens(made_of_time(), each));
    }
    const ValueId sum = plus(x, both(made));
    give(sum);
    return sum;
  }
  ValueId mean_of(ValueId x) {
    const ValueId sum = builder_.reduce(OpKind::add_, x, {2});
    return times(sum, splat(sum, 1.0 / double(piece_.hidden)));
  }
  ValueId of_numbers(ValueId rows, ValueId like) {
    return builder_.broadcast_in_dim(rows, builder_.type(like).dims_vector(), {0, 1});
  }
  Unit unit_of(ValueId x) {
    x = minus(x, of_numbers(mean_of(x), x));
    const ValueId square = mean_of(times(x, x));
    const ValueId root = builder_.add(OpKind::rsqrt_, {plus(square, splat(square, kEpsilon))});
    return {times(x, of_numbers(root, x)), root};
  }
  ValueId modulated(ValueId x) {
    const Unit made = unit_of(wide(x));
    const ValueId scale = made_of_time();
    const ValueId by = of_tokens(plus(splat(scale, 1), scale), x);
    return plus(times(narrow(made.normal), by), of_tokens(made_of_time(), x));
  }
  ValueId modulated_back(ValueId x, ValueId d) {
    const std::vector<ValueId> barriers = barred({x, d});
    const Unit made = unit_of(wide(barriers[0]));
    const ValueId slope = wide(barriers[1]), scale = wide(made_of_time());
    give(sum_of_tokens(slope));
    give(sum_of_tokens(times(slope, made.normal)));
    const ValueId of_normal = times(slope, of_tokens(plus(splat(scale, 1), scale), slope));
    ValueId inner =
        minus(of_normal, times(made.normal, of_numbers(mean_of(times(of_normal, made.normal)), x)));
    inner = minus(inner, of_numbers(mean_of(of_normal), x));
    return narrow(times(inner, of_numbers(made.root, x)));
  }
  // -- where cores have halves of the rows, this stands alone
  Both streams() { return {argument(of_stream(0, piece_.hidden)), argument(of_stream(1, piece_.hidden))}; }
  void norm_forward() {
    const Both x = parts(residual());
    for (size_t s = 0; s < x.size(); ++s) give(modulated(own_half(s, x[s])));
  }
  // Of one sequence: gates are of all tokens, whose streams lie in one sequence, and norms of a core's
  // halves.
  void norm_backward() {
    if (!piece_.selects) return half_back(streams());
    const ValueId d = argument(of_all(piece_.hidden));
    for (size_t s = 0; s < 2; ++s) {
      const Dims own{sequences(), own_tokens(s), piece_.hidden};
      const ValueId x = argument(own);
      give(modulated_back(x, argument(own)));
    }
    gates_back(plus(d, both(streams())));
  }
  int64_t own_tokens(size_t stream) const {
    return piece_.selects && tokens(stream) % 2 == 0 ? tokens(stream) / 2 : tokens(stream);
  }
  ValueId own_half(size_t stream, ValueId x) {
    if (own_tokens(stream) == tokens(stream)) return x;
    const Dims own{sequences(), own_tokens(stream), piece_.hidden};
    return given(builder_.add(OpKind::dynamic_slice_, {x, none(), argument({}, kIndex), none()},
                              {{Attr::slice_sizes, Attribute(own)}}));
  }
  // `d_in`: of what both streams' norms gave.
  void half_end(const Both& d_in) {
    if (piece_.normed) return half_back(d_in);
    for (const ValueId each : d_in) give(each);
  }
  void half_back(const Both& d_in) {
    const ValueId d = argument(of_all(piece_.hidden));
    const Both x = parts(argument(of_all(piece_.hidden)));
    gates_back(plus(d, both({modulated_back(x[0], d_in[0]), modulated_back(x[1], d_in[1])})));
  }
  void gates_back(ValueId sum) {
    give(sum);
    Both made = parts(sum);
    for (size_t s = 0; s < made.size(); ++s) {
      const ValueId y = argument(of_stream(s, piece_.hidden));
      give(sum_of_tokens(times(wide(made[s]), wide(y))));
      made[s] = times(made[s], of_tokens(made_of_time(), made[s]));
      give_gradient(builder_.reduce(OpKind::add_, wide(made[s]), {0, 1}));
    }
    give(both(made));
  }
  // Through a product of what the norm gave, with a bias.
  ValueId back_into(ValueId in, ValueId d) {
    give_weight_gradient(in, d);
    give_gradient(builder_.reduce(OpKind::add_, wide(d), {0, 1}));
    return back_by_weight(d, piece_.hidden);
  }

  // -- attention
  int64_t columns() const { return piece_.heads * piece_.features; }
  ValueId heads_first(ValueId x) {
    return transposed(builder_.reshape(x, {sequences(), piece_.keys, piece_.heads, piece_.features}),
                      {0, 2, 1, 3});
  }
  ValueId heads_last(ValueId x) { return builder_.reshape(transposed(x, {0, 2, 1, 3}), of_all(columns())); }
  ValueId of_heads() { return argument({sequences(), piece_.heads, piece_.keys, piece_.features}); }

  void attention_forward() {
    // A block that runs again begins with what it was given.
    Both in = !piece_.normed ? streams() : parts(piece_.again ? argument(of_all(piece_.hidden)) : residual());
    if (piece_.normed)
      for (ValueId& each : in) each = given(modulated(each));
    std::array<Both, 3> made;
    for (size_t s = 0; s < in.size(); ++s)
      for (Both& each : made) each[s] = biased(by_weight(in[s], columns()));
    std::array<ValueId, 3> of{};
    for (size_t i = 0; i < of.size(); ++i) of[i] = given(heads_first(both(made[i])));
    Both mixed = parts(given(heads_last(given(attended(of[0], of[1], of[2])))));
    for (ValueId& each : mixed) each = by_weight(each, piece_.hidden);
    give(both(mixed));
  }
  // What weights' gradients are of: where cores have sequences of their own, those of both, and a half of
  // what the weights read.
  Dims of_both_cores(size_t stream, int64_t columns) const {
    return {2 * sequences(), tokens(stream), columns};
  }
  ValueId read_by_weight(size_t stream, int64_t columns) {
    return argument(piece_.halves ? of_both_cores(stream, columns / 2) : of_stream(stream, columns));
  }
  ValueId of_all_sequences(size_t stream, ValueId d) {
    return piece_.halves ? argument(of_both_cores(stream, builder_.type(d).dim(2))) : d;
  }
  void attention_backward() {
    Both d = parts(argument(of_all(piece_.hidden)));
    const Both mixed = piece_.halves ? Both{read_by_weight(0, columns()), read_by_weight(1, columns())}
                                     : parts(argument(of_all(columns())));
    for (size_t s = 0; s < d.size(); ++s) {
      give_weight_gradient(mixed[s], of_all_sequences(s, d[s]));
      d[s] = back_by_weight(d[s], columns());
    }
    const ValueId q = of_heads(), k = of_heads(), v = of_heads(), made = of_heads();
    const auto inside = attended_backward(q, k, v, made, heads_first(both(d)));
    std::array<Both, 3> of;
    for (size_t i = 0; i < of.size(); ++i) of[i] = parts(heads_last(inside[i]));
    for (size_t s = 0; s < d.size(); ++s) {
      const ValueId in = read_by_weight(s, piece_.hidden);
      for (size_t i = 0; i < of.size(); ++i) {
        give_weight_gradient(in, of_all_sequences(s, of[i][s]));
        give_gradient(builder_.reduce(OpKind::add_, wide(of[i][s]), {0, 1}));
        const ValueId back = back_by_weight(of[i][s], piece_.hidden);
        d[s] = i == 0 ? back : plus(d[s], back);
      }
    }
    half_end(d);
  }

  // -- the MLPs
  void mlp_forward() {
    Both in = piece_.normed ? parts(residual()) : streams();
    for (ValueId& each : in) {
      each = given(biased(by_weight(piece_.normed ? given(modulated(each)) : each, piece_.inner)));
      each = kept(gelu(wide(each)));
    }
    if (piece_.again) return;
    for (ValueId& each : in) each = by_weight(each, piece_.hidden);
    give(both(in));
  }
  void mlp_backward() {
    Both read{};
    if (piece_.again) {  // the passes forward are one part with this one
      read = piece_.normed ? parts(residual()) : streams();
      if (piece_.normed)
        for (ValueId& each : read) each = modulated(each);
    }
    Both d = parts(argument(of_all(piece_.hidden)));
    for (size_t s = 0; s < d.size(); ++s) {
      const auto inside = [&] { return argument(of_stream(s, piece_.inner)); };
      const ValueId in = piece_.again ? read[s] : argument(of_stream(s, piece_.hidden));
      const ValueId up = piece_.again ? biased(by_weight(in, piece_.inner)) : inside();
      const ValueId acted = piece_.again ? narrow(gelu(wide(up))) : inside();
      const ValueId d_acted = back_by_weight(d[s], piece_.inner);
      give_weight_gradient(acted, d[s]);
      d[s] = back_into(in, through_activation({up, up, d_acted})[0]);
    }
    half_end(d);
  }

  // -- the ends: tokens of patches and of text, and the distance to what is looked for, both ways
  ValueId given_tokens(size_t stream) {
    const Dims dims = of_stream(stream, stream == 0 ? piece_.inner : piece_.key_values);
    if (!piece_.selects) return argument(dims);
    constexpr int64_t kMicroBatches = 4;
    const Dims one{1, dims[0], dims[1], dims[2]};
    const ValueId all = argument({kMicroBatches, dims[0], dims[1], dims[2]});
    const ValueId own = builder_.reshape(
        builder_.add(OpKind::dynamic_slice_, {all, argument({}, kIndex), none(), none(), none()},
                     {{Attr::slice_sizes, Attribute(one)}}),
        dims);
    give(own);
    return own;
  }
  void start_forward() {
    Both made{};
    for (size_t s = 0; s < made.size(); ++s) made[s] = biased(by_weight(given_tokens(s), piece_.hidden));
    const ValueId where = argument({tokens(0), piece_.hidden});
    made[0] = plus(made[0], builder_.broadcast_in_dim(where, of_stream(0, piece_.hidden), {1, 2}));
    give(both(made));
  }
  void start_backward() {
    const Both d = parts(argument(of_all(piece_.hidden)));
    for (size_t s = 0; s < d.size(); ++s) {
      give_weight_gradient(argument(of_stream(s, s == 0 ? piece_.inner : piece_.key_values)), d[s]);
      give_gradient(builder_.reduce(OpKind::add_, wide(d[s]), {0, 1}));
    }
  }
  void velocity() {
    const Both x = parts(argument(of_all(piece_.hidden)));
    const ValueId in = modulated(x[0]);
    const ValueId found = wide(biased(by_weight(in, piece_.inner)));
    const ValueId off = minus(found, wide(argument(builder_.type(found).dims_vector())));
    give(builder_.reduce(OpKind::add_, times(off, off), {0, 1, 2}));
    const ValueId back = back_into(in, narrow(times(off, splat(off, 1e-3))));
    const ValueId d = modulated_back(x[0], back);
    give(both({d, splat(x[1], 0)}));
  }
};

}  // namespace

graph::Module graph_of_streams(const Piece& piece) { return StreamsSheet(piece).run(); }

}  // namespace opentrn::planner::compiled
