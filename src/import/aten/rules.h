// Which op of ATen's is written by which function, and what a function is given.
//
// A name is an overload (`add.Tensor`), a packet, which stands for all its functional overloads (`add`), or
// of another namespace (`prims.add`). Arguments are those of the op's schema, in its order and with its
// defaults.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "import/aten/body.h"

namespace opentrn::import::aten {

struct Call {
  Body& body;
  std::vector<Spec> outs;
  std::vector<std::string> names;  // of the arguments
  std::vector<Arg> arguments;

  const Spec& out() const { return outs.at(0); }
  const Arg& at(size_t number) const;  // none where the op has fewer
  const Arg& named(std::string_view name) const;
  const Value& value(size_t number) const { return at(number).value(); }
};

// Results that nobody reads may be left out.
using Results = std::vector<std::optional<Value>>;

class Rule {
 public:
  template <typename Function>
  Rule(Function function) {  // NOLINT(google-explicit-constructor): rows of the tables are functions
    if constexpr (std::is_same_v<std::invoke_result_t<Function, Call&>, Value>)
      run_ = [function](Call& call) { return Results{function(call)}; };
    else
      run_ = function;
  }
  Results operator()(Call& call) const { return run_(call); }

 private:
  std::function<Results(Call&)> run_;
};

struct Row {
  std::vector<std::string_view> names;
  Rule rule;
};
using Table = std::vector<Row>;

Table arithmetic();
Table convolutions();
Table creation();
Table decompositions();
Table distances();
Table elementwise();
Table folding();
Table fourier_transforms();
Table indexing();
Table losses();
Table padding();
Table pooling();
Table products();
Table random_numbers();
Table rearrangement();
Table recurrent_layers();
Table reductions();
Table samplers();
Table scans();
Table scatters();
Table searches();
Table triangular();

// By name, of all families.
const std::map<std::string, Rule, std::less<>>& rules();

// ---- what families share

// Operands in one type, by default the result's, and the result's shape.
std::pair<Value, Value> both(Call& call, const Arg& left, const Arg& right,
                             std::optional<ElementType> dtype = {});
// A quotient rounded down.
Value floored(Body& body, const Value& a, const Value& b);
// Towards zero; whole numbers stay.
Value truncated(Body& body, const Value& value);
// An op's padding, strides and such: one number for all dimensions, or one for each.
Shape many(const Arg& given, size_t count, const Shape& otherwise = {});
// value with part in place of that slice.
Value put_slice(Body& body, const Value& value, const Value& part, int64_t axis, int64_t start, int64_t limit,
                int64_t step);
// Where each element of a strided tensor is in memory, in the order of its dimensions.
Shape stored_places(const Shape& sizes, const Shape& strides, int64_t offset);
// Indices as int32, negative ones counted from the end.
Value counted(Body& body, const Value& index, int64_t size);
// value's slices along an axis by a tensor of places of any rank, whose dimensions stand where the axis was.
Value take(Body& body, const Value& value, const Value& index, int64_t axis);
// Places [..., rank] of torch.gather's and scatter's: `index` along the axis, each element's own elsewhere.
Value coordinates(Body& body, const Value& index, int64_t axis);
// torch.gather, and torch.scatter with a combiner, along an axis.
Value gathered(Body& body, const Value& value, int64_t axis, const Value& index);
Value scattered(Body& body, Value value, int64_t axis, Value index, Value updates, std::string_view combiner);
// Of advanced indexing: indexed axes, places [..., axes], their common shape, where that stands in a result.
struct JointPlaces {
  Shape axes;
  Value places;
  Shape shape;
  int64_t at = 0;
};
JointPlaces joint_places(Body& body, const Value& value, const std::vector<Arg>& indices);
// StableHLO's scatter along `axes`. windows: dimensions of the updates that are whole ones of the value.
// combiner: nothing where updates replace.
Value scatter_op(Body& body, const Value& value, const Value& places, const Value& updates, const Shape& axes,
                 const Shape& windows, std::string_view combiner = {});
// The source's elements one after the other where the mask is set; anything elsewhere.
Value packed_by_mask(Body& body, const Value& mask, const Value& source);
// How many elements of a flat mask were chosen before each that is.
Value places_of_chosen(Body& body, const Value& mask);
// (sorted, the places they had), both stable; NaN is the greatest.
std::pair<Value, Value> sorted_with_places(Body& body, Value value, int64_t axis, bool descending);
// (extreme, its first place) along an axis, both without it; NaN is beyond every number.
std::pair<Value, Value> place_of_extreme(Body& body, Value value, int64_t axis, bool largest);
// In [0, 1): 24 bits of a word.
Value uniform_f32(Body& body, const Shape& shape);

}  // namespace opentrn::import::aten
