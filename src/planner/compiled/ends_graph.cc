// A model's ends: tokens looked up in a table, the output layer and the loss; and what becomes of gradients
// outside of blocks.
#include <vector>

#include "base/fault.h"
#include "planner/compiled/piece_words.h"

namespace opentrn::planner::compiled {
namespace {

class EndsSheet : PieceWords {
 public:
  explicit EndsSheet(const Piece& piece) : PieceWords(piece) {}

  graph::Module run() {
    for (int i = 0; i < (piece_.paired ? 2 : 1); ++i) make();
    return finished();
  }

 private:
  void make() {
    switch (piece_.part) {
      case Part::kOutput: piece_.backward ? output_and_loss() : output_forward(); break;
      case Part::kEmbedding: piece_.backward ? lookup_backward() : lookup(); break;
      case Part::kPatches: piece_.backward ? patches_backward() : patches_forward(); break;
      case Part::kSum: sum_of_all(); break;
      case Part::kLogits: logits(); break;
      case Part::kShares: shares(); break;
      case Part::kLogitsBackward: logits_backward(); break;
      default: OPENTRN_CHECK(false, "not a part of a model's ends");
    }
  }

  // -- the output layer and the loss where ranks share the vocabulary: they meet for the largest logit of a
  // row, for the sum of its powers, and for its label's.
  void logits() {
    ValueId x = argument({piece_.rows, piece_.hidden});
    if (piece_.normed) give(x = normed(x));
    const ValueId made = wide(narrow(piece_.turned ? product_turned(x, table()) : product(x, table())));
    give(made);
    give(builder_.reduce(OpKind::maximum_, made, {1}));
    give(builder_.reduce(OpKind::add_,
                         builder_.add(OpKind::select_, {label_mask(made), made, splat(made, 0)}), {1}));
  }

  void shares() {
    const ValueId logits = argument({piece_.rows, piece_.inner}, kReal);
    const ValueId raised = builder_.add(
        OpKind::exponential_, {minus(logits, along_columns(argument({piece_.rows}, kReal), logits))});
    give(raised);
    give(builder_.reduce(OpKind::add_, raised, {1}));
  }

  void logits_backward() {
    const ValueId raised = argument({piece_.rows, piece_.inner}, kReal);
    const ValueId factor = along_columns(argument({piece_.rows}, kReal), raised);
    const ValueId one = builder_.convert(label_mask(raised), kReal);
    const ValueId d = narrow(minus(times(raised, factor), times(one, splat(one, 1e-3))));
    const ValueId in = argument({piece_.rows, piece_.hidden});
    give_gradient(piece_.turned ? product_of_rows(d, in) : product_of_rows(in, d));
    const ValueId back = narrow(piece_.turned ? product(d, table()) : product_turned(d, table()));
    give(piece_.normed ? norm_back(back) : back);
    loss();
  }

  // Of the sums that ranks met for: a few numbers for each token, sequence by sequence.
  void loss() {
    const Dims dims = of_tokens();
    const auto each = [&] { return argument({dims[0], dims[1]}, kReal); };
    const ValueId logarithm = builder_.add(OpKind::log_, {each()}), largest = each();
    give(builder_.reduce(OpKind::add_, minus(plus(logarithm, largest), each()), {0, 1}));
  }

  ValueId table() {
    return argument(piece_.turned ? Dims{piece_.inner, piece_.hidden} : Dims{piece_.hidden, piece_.inner});
  }

  ValueId label_mask(ValueId like) {
    const Dims dims = builder_.type(like).dims_vector();
    return builder_.compare(graph::ComparisonDirection::kEq, numbers(dims),
                            builder_.broadcast_in_dim(argument({piece_.rows}, kIndex), dims, {0}));
  }
  // Of a vocabulary. A core of two counts them from where its part begins.
  ValueId numbers(const Dims& dims) {
    const auto counted = [&](Dims of, int64_t dimension) {
      return builder_.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(dimension)}},
                          {Type::tensor(kIndex, std::move(of))});
    };
    if (!piece_.halves) return counted(dims, 1);
    const ValueId first = builder_.broadcast_in_dim(argument({}, kIndex), {dims[1]}, {});
    return builder_.broadcast_in_dim(plus(counted({dims[1]}, 0), first), dims, {1});
  }

  void output_forward() {
    const ValueId x = normed(argument({piece_.rows, piece_.hidden}));
    give(product(x, argument({piece_.hidden, piece_.inner})));
  }

  void output_and_loss() {
    const Unit made = unit(wide(argument({piece_.rows, piece_.hidden})));
    const ValueId scale = along_rows(vector(piece_.hidden));
    const ValueId x = narrow(times(made.normal, scale));
    const ValueId table = argument({piece_.hidden, piece_.inner});
    const ValueId logits = product(x, table);
    const ValueId labels = argument({piece_.rows}, kIndex);
    const ValueId largest = builder_.reduce(OpKind::maximum_, logits, {1});
    const ValueId raised =
        builder_.add(OpKind::exponential_, {minus(logits, along_columns(largest, logits))});
    const ValueId sum = builder_.reduce(OpKind::add_, raised, {1});
    const Dims dims = builder_.type(logits).dims_vector();
    const ValueId column = builder_.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(int64_t{1})}},
                                        {Type::tensor(kIndex, dims)});
    const ValueId is_label = builder_.compare(graph::ComparisonDirection::kEq, column,
                                              builder_.broadcast_in_dim(labels, dims, {0}));
    const ValueId one = builder_.convert(is_label, kReal);
    give(minus(plus(builder_.add(OpKind::log_, {sum}), largest),
               builder_.reduce(OpKind::add_, times(one, logits), {1})));
    const ValueId shares = builder_.add(OpKind::divide_, {raised, along_columns(sum, logits)});
    const ValueId d = narrow(minus(shares, one));
    give_gradient(product_of_rows(x, d));
    const ValueId of_normal = product_turned(d, table);
    give_gradient(builder_.reduce(OpKind::add_, times(of_normal, made.normal), {0}));
    give(narrow(norm_slope(made, times(of_normal, scale))));
  }

  // Rows of the table, by tokens of sequences.
  void lookup() {
    const ValueId table = argument({piece_.inner, piece_.hidden}), rows = tokens();
    const ValueId found = builder_.add(OpKind::gather_, {table, rows},
                                       {{Attr::offset_dims, Attribute(Dims{2})},
                                        {Attr::collapsed_slice_dims, Attribute(Dims{0})},
                                        {Attr::start_index_map, Attribute(Dims{0})},
                                        {Attr::index_vector_dim, Attribute(int64_t{2})},
                                        {Attr::slice_sizes, Attribute(Dims{1, piece_.hidden})}});
    give(piece_.values > 0 ? plus(found, of_positions(builder_.type(found).dims_vector())) : found);
  }
  // Learned positions, of which a table has more than a sequence.
  ValueId of_positions(const Dims& like) {
    const ValueId own =
        builder_.slice(argument({piece_.values, piece_.hidden}), {0, 0}, {like[1], piece_.hidden});
    return builder_.broadcast_in_dim(own, like, {1, 2});
  }
  void give_positions_gradient(ValueId d) {
    const ValueId sum = narrow(builder_.reduce(OpKind::add_, wide(d), {0}));
    const int64_t more = piece_.values - builder_.type(sum).dim(0);
    const auto padded = [&] {
      return builder_.add(OpKind::pad_, {sum, splat(Type::scalar(element_), 0)},
                          {{Attr::edge_padding_low, Attribute(Dims{0, 0})},
                           {Attr::edge_padding_high, Attribute(Dims{more, 0})},
                           {Attr::interior_padding, Attribute(Dims{0, 0})}});
    };
    give_gradient(more > 0 ? padded() : sum);
  }
  // [sequences, positions, 1]
  Dims of_tokens() const {
    const int64_t length = piece_.keys > 0 && piece_.rows % piece_.keys == 0 ? piece_.keys : piece_.rows;
    return {piece_.rows / length, length, 1};
  }
  ValueId tokens() {
    Dims dims = of_tokens();
    dims.pop_back();
    if (!piece_.selects) return along_vectors(argument(dims, kIndex), dims);
    // Of one of several micro-batches, a few: with the label of the last one.
    constexpr int64_t kMicroBatches = 4;
    const Dims with_label{dims[0], dims[1] + 1}, one{1, dims[0], dims[1] + 1};
    const ValueId all = argument({kMicroBatches, one[1], one[2]}, kIndex);
    const ValueId own = builder_.add(OpKind::dynamic_slice_, {all, argument({}, kIndex), none(), none()},
                                     {{Attr::slice_sizes, Attribute(one)}});
    const ValueId rows = builder_.slice(builder_.reshape(own, with_label), {0, 0}, dims);
    give(rows);
    return along_vectors(rows, dims);
  }
  ValueId along_vectors(ValueId rows, Dims dims) {
    dims.push_back(1);
    return builder_.broadcast_in_dim(rows, std::move(dims), {0, 1});
  }

  // Their gradients added to a table of zeros.
  void lookup_backward() {
    const ValueId table = splat(Type::tensor(element_, {piece_.inner, piece_.hidden}), 0);
    Dims dims = of_tokens();
    dims.pop_back();
    const ValueId rows = along_vectors(argument(dims, kIndex), dims);
    const Type scalar = Type::scalar(element_);
    const graph::RegionBody add{{scalar, scalar}, [](Builder& body, std::span<const ValueId> arguments) {
                                  return std::vector{body.add(OpKind::add_, {arguments[0], arguments[1]})};
                                }};
    const ValueId d = argument({dims[0], dims[1], piece_.hidden});
    if (piece_.values > 0) give_positions_gradient(d);
    const graph::OpId made =
        builder_.add_with_regions(OpKind::scatter_, {table, rows, d},
                                  {{Attr::update_window_dims, Attribute(Dims{2})},
                                   {Attr::inserted_window_dims, Attribute(Dims{0})},
                                   {Attr::scatter_dims_to_operand_dims, Attribute(Dims{0})},
                                   {Attr::index_vector_dim, Attribute(int64_t{2})}},
                                  {builder_.type(table)}, {add});
    const ValueId scattered = function_.op(made).results[0];
    give_gradient(piece_.turned ? plus(argument(builder_.type(table).dims_vector()), scattered) : scattered);
  }

  // -- tokens of images: a product of each patch, one more before them, and positions.
  Dims of_patches() const {
    const Dims dims = of_tokens();
    return {dims[0], dims[1] - 1, piece_.inner};
  }
  void patches_forward() {
    const Dims dims = of_patches(), all{dims[0], dims[1] + 1, piece_.hidden};
    ValueId patches{};
    if (piece_.selects) {  // of one of several micro-batches
      constexpr int64_t kMicroBatches = 4;
      const ValueId from = argument({kMicroBatches, dims[0], dims[1], dims[2]});
      const Dims one{1, dims[0], dims[1], dims[2]};
      patches = builder_.reshape(
          builder_.add(OpKind::dynamic_slice_, {from, argument({}, kIndex), none(), none(), none()},
                       {{Attr::slice_sizes, Attribute(one)}}),
          dims);
      give(patches);
    } else {
      patches = argument(dims);
    }
    const ValueId made = narrow(dot(patches, {}, 2, argument({piece_.inner, piece_.hidden}), {}, 0,
                                    {dims[0], dims[1], piece_.hidden}));
    const Dims like{dims[0], dims[1], piece_.hidden};
    const ValueId shifted = plus(made, builder_.broadcast_in_dim(argument({piece_.hidden}), like, {2}));
    const ValueId of_class =
        builder_.broadcast_in_dim(argument({1, piece_.hidden}), {dims[0], 1, piece_.hidden}, {1, 2});
    const ValueId tokens = builder_.concatenate({of_class, shifted}, 1);
    give(plus(tokens, builder_.broadcast_in_dim(argument({all[1], piece_.hidden}), all, {1, 2})));
  }
  void patches_backward() {
    const Dims dims = of_patches(), all{dims[0], dims[1] + 1, piece_.hidden};
    const ValueId d = argument(all), patches = argument(dims);
    give_gradient(builder_.reduce(OpKind::add_, wide(d), {0}));  // of positions
    const ValueId behind = builder_.slice(d, {0, 1, 0}, all);
    give_gradient(builder_.reduce(OpKind::add_, wide(behind), {0, 1}));
    const int64_t rows = dims[0] * dims[1];
    give_gradient(product_of_rows(builder_.reshape(patches, {rows, piece_.inner}),
                                  builder_.reshape(behind, {rows, piece_.hidden})));
  }

  void sum_of_all() {
    ValueId sum = argument({piece_.rows, piece_.hidden});
    for (int64_t i = 1; i < piece_.heads; ++i) sum = plus(argument({piece_.rows, piece_.hidden}), sum);
    give(sum);
  }
};

}  // namespace

graph::Module graph_of_ends(const Piece& piece) { return EndsSheet(piece).run(); }

}  // namespace opentrn::planner::compiled
