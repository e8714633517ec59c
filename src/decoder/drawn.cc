#include "decoder/drawn.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::decoder {

using graph::Attr;
using graph::Attribute;
using graph::Builder;
using graph::ComparisonDirection;
using graph::ElementType;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

namespace {

using Dims = std::vector<int64_t>;

constexpr int32_t kNoToken = std::numeric_limits<int32_t>::max();
// e to it is below the smallest number of fp32.
constexpr double kNoWeight = -104;
constexpr int kHalvings = 27;  // the last interval is 104 / 2^26 wide
// Sums that are added up in another order differ by less.
constexpr double kShortOfAll = 1 - 0x1p-20;

// A lane is a part of a row: values are [lanes, width], or [lanes, 1] with one number for each lane.
class Draw {
 public:
  Draw(Builder& builder, ValueId logits, ValueId sampling) : builder_(builder), sampling_(sampling) {
    const Dims dims = builder.type(logits).dims_vector();
    rows_ = dims[0];
    const RowParts parts = parts_of(rows_, dims[1]);
    parts_ = parts.count;
    lanes_ = rows_ * parts_;
    width_ = parts.width;
    logits_ = in_parts(builder, logits, parts);
    if (parts_ > 1) same_row_ = ones_where([&](int64_t a, int64_t b) { return a / parts_ == b / parts_; });
  }

  ChosenTokens run(bool truncated) {
    const ValueId largest = builder_.reduce(
        OpKind::maximum_, builder_.reshape(builder_.reduce(OpKind::maximum_, logits_, {1}), {rows_, parts_}),
        {1});
    exponent_ = binary(OpKind::multiply_, binary(OpKind::subtract_, logits_, over_width(of_lanes(largest))),
                       over_width(parameter(kInverseTemperature)));
    weight_ = builder_.add(OpKind::exponential_, {exponent_});
    if (truncated) {
      keep_top_k();
      keep(compare(ComparisonDirection::kGe, weight_, parameter(kMinP)));
      keep_top_p();
    } else {
      keep(compare(ComparisonDirection::kGe, weight_, parameter(kMinP)));
    }
    return {passing(), largest};
  }

 private:
  ValueId binary(OpKind kind, ValueId a, ValueId b) { return builder_.add(kind, {a, b}); }
  ValueId over_width(ValueId lane) { return builder_.broadcast_in_dim(lane, {lanes_, width_}, {0, 1}); }
  ValueId compare(ComparisonDirection direction, ValueId value, ValueId lane) {
    return builder_.compare(direction, value, over_width(lane));
  }
  ValueId zeros() { return builder_.splat(Type::tensor(ElementType::kF32, {lanes_, width_}), 0); }
  ValueId lane(double value) { return builder_.splat(Type::tensor(ElementType::kF32, {lanes_, 1}), value); }
  ValueId where(ValueId truth, ValueId value) {
    return builder_.add(OpKind::select_, {truth, value, builder_.splat(builder_.type(value), 0)});
  }
  void keep(ValueId truth) { weight_ = where(truth, weight_); }

  // A number for each row, [rows], as one for each lane.
  ValueId of_lanes(ValueId row) {
    return builder_.reshape(builder_.broadcast_in_dim(row, {rows_, parts_}, {0}), {lanes_, 1});
  }
  ValueId parameter(int64_t column) {
    const ValueId cut = builder_.slice(sampling_, {0, column}, {rows_, column + 1});
    return of_lanes(builder_.reshape(cut, {rows_}));
  }
  template <typename Predicate>
  ValueId ones_where(Predicate&& is_one) {
    std::vector<float> ones;
    for (int64_t a = 0; a < lanes_; ++a)
      for (int64_t b = 0; b < lanes_; ++b) ones.push_back(is_one(a, b) ? 1.0F : 0.0F);
    std::vector<std::byte> bytes(ones.size() * sizeof(float));
    std::memcpy(bytes.data(), ones.data(), bytes.size());
    return builder_.constant(
        graph::Literal(Type::tensor(ElementType::kF32, {lanes_, lanes_}), std::move(bytes)));
  }
  // For each lane the sum of the numbers of those lanes that `matrix` has ones for.
  ValueId sum_of_lanes(ValueId matrix, ValueId lane) {
    return builder_.add(OpKind::dot_general_, {matrix, lane},
                        {{Attr::lhs_batching_dimensions, Attribute(Dims{})},
                         {Attr::rhs_batching_dimensions, Attribute(Dims{})},
                         {Attr::lhs_contracting_dimensions, Attribute(Dims{1})},
                         {Attr::rhs_contracting_dimensions, Attribute(Dims{0})}},
                        {Type::tensor(ElementType::kF32, {lanes_, 1})});
  }
  // Of a whole row, for each of its lanes.
  ValueId sum(ValueId value) {
    const ValueId own = builder_.reshape(builder_.reduce(OpKind::add_, value, {1}), {lanes_, 1});
    return parts_ == 1 ? own : sum_of_lanes(same_row_, own);
  }
  // Along a row, each element and those in front of it.
  ValueId running_sum(ValueId value) {
    const Type scalar = Type::scalar(ElementType::kF32);
    const ValueId zero = builder_.splat(scalar, 0);
    const graph::RegionBody body{{scalar, scalar}, [](Builder& inner, std::span<const ValueId> a) {
                                   return std::vector<ValueId>{inner.add(OpKind::add_, {a[0], a[1]})};
                                 }};
    const graph::OpId id =
        builder_.add_with_regions(OpKind::reduce_window_, {value, zero},
                                  {{Attr::window_dimensions, Attribute(Dims{1, width_})},
                                   {Attr::padding, graph::IntMatrix{2, 2, {0, 0, width_ - 1, 0}}}},
                                  {builder_.type(value)}, {body});
    const ValueId own = builder_.function().op(id).results[0];
    if (parts_ == 1) return own;
    const ValueId whole = builder_.slice(own, {0, width_ - 1}, {lanes_, width_});
    const ValueId earlier =
        ones_where([&](int64_t a, int64_t b) { return a / parts_ == b / parts_ && b < a; });
    return binary(OpKind::add_, own, over_width(sum_of_lanes(earlier, whole)));
  }

  // The largest exponent, to the width of the last interval, above which numbers of the row add up to
  // `target`; sum_above gives their sum for a bound.
  template <typename SumAbove>
  ValueId bound(ValueId target, SumAbove&& sum_above) {
    ValueId low = lane(kNoWeight);
    double step = -kNoWeight;
    for (int i = 0; i < kHalvings; ++i, step /= 2) {
      const ValueId middle = binary(OpKind::add_, low, lane(step));
      const ValueId reaches = builder_.compare(ComparisonDirection::kGe, sum_above(middle), target);
      low = builder_.add(OpKind::select_, {reaches, middle, low});
    }
    return low;
  }
  ValueId is_above(ValueId bound) { return compare(ComparisonDirection::kGe, exponent_, bound); }

  void keep_top_k() {
    keep(is_above(bound(parameter(kTopK), [&](ValueId middle) {
      return sum(builder_.convert(is_above(middle), ElementType::kF32));
    })));
  }

  // All above the last interval, and of those in it the first ones, until the sum is reached.
  void keep_top_p() {
    const ValueId wanted = binary(OpKind::multiply_, parameter(kTopP), sum(weight_));
    const auto above = [&](ValueId middle) { return where(is_above(middle), weight_); };
    const ValueId low = bound(wanted, [&](ValueId middle) { return sum(above(middle)); });
    const ValueId surely = above(binary(OpKind::add_, low, lane(-kNoWeight / (1 << (kHalvings - 1)))));
    const ValueId last = binary(OpKind::subtract_, above(low), surely);
    const ValueId in_front = binary(OpKind::subtract_, running_sum(last), last);
    const ValueId left = binary(OpKind::subtract_, wanted, sum(surely));
    const ValueId fits = compare(ComparisonDirection::kLt, in_front, left);
    weight_ = binary(OpKind::add_, surely, where(fits, last));
  }

  // The first token with a weight whose sum, with those in front, passes the point.
  ValueId passing() {
    const ValueId whole = sum(weight_);
    const ValueId most = binary(OpKind::multiply_, whole, lane(kShortOfAll));
    const ValueId point = binary(OpKind::minimum_, binary(OpKind::multiply_, parameter(kPoint), whole), most);
    const ValueId passes = compare(ComparisonDirection::kGt, running_sum(weight_), point);
    const ValueId has_weight = builder_.compare(ComparisonDirection::kGt, weight_, zeros());
    const ValueId tokens = columns_in_parts(builder_, rows_, {parts_, width_});
    const ValueId candidates = builder_.add(
        OpKind::select_,
        {binary(OpKind::and_, passes, has_weight), tokens, builder_.splat(builder_.type(tokens), kNoToken)});
    const ValueId of_lane = builder_.reduce(OpKind::minimum_, candidates, {1});
    return builder_.reduce(OpKind::minimum_, builder_.reshape(of_lane, {rows_, parts_}), {1});
  }

  Builder& builder_;
  int64_t rows_ = 0, parts_ = 1, lanes_ = 0, width_ = 0;
  ValueId sampling_, logits_, same_row_, exponent_, weight_;
};

}  // namespace

Type sampling_type(int64_t rows) {
  return Type::tensor(ElementType::kF32, {rows, static_cast<int64_t>(kSamplingColumns)});
}

ChosenTokens drawn(Builder& builder, ValueId logits, ValueId sampling, Choice choice) {
  OPENTRN_CHECK(choice >= Choice::kDrawn, "nothing is drawn for the choice {}", text(choice));
  return Draw(builder, logits, sampling).run(choice == Choice::kDrawnTruncated);
}

graph::Module draw_of(int64_t rows, int64_t vocabulary, Choice choice) {
  graph::Module module;
  graph::Function& function = module.add_function("main");
  Builder builder(module, function, function.body());
  module.name = fmt::format("{} {} x {}", text(choice), rows, vocabulary);
  const ValueId logits =
      function.add_argument(builder.block(), Type::tensor(ElementType::kF32, {rows, vocabulary}));
  const ValueId sampling = function.add_argument(builder.block(), sampling_type(rows));
  const ChosenTokens chosen = drawn(builder, logits, sampling, choice);
  for (const ValueId value : {chosen.token, chosen.logit})
    function.result_types.push_back(builder.type(value));
  function.result_attributes.resize(2);
  builder.return_values({chosen.token, chosen.logit});
  return module;
}

}  // namespace opentrn::decoder
