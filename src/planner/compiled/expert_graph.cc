// A block's experts, cut where tokens go to them and where they come back: the router, the choice of experts
// and of places, and the gather of tokens; the products of a rank's experts; and what a token gets of its
// experts. Written out as the exported step has it, backward passes as automatic differentiation of that.
#include <utility>
#include <vector>

#include "base/fault.h"
#include "planner/compiled/piece_words.h"

namespace opentrn::planner::compiled {
namespace {

class ExpertSheet : PieceWords {
 public:
  explicit ExpertSheet(const Piece& piece) : PieceWords(piece) {}

  graph::Module run() {
    for (int i = 0; i < (piece_.paired ? 2 : 1); ++i) make();
    return finished();
  }

 private:
  void make() {
    switch (piece_.part) {
      case Part::kRoute:
        if (piece_.halves)
          piece_.backward ? tokens_backward() : choice();
        else
          piece_.backward ? route_backward() : route();
        break;
      case Part::kMixture: piece_.backward ? mixture_backward() : mixture(); break;
      case Part::kCounts: counts(); break;
      case Part::kPlaces: piece_.backward ? places_backward() : filled_places(); break;
      case Part::kExperts: piece_.backward ? experts_backward() : experts(); break;
      case Part::kCombine:
        if (piece_.backward)
          piece_.halves ? choice_backward() : combine_backward();
        else
          combine();
        break;
      default: OPENTRN_CHECK(false, "not a part of experts");
    }
    update_weights();
  }

  // -- the router, and tokens to the places of their experts
  void route() {
    const ValueId in = read();
    const auto [shares, chosen, experts] = shared_out(in);
    give(rows_of(in, table_of(placed(shares, chosen, beside(counted(experts))))));
    // Experts that every token meets, while those of the others go to theirs.
    if (piece_.shared == 0) return;
    if (piece_.again)
      mlp_inside(in, piece_.shared);
    else
      give(mlp_of(in, piece_.shared));
  }

  // -- all of it, of a rank that has all experts: tokens wait for nobody
  struct Mixture {
    ValueId x, in, shares, chosen, tokens, up, gate, acted, made, token, share;
    std::vector<ValueId> places;  // of each choice
  };
  void mixture() {
    const Mixture from = mixed(read());
    if (piece_.again) return;
    give(combined(from.made, from.places, from.shares, from.in));
  }
  Mixture mixed(ValueId in) {
    Mixture made;
    made.in = in;
    const auto [shares, chosen, experts] = shared_out(in);
    made.shares = shares, made.chosen = chosen;
    const auto placed_at = placed(shares, chosen, beside(counted(experts)), &made.places);
    const ValueId table = scattered(placed_at.first, placed_at.second);
    made.share = given(builder_.reshape(builder_.slice(table, {0, 1}, {places(), 2}), {places()}));
    made.token = given(
        builder_.convert(builder_.reshape(builder_.slice(table, {0, 0}, {places(), 1}), {places()}), kIndex));
    made.tokens = given(builder_.reshape(rows_of(in, made.token), each(piece_.hidden)));
    made.up = given(of_each(made.tokens, into()));
    if (piece_.gated) {
      made.gate = given(of_each(made.tokens, into()));
      made.acted = given(narrow(times(silu(wide(made.gate)), wide(made.up))));
    } else {
      made.gate = made.up;
      made.acted = given(narrow(gelu(wide(made.up))));
    }
    const ValueId out = of_each(made.acted, out_of());
    made.made = given(builder_.reshape(out, {places(), piece_.hidden}));
    return made;
  }
  ValueId combined(ValueId made, const std::vector<ValueId>& places, ValueId shares, ValueId in) {
    ValueId sum{};
    for (size_t i = 0; i < places.size(); ++i) {
      const auto [row, there] = row_by_choice(made, places[i]);
      const ValueId by = times(there, column(shares, static_cast<int64_t>(i)));
      const ValueId one = times(wide(row), along_columns_of(by, piece_.hidden));
      sum = i == 0 ? one : plus(sum, one);
    }
    sum = narrow(sum);
    return piece_.shared > 0 ? plus(sum, mlp_of(in, piece_.shared)) : sum;
  }
  // What its forward pass gave, or gives where the block runs again in this part.
  Mixture mixture_before() {
    Mixture from;
    const auto token = [&] { return argument({piece_.rows, piece_.hidden}); };
    if (piece_.again) {
      const ValueId x = piece_.normed ? plus(token(), token()) : token();
      from = mixed(piece_.normed ? normed(x) : x);
      from.x = x;
      if (piece_.shared > 0) give(mlp_inside(from.in, piece_.shared));
      return from;
    }
    const Dims by_choice{piece_.rows, piece_.chosen};
    from.in = token();
    from.shares = argument(by_choice, kReal), from.chosen = argument(by_choice, kReal);
    for (int64_t i = 0; i < piece_.chosen; ++i) from.places.push_back(argument({piece_.rows, 1}, kIndex));
    from.token = argument({places()}, kIndex), from.share = argument({places()}, kReal);
    from.tokens = argument(each(piece_.hidden));
    from.up = argument(each(piece_.inner));
    from.gate = piece_.gated ? argument(each(piece_.inner)) : from.up;
    from.acted = argument(each(piece_.inner));
    from.made = argument({places(), piece_.hidden});
    return from;
  }
  void mixture_backward() {
    const ValueId d_out = argument({piece_.rows, piece_.hidden});
    const Mixture from = mixture_before();
    const std::vector<ValueId> all = barred({from.made, from.token, from.share, d_out});
    const ValueId d_wide = wide(all[3]);
    const ValueId d_made = narrow(times(wide(rows_of(all[3], all[1])),
                                        builder_.broadcast_in_dim(all[2], {places(), piece_.hidden}, {0})));
    std::vector<ValueId> d_shares;
    for (const ValueId place : from.places) {
      const auto [row, there] = row_by_choice(all[0], place);
      d_shares.push_back(times(builder_.reduce(OpKind::add_, times(wide(row), d_wide), {1}), there));
    }
    ValueId d_in = back_to_tokens(experts_back(from, builder_.reshape(d_made, each(piece_.hidden))), from);
    const ValueId d_logits = narrow(d_logits_of(from.shares, from.chosen, beside(d_shares)));
    give_gradients(from.in, d_logits);
    if (piece_.shared > 0) d_in = plus(d_in, mlp_back(d_out, piece_.rows, piece_.shared));
    d_in = plus(d_in, narrow(product_turned(d_logits, weight({piece_.hidden, piece_.experts}))));
    if (!piece_.normed) return give(d_in);
    give(piece_.again ? norm_and_residual_back(from.x, d_in) : norm_and_residual_back(d_in));
  }
  ValueId experts_back(const Mixture& from, ValueId d_made) {
    const ValueId d_acted = narrow(turned_each(d_made, weight(out_of())));
    give_gradients_each(from.acted, d_made);
    const std::vector<ValueId> d_firsts = through_activation({from.up, from.gate, d_acted});
    ValueId d_tokens{};
    for (size_t i = 0; i < d_firsts.size(); ++i) {
      give_gradients_each(from.tokens, d_firsts[i]);
      const ValueId back = narrow(turned_each(d_firsts[i], weight(into())));
      d_tokens = i == 0 ? back : plus(d_tokens, back);
    }
    return builder_.reshape(d_tokens, {places(), piece_.hidden});
  }
  ValueId back_to_tokens(ValueId d_places, const Mixture& from) {
    ValueId d_in{};
    for (size_t i = 0; i < from.places.size(); ++i) {
      const auto [row, there] = row_by_choice(d_places, from.places[i]);
      const ValueId one = times(wide(row), along_columns_of(there, piece_.hidden));
      d_in = i == 0 ? one : plus(d_in, one);
    }
    return narrow(d_in);
  }
  Dims each(int64_t columns) const { return {piece_.experts, places() / piece_.experts, columns}; }

  ValueId read() { return piece_.normed ? residual_and_norm() : argument({piece_.rows, piece_.hidden}); }
  struct Choice {
    ValueId shares, chosen;
    std::vector<ValueId> experts;  // `chosen` by choice
  };
  Choice shared_out(ValueId in) {
    const ValueId logits = wide(shifted(narrow(product(in, weight({piece_.hidden, piece_.experts})))));
    const auto [tops, experts] = chosen(logits);
    std::vector<ValueId> raised;
    ValueId total{};
    for (const ValueId top : tops) {
      raised.push_back(builder_.add(OpKind::exponential_, {minus(top, tops[0])}));
      total = raised.size() == 1 ? raised[0] : plus(total, raised.back());
    }
    for (ValueId& each : raised) each = builder_.add(OpKind::divide_, {each, total});
    const ValueId shares = given(beside(raised));
    const ValueId chosen = given(beside(experts));
    return {shares, chosen, experts};
  }

  // -- of a core with half of a rank's tokens (decision 0251): what they choose, and where they go; what is
  // at each place, of which a core reads a part of each row; and the same backward
  void choice() {
    const ValueId in = read();
    const auto [shares, chosen, experts] = shared_out(in);
    if (piece_.context > 0)
      give(met(hot_of(experts)));
    else
      give_places(placed(shares, chosen, beside(counted(experts))));
  }
  // Where tokens of the other core come before the own ones of each sequence.
  void counts() {
    const Dims dims{piece_.rows, piece_.chosen};
    const ValueId shares = argument(dims, kReal), chosen = argument(dims, kReal);
    std::vector<ValueId> experts;
    for (int64_t i = 0; i < piece_.chosen; ++i) experts.push_back(column(chosen, i));
    const ValueId meets = argument({sequences(), piece_.keys, piece_.experts}, ElementType::kBF16);
    give_places(placed(shares, chosen, beside(counted(experts, meets))));
  }
  void give_places(const std::pair<ValueId, ValueId>& placed) {
    give(builder_.reshape(placed.first, {builder_.type(placed.first).dim(0), 1}));
    give(placed.second);
  }
  void filled_places() {
    const int64_t choices = kHalves * piece_.rows * piece_.chosen;
    const ValueId place = argument({choices, 1}, kIndex), rows = argument({choices, 2}, kReal);
    const ValueId token = table_of({place, rows});
    give(rows_of(argument({kHalves * piece_.rows, piece_.hidden / kHalves}), token));
  }

  void choice_backward() {
    const ValueId d_out = argument({piece_.rows, piece_.hidden});
    const std::vector<ValueId> all = barred_of_places(d_out);
    const ValueId d_wide = wide(all[3]);
    std::vector<ValueId> d_shares;
    for (int64_t i = 0; i < piece_.chosen; ++i) d_shares.push_back(d_share(all[0], d_wide));
    for (size_t i = 1; i < all.size(); ++i) give(all[i]);
    const ValueId d_logits = narrow(d_logits_of(beside(d_shares)));
    give(d_logits);
    give(narrow(product_turned(d_logits, weight({piece_.hidden, piece_.experts}))));
  }
  void places_backward() {
    const int64_t rows = kHalves * piece_.rows, columns = piece_.hidden / kHalves;
    const ValueId token = argument({places()}, kIndex), d = argument({rows, columns});
    const ValueId share = argument({places()}, kReal);
    give(narrow(times(wide(rows_of(d, token)), builder_.broadcast_in_dim(share, {places(), columns}, {0}))));
    give_gradient(product_of_rows(argument({rows, columns}), argument({rows, piece_.experts})));
  }
  void tokens_backward() {
    const ValueId d_in =
        plus(d_tokens(argument({places(), piece_.hidden})), argument({piece_.rows, piece_.hidden}));
    give(piece_.normed ? norm_and_residual_back(d_in) : d_in);
  }

  // The largest logit of each token first: logits, and which they are.
  std::pair<std::vector<ValueId>, std::vector<ValueId>> chosen(ValueId logits) {
    std::vector<ValueId> tops, experts;
    const ValueId counted = iota(builder_.type(logits).dims_vector(), 1);
    ValueId left = logits;
    for (int64_t i = 0; i < piece_.chosen; ++i) {
      tops.push_back(builder_.reduce(OpKind::maximum_, left, {1}));
      const ValueId is_top = equal(left, along_columns(tops.back(), left));
      experts.push_back(builder_.reduce(
          OpKind::minimum_, select(is_top, counted, splat(counted, double(piece_.experts))), {1}));
      left = select(equal(counted, along_columns(experts.back(), left)), splat(left, kMasked), left);
    }
    return {tops, experts};
  }

  std::vector<ValueId> hot_of(const std::vector<ValueId>& experts) {
    const Dims by_expert{sequences(), length(), piece_.experts}, by_token{sequences(), length()};
    const ValueId counted = iota(by_expert, 2);
    std::vector<ValueId> hot;
    for (const ValueId expert : experts)
      hot.push_back(
          equal(counted, builder_.broadcast_in_dim(builder_.reshape(expert, by_token), by_expert, {0, 1})));
    return hot;
  }
  ValueId met(const std::vector<ValueId>& hot) {
    ValueId meets{};
    for (size_t i = 0; i < hot.size(); ++i) {
      const ValueId one = builder_.convert(hot[i], ElementType::kBF16);
      meets = i == 0 ? one : plus(meets, one);
    }
    return meets;
  }

  // Of each choice, how many tokens before its own meet that expert. `all`: what all tokens of a sequence
  // meet, where it is more than those.
  std::vector<ValueId> counted(const std::vector<ValueId>& experts, std::optional<ValueId> all = {}) {
    const std::vector<ValueId> hot = hot_of(experts);
    const ValueId meets = all ? *all : met(hot);
    const Dims square{length(), piece_.keys};
    const auto index = [&](int64_t dimension) { return iota(square, dimension, kIndex); };
    const ValueId earlier = builder_.convert(
        builder_.compare(graph::ComparisonDirection::kGt, index(0), index(1)), ElementType::kBF16);
    ValueId before = dot(earlier, {}, 1, meets, {}, 1, {length(), sequences(), piece_.experts});
    before = builder_.transpose(before, {1, 0, 2});
    std::vector<ValueId> counts;
    for (const ValueId each : hot) {
      const ValueId of_expert = builder_.reduce(OpKind::add_, select(each, before, splat(before, 0)), {2});
      counts.push_back(builder_.reshape(of_expert, {piece_.rows}));
    }
    return counts;
  }

  // Of each choice its place, and its token and share.
  std::pair<ValueId, ValueId> placed(ValueId shares, ValueId chosen, ValueId before,
                                     std::vector<ValueId>* of_choices = nullptr) {
    const int64_t choices = piece_.rows * piece_.chosen;
    const Dims dims{piece_.rows, piece_.chosen};
    const ValueId sequence = builder_.reshape(iota({sequences(), length(), piece_.chosen}, 0), dims);
    ValueId place = times(chosen, splat(chosen, double(all_sequences())));
    place = plus(place, sequence);
    place = plus(times(place, splat(place, double(piece_.capacity))), before);
    const ValueId behind =
        plus(iota({choices}, 0, kIndex), splat(Type::tensor(kIndex, {choices}), double(places())));
    const ValueId fits =
        builder_.compare(graph::ComparisonDirection::kLt, before, splat(before, double(piece_.capacity)));
    place = select(builder_.reshape(fits, {choices}),
                   builder_.convert(builder_.reshape(place, {choices}), kIndex), behind);
    const ValueId by_choice = builder_.reshape(place, dims);
    if (of_choices)
      for (int64_t i = 0; i < piece_.chosen; ++i)
        of_choices->push_back(given(builder_.slice(by_choice, {0, i}, {piece_.rows, i + 1})));
    else
      give_columns(by_choice);
    if (!of_choices) give_columns(shares);
    const ValueId token = builder_.reshape(iota(dims, 0), {choices, 1});
    return {place, builder_.concatenate({token, builder_.reshape(shares, {choices, 1})}, 1)};
  }

  // By place, which token is there; and its share, of which the backward pass has need.
  ValueId table_of(const std::pair<ValueId, ValueId>& placed) {
    const ValueId table = scattered(placed.first, placed.second);
    give(builder_.reshape(builder_.slice(table, {0, 1}, {places(), 2}), {places()}));
    return given(
        builder_.convert(builder_.reshape(builder_.slice(table, {0, 0}, {places(), 1}), {places()}), kIndex));
  }

  ValueId scattered(ValueId place, ValueId rows) {
    const ValueId table = splat(Type::tensor(kReal, {places(), 2}), 0);
    const Type scalar = Type::scalar(kReal);
    const graph::RegionBody replace{{scalar, scalar}, [](Builder&, std::span<const ValueId> arguments) {
                                      return std::vector{arguments[1]};
                                    }};
    const graph::OpId made = builder_.add_with_regions(
        OpKind::scatter_, {table, builder_.reshape(place, {builder_.type(place).dim(0), 1}), rows},
        {{Attr::update_window_dims, Attribute(Dims{1})},
         {Attr::inserted_window_dims, Attribute(Dims{0})},
         {Attr::scatter_dims_to_operand_dims, Attribute(Dims{0})},
         {Attr::index_vector_dim, Attribute(int64_t{1})},
         {Attr::unique_indices, Attribute(true)}},
        {builder_.type(table)}, {replace});
    return function_.op(made).results[0];
  }

  // Gradients of places come back to their tokens, and those of shares to the router.
  void route_backward() {
    ValueId d_in = d_tokens(argument({places(), piece_.hidden}));
    const ValueId d_logits = narrow(d_logits_of(argument({piece_.rows, piece_.chosen}, kReal)));
    const ValueId in = argument({piece_.rows, piece_.hidden});
    give_gradients(in, d_logits);
    if (piece_.shared > 0) d_in = plus(d_in, argument({piece_.rows, piece_.hidden}));
    d_in = plus(d_in, narrow(product_turned(d_logits, weight({piece_.hidden, piece_.experts}))));
    give(piece_.normed ? norm_and_residual_back(d_in) : d_in);
  }
  // Of tokens, from those of their places.
  ValueId d_tokens(ValueId d_places) {
    ValueId d_in{};
    for (int64_t i = 0; i < piece_.chosen; ++i) {
      const auto [row, there] = row_by_choice(d_places, argument({piece_.rows, 1}, kIndex));
      const ValueId each = times(wide(row), along_columns_of(there, piece_.hidden));
      d_in = i == 0 ? each : plus(d_in, each);
    }
    return narrow(d_in);
  }
  // Of the router's logits, from those of shares.
  ValueId d_logits_of(ValueId d_shares) {
    const Dims dims{piece_.rows, piece_.chosen};
    const ValueId shares = argument(dims, kReal);
    return d_logits_of(shares, argument(dims, kReal), d_shares);
  }
  ValueId d_logits_of(ValueId of_shares, ValueId chosen, ValueId d_shares) {
    const std::vector<ValueId> all = barred({of_shares, chosen, d_shares});
    const ValueId shares = all[0], experts = all[1], d = all[2];
    const ValueId sum = builder_.reduce(OpKind::add_, times(shares, d), {1});
    const ValueId d_tops = times(shares, minus(d, along_columns(sum, d)));
    const Dims by_expert{piece_.rows, piece_.experts};
    const ValueId counted = iota(by_expert, 1);
    ValueId d_logits{};
    for (int64_t i = 0; i < piece_.chosen; ++i) {
      const ValueId is_it = equal(counted, builder_.broadcast_in_dim(column(experts, i), by_expert, {0}));
      const ValueId each =
          select(is_it, builder_.broadcast_in_dim(column(d_tops, i), by_expert, {0}), splat(counted, 0));
      d_logits = i == 0 ? each : plus(d_logits, each);
    }
    return d_logits;
  }

  // -- the products of a rank's experts, `rows` tokens each
  void experts() {
    const ValueId in = argument({piece_.experts, piece_.rows, piece_.hidden});
    const ValueId up = given(of_each(in, into()));
    ValueId acted{};
    if (piece_.gated) {
      const ValueId gate = given(of_each(in, into()));
      acted = times(silu(wide(gate)), wide(up));
    } else {
      acted = gelu(wide(up));
    }
    give(of_each(kept(acted), out_of()));
  }

  void experts_backward() {
    const auto inside = [&] { return argument({piece_.experts, piece_.rows, piece_.inner}); };
    const ValueId d_out = argument({piece_.experts, piece_.rows, piece_.hidden});
    const ValueId in = argument({piece_.experts, piece_.rows, piece_.hidden});
    const ValueId given_up = inside();
    const ValueId given_acted = narrow(turned_each(d_out, weight(out_of())));
    give_gradients_each(inside(), d_out);
    const std::vector<ValueId> d_firsts =
        through_activation({given_up, piece_.gated ? inside() : given_up, given_acted});
    ValueId d_in{};
    for (size_t i = 0; i < d_firsts.size(); ++i) {
      give_gradients_each(in, d_firsts[i]);
      const ValueId back = narrow(turned_each(d_firsts[i], weight(into())));
      d_in = i == 0 ? back : plus(d_in, back);
    }
    give(d_in);
  }

  // -- what a token gets
  void combine() {
    const ValueId made = argument({places(), piece_.hidden});
    ValueId sum{};
    for (int64_t i = 0; i < piece_.chosen; ++i) {
      const auto [row, there] = row_by_choice(made, argument({piece_.rows, 1}, kIndex));
      const ValueId by = times(there, builder_.reshape(argument({piece_.rows, 1}, kReal), {piece_.rows}));
      const ValueId each = times(wide(row), along_columns_of(by, piece_.hidden));
      sum = i == 0 ? each : plus(sum, each);
    }
    sum = narrow(sum);
    give(piece_.shared > 0 ? plus(sum, argument({piece_.rows, piece_.hidden})) : sum);
  }

  void combine_backward() {
    const ValueId d_out = argument({piece_.rows, piece_.hidden});
    const std::vector<ValueId> all = barred_of_places(d_out);
    const ValueId made = all[0], token = all[1], share = all[2], d = all[3], d_wide = wide(d);
    give(narrow(
        times(wide(rows_of(d, token)), builder_.broadcast_in_dim(share, {places(), piece_.hidden}, {0}))));
    std::vector<ValueId> d_shares;
    for (int64_t i = 0; i < piece_.chosen; ++i) d_shares.push_back(d_share(made, d_wide));
    give(beside(d_shares));
    if (piece_.shared > 0) give(mlp_back(d_out, piece_.rows, piece_.shared));
  }
  std::vector<ValueId> barred_of_places(ValueId d_out) {
    return barred({argument({places(), piece_.hidden}), argument({places()}, kIndex),
                   argument({places()}, kReal), d_out});
  }
  ValueId d_share(ValueId made, ValueId d_wide) {
    const auto [row, there] = row_by_choice(made, argument({piece_.rows, 1}, kIndex));
    return times(builder_.reduce(OpKind::add_, times(wide(row), d_wide), {1}), there);
  }

  // -- words
  static constexpr int64_t kHalves = 2;
  // Of cores: sequences of their own, or the same tokens of each of all.
  bool cuts_sequences() const { return piece_.halves && piece_.context > 0; }
  int64_t length() const { return cuts_sequences() ? piece_.keys / kHalves : piece_.keys; }
  int64_t sequences() const { return piece_.rows / length(); }
  int64_t all_sequences() const {
    return piece_.halves && !cuts_sequences() ? kHalves * sequences() : sequences();
  }
  int64_t places() const { return piece_.experts * all_sequences() * piece_.capacity; }
  Dims into() const { return {piece_.experts, piece_.hidden, piece_.inner}; }
  Dims out_of() const { return {piece_.experts, piece_.inner, piece_.hidden}; }
  ValueId iota(const Dims& dims, int64_t dimension, ElementType element = kReal) {
    return builder_.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(dimension)}},
                        {Type::tensor(element, dims)});
  }
  ValueId equal(ValueId x, ValueId y) { return builder_.compare(graph::ComparisonDirection::kEq, x, y); }
  ValueId select(ValueId which, ValueId x, ValueId y) { return builder_.add(OpKind::select_, {which, x, y}); }
  ValueId column(ValueId x, int64_t at) {
    return builder_.reshape(builder_.slice(x, {0, at}, {builder_.type(x).dim(0), at + 1}), {piece_.rows});
  }
  ValueId beside(const std::vector<ValueId>& columns) {
    std::vector<ValueId> each;
    for (const ValueId value : columns) each.push_back(builder_.reshape(value, {piece_.rows, 1}));
    return each.size() == 1 ? each[0] : builder_.concatenate(each, 1);
  }
  ValueId along_columns_of(ValueId rows, int64_t columns) {
    return builder_.broadcast_in_dim(rows, {piece_.rows, columns}, {0});
  }
  ValueId rows_of(ValueId x, ValueId index) {
    return builder_.add(OpKind::gather_, {x, index},
                        {{Attr::offset_dims, Attribute(Dims{1})},
                         {Attr::collapsed_slice_dims, Attribute(Dims{0})},
                         {Attr::start_index_map, Attribute(Dims{0})},
                         {Attr::index_vector_dim, Attribute(int64_t{1})},
                         {Attr::slice_sizes, Attribute(Dims{1, builder_.type(x).dim(1)})}});
  }
  // As the parts behind this one read what each choice has.
  void give_columns(ValueId x) {
    for (int64_t i = 0; i < piece_.chosen; ++i)
      give(builder_.slice(x, {0, i}, {builder_.type(x).dim(0), i + 1}));
  }
  // The row of each token's choice, and whether there is one: 0 or 1.
  std::pair<ValueId, ValueId> row_by_choice(ValueId x, ValueId place) {
    const ValueId at = builder_.reshape(place, {piece_.rows}), last = splat(at, double(places() - 1));
    const ValueId there = builder_.compare(graph::ComparisonDirection::kLe, at, last);
    return {rows_of(x, builder_.add(OpKind::minimum_, {at, last})), builder_.convert(there, kReal)};
  }
  // A product of every expert, and its bias.
  ValueId of_each(ValueId x, const Dims& dims) {
    const ValueId made = narrow(product_each(x, weight(dims)));
    if (!piece_.biased) return made;
    const ValueId bias = weight({piece_.experts, dims[2]});
    return plus(made, builder_.broadcast_in_dim(bias, builder_.type(made).dims_vector(), {0, 2}));
  }
  void give_gradients_each(ValueId in, ValueId d) {
    give_gradient(rows_each(in, d));
    if (piece_.biased) give_gradient(builder_.reduce(OpKind::add_, wide(d), {1}));
  }
  ValueId product_each(ValueId x, ValueId weight) {
    return dot(x, {0}, 2, weight, {0}, 1,
               {piece_.experts, builder_.type(x).dim(1), builder_.type(weight).dim(2)});
  }
  ValueId turned_each(ValueId x, ValueId weight) {
    return dot(x, {0}, 2, weight, {0}, 2,
               {piece_.experts, builder_.type(x).dim(1), builder_.type(weight).dim(1)});
  }
  ValueId rows_each(ValueId x, ValueId y) {
    return dot(x, {0}, 1, y, {0}, 1, {piece_.experts, builder_.type(x).dim(2), builder_.type(y).dim(2)});
  }
};

}  // namespace

graph::Module graph_of_experts(const Piece& piece) { return ExpertSheet(piece).run(); }

}  // namespace opentrn::planner::compiled
