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
    switch (piece_.part) {
      case Part::kJointAttention: piece_.backward ? attention_backward() : attention_forward(); break;
      case Part::kJointMlp: piece_.backward ? mlp_backward() : mlp_forward(); break;
      case Part::kJointStart: piece_.backward ? start_backward() : start_forward(); break;
      case Part::kVelocity: velocity(); break;
      default: OPENTRN_CHECK(false, "not a part of two streams");
    }
    return finished();
  }

 private:
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
  ValueId flat(ValueId x) {
    const Dims dims = builder_.type(x).dims_vector();
    return builder_.reshape(x, {dims[0] * dims[1], dims[2]});
  }
  ValueId by_sequence(ValueId rows) {
    const Dims dims = builder_.type(rows).dims_vector();
    return builder_.reshape(rows, {sequences(), dims[0] / sequences(), dims[1]});
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
  ValueId modulated(ValueId x) {
    const Unit made = unit(wide(flat(x)));
    const ValueId scale = made_of_time();
    const ValueId by = of_tokens(plus(splat(scale, 1), scale), x);
    return plus(times(by_sequence(narrow(made.normal)), by), of_tokens(made_of_time(), x));
  }
  ValueId modulated_back(ValueId x, ValueId d) {
    const std::vector<ValueId> barriers = barred({x, d});
    const Unit made = unit(wide(flat(barriers[0])));
    const ValueId slope = wide(barriers[1]), scale = wide(made_of_time());
    give(sum_of_tokens(slope));
    give(sum_of_tokens(times(slope, by_sequence(made.normal))));
    const ValueId of_normal = times(slope, of_tokens(plus(splat(scale, 1), scale), slope));
    return narrow(by_sequence(norm_slope(made, flat(of_normal))));
  }
  // `d_in`: of what both streams' norms gave.
  void half_back(const Both& d_in) {
    const ValueId d = argument(of_all(piece_.hidden));
    const Both x = parts(argument(of_all(piece_.hidden)));
    const ValueId sum = plus(d, both({modulated_back(x[0], d_in[0]), modulated_back(x[1], d_in[1])}));
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
    give_gradients(in, d);
    return narrow(product_turned(d, argument({piece_.hidden, builder_.type(d).dim(1)})));
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
    Both in = parts(residual());
    for (ValueId& each : in) each = given(flat(modulated(each)));
    std::array<Both, 3> made;
    for (size_t s = 0; s < in.size(); ++s)
      for (Both& each : made) each[s] = by_sequence(projected(in[s], columns()));
    std::array<ValueId, 3> of{};
    for (size_t i = 0; i < of.size(); ++i) of[i] = given(heads_first(both(made[i])));
    Both mixed = parts(given(heads_last(given(attended(of[0], of[1], of[2])))));
    for (ValueId& each : mixed) each = by_sequence(summed_over_ranks(flat(each)));
    give(both(mixed));
  }
  void attention_backward() {
    Both d = parts(argument(of_all(piece_.hidden)));
    const Both mixed = parts(argument(of_all(columns())));
    for (size_t s = 0; s < d.size(); ++s) {
      give_gradient(product_of_rows(flat(mixed[s]), flat(d[s])));
      d[s] = by_sequence(narrow(product_turned(flat(d[s]), argument({columns(), piece_.hidden}))));
    }
    const ValueId q = of_heads(), k = of_heads(), v = of_heads(), made = of_heads();
    const auto inside = attended_backward(q, k, v, made, heads_first(both(d)));
    std::array<Both, 3> of;
    for (size_t i = 0; i < of.size(); ++i) of[i] = parts(heads_last(inside[i]));
    for (size_t s = 0; s < d.size(); ++s) {
      const ValueId in = argument({sequences() * tokens(s), piece_.hidden});
      for (size_t i = 0; i < of.size(); ++i) {
        const ValueId back = back_into(in, flat(of[i][s]));
        d[s] = i == 0 ? back : plus(d[s], back);
      }
      d[s] = by_sequence(d[s]);
    }
    half_back(d);
  }

  // -- the MLPs
  void mlp_forward() {
    Both in = parts(residual());
    for (ValueId& each : in) each = mlp_inside(given(flat(modulated(each))), piece_.inner);
    if (piece_.again) return;
    for (ValueId& each : in) each = by_sequence(summed_over_ranks(each));
    give(both(in));
  }
  void mlp_backward() {
    Both read{};
    if (piece_.again) {  // the passes forward are one part with this one
      read = parts(residual());
      for (ValueId& each : read) each = flat(modulated(each));
    }
    Both d = parts(argument(of_all(piece_.hidden)));
    for (size_t s = 0; s < d.size(); ++s) {
      const int64_t rows = sequences() * tokens(s);
      const ValueId d_out = flat(d[s]);
      const ValueId in = piece_.again ? read[s] : argument({rows, piece_.hidden});
      const ValueId up = piece_.again ? projected(in, piece_.inner) : argument({rows, piece_.inner});
      const ValueId acted = piece_.again ? narrow(gelu(wide(up))) : argument({rows, piece_.inner});
      const ValueId d_acted = narrow(product_turned(d_out, argument({piece_.inner, piece_.hidden})));
      give_gradient(product_of_rows(acted, d_out));
      d[s] = by_sequence(back_into(in, through_activation({up, up, d_acted})[0]));
    }
    half_back(d);
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
    for (size_t s = 0; s < made.size(); ++s) {
      const ValueId in = flat(given_tokens(s));
      made[s] = biased(by_sequence(narrow(product(in, argument({builder_.type(in).dim(1), piece_.hidden})))));
    }
    const ValueId where = argument({tokens(0), piece_.hidden});
    made[0] = plus(made[0], builder_.broadcast_in_dim(where, of_stream(0, piece_.hidden), {1, 2}));
    give(both(made));
  }
  void start_backward() {
    const Both d = parts(argument(of_all(piece_.hidden)));
    for (size_t s = 0; s < d.size(); ++s) {
      const int64_t features = s == 0 ? piece_.inner : piece_.key_values;
      give_gradients(argument({sequences() * tokens(s), features}), flat(d[s]));
    }
  }
  void velocity() {
    const Both x = parts(argument(of_all(piece_.hidden)));
    const ValueId in = flat(modulated(x[0]));
    const ValueId found = wide(projected(in, piece_.inner));
    const ValueId off = minus(found, wide(argument(builder_.type(found).dims_vector())));
    give(builder_.reduce(OpKind::add_, times(off, off), {0, 1}));
    const ValueId back = by_sequence(back_into(in, narrow(times(off, splat(off, 1e-3)))));
    const ValueId d = modulated_back(x[0], back);
    give(both({d, splat(x[1], 0)}));
  }
};

}  // namespace

graph::Module graph_of_streams(const Piece& piece) { return StreamsSheet(piece).run(); }

}  // namespace opentrn::planner::compiled
