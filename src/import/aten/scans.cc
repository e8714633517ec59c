// Running sums and their like, sorting, the largest elements.
#include <fmt/format.h>

#include "import/aten/expression.h"
#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

// Of every element and those before it.
Value running(Body& body, const Value& value, int64_t axis, std::string_view combiner,
              const Number& initial) {
  if (value.rank() == 0 || is_empty(value.shape)) return value;
  Shape window(value.shape.size(), 1);
  Pairs padding(value.shape.size());
  window.at(axis) = value.shape[axis];
  padding[axis] = {value.shape[axis] - 1, 0};
  return body.reduce_window(combiner, value, initial, window, Shape(value.shape.size(), 1), padding);
}

Rule running_total(std::string_view combiner, int64_t initial) {
  return [combiner, initial](Call& call) {
    Body& body = call.body;
    const Value wide = body.convert(call.value(0), math_dtype(call.out().dtype));
    const int64_t axis = axis_of(call.at(1).integer(), wide.rank());
    return body.convert(running(body, wide, axis, combiner, initial), call.out().dtype);
  };
}

int64_t axis_or_last(const Arg& axis) { return axis.is_none() ? -1 : axis.integer(); }

Results sort(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  if (value.rank() == 0 || is_empty(value.shape))
    return {value, body.splat(0, ElementType::kI64, value.shape)};
  const int64_t axis = axis_of(axis_or_last(call.named("dim")), value.rank());
  const Arg& descending = call.named("descending");
  const auto [made, where] =
      sorted_with_places(body, value, axis, !descending.is_none() && descending.flag());
  return {made, body.convert(where, ElementType::kI64)};
}

Results topk(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const Spec& out = call.outs.at(0);
  if (value.rank() == 0 || is_empty(out.shape)) {
    Results both = {value.rank() == 0 ? body.reshape(value, out.shape) : body.splat(0, out.dtype, out.shape)};
    both.emplace_back(body.splat(0, ElementType::kI64, call.outs.at(1).shape));
    return both;
  }
  const int64_t axis = axis_of(axis_or_last(call.at(2)), value.rank());
  const int64_t k = call.at(1).integer();
  const auto [all, everywhere] = sorted_with_places(body, value, axis, call.named("largest").flag());
  const Value made = body.slice_axis(all, axis, 0, k);
  const Value where = body.slice_axis(everywhere, axis, 0, k);
  return {made, body.convert(where, ElementType::kI64)};
}

// (extreme so far, the last place where it was); from the first NaN on, NaN.
Rule running_extreme(bool largest) {
  return [largest](Call& call) {
    Body& body = call.body;
    const Value& value = call.value(0);
    if (value.rank() == 0 || is_empty(value.shape))
      return Results{value, body.splat(0, ElementType::kI64, value.shape)};
    const int64_t axis = axis_of(call.at(1).integer(), value.rank());
    const Value held = value.dtype == ElementType::kI1 ? body.convert(value, ElementType::kI32) : value;
    const Number start = largest ? Body::lowest(held.dtype) : Body::highest(held.dtype);
    const Value made = running(body, held, axis, largest ? "maximum" : "minimum", start);
    Value equal = body.compare("EQ", held, made);
    if (graph::is_float(held.dtype)) equal = body.binary("or", equal, body.is_nan(held));
    const Value place = body.iota(held.shape, axis, ElementType::kI32);
    const Value marked = body.select(equal, place, body.like(-1, place));
    const Value where = running(body, marked, axis, "maximum", -1);
    const Value extreme = body.convert(made, call.outs.at(0).dtype);
    return Results{extreme, body.convert(where, ElementType::kI64)};
  };
}

// log(exp(a) + exp(b)), relative to the greater one; of complex numbers, to the one with the greater real
// part.
Expr log_add_exp(const Expr& a, const Expr& b) {
  const Expr is_first = a.real() >= b.real();
  const Expr high = a.where(is_first, b), low = b.where(is_first, a);
  const Expr made = high + (low - high).unary("exponential").unary("log_plus_one");
  const Expr is_finite = high.of(high.body().is_finite(high.real().value()));
  return made.where(is_finite, high);  // of infinities the difference is none
}

// By pairs, fours, eights and on: each of them relative to its own greatest, as the first ones may lie far
// below the greatest of all.
Value logcumsumexp(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  if (value.rank() == 0 || is_empty(value.shape)) return value;
  const int64_t axis = axis_of(call.at(1).integer(), value.rank());
  const int64_t count = value.shape.at(static_cast<size_t>(axis));
  Expr made(body, body.convert(value, math_dtype(call.out().dtype)));
  for (int64_t step = 1; step < count; step *= 2) {
    const Expr next = log_add_exp(made.part(axis, 0, count - step), made.part(axis, step, count));
    made = made.of(body.concatenate({made.part(axis, 0, step).value(), next.value()}, axis));
  }
  return body.convert(made.value(), call.out().dtype);
}

// The k-th smallest along an axis, and its place.
Results kthvalue(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const auto& outs = call.outs;
  if (value.rank() == 0) {
    const Value made = body.reshape(value, outs.at(0).shape);
    return {made, body.splat(0, ElementType::kI64, outs.at(1).shape)};
  }
  const int64_t number = call.at(1).integer() - 1;
  const int64_t axis = axis_of(axis_or_last(call.at(2)), value.rank());
  const auto [all, everywhere] = sorted_with_places(body, value, axis, false);
  const Value made = body.slice_axis(all, axis, number, number + 1);
  const Value where = body.slice_axis(everywhere, axis, number, number + 1);
  const Value first = body.reshape(made, outs.at(0).shape);
  return {first, body.reshape(body.convert(where, ElementType::kI64), outs.at(1).shape)};
}

}  // namespace

std::pair<Value, Value> sorted_with_places(Body& body, Value value, int64_t axis, bool descending) {
  const Value place = body.iota(value.shape, axis, ElementType::kI32);
  if (value.shape.at(axis) <= 1) return {value, place};
  const ElementType narrow = value.dtype;
  if (narrow == ElementType::kI1) value = body.convert(value, ElementType::kI32);
  const auto before = [descending](Body& inner, const std::vector<Value>& given) {
    const Value &a = given[0], &b = given[1];
    const Value first = inner.compare(descending ? "GT" : "LT", a, b);
    if (!graph::is_float(a.dtype)) return std::vector{first};
    const Value& greater = descending ? a : b;
    const Value& other = descending ? b : a;
    const Value not_other = inner.compare("EQ", other, other);
    const Value only = inner.binary("and", inner.is_nan(greater), not_other);
    return std::vector{inner.binary("or", first, only)};
  };
  const std::string region =
      body.region({value.dtype, value.dtype, ElementType::kI32, ElementType::kI32}, before);
  const auto made =
      body.ops("sort", {value, place}, {{value.shape, value.dtype}, {value.shape, ElementType::kI32}},
               fmt::format("dimension = {} : i64, is_stable = true", axis), region);
  return {body.convert(made[0], narrow), made[1]};
}

Table scans() {
  return {
      {{"cumsum.default"}, running_total("add", 0)},
      {{"cumprod.default"}, running_total("multiply", 1)},
      {{"cummax.default"}, running_extreme(true)},
      {{"cummin.default"}, running_extreme(false)},
      {{"logcumsumexp.default", "_logcumsumexp.default"}, logcumsumexp},
      {{"sort.default", "sort.stable"}, sort},
      {{"topk.default"}, topk},
      {{"kthvalue.default"}, kthvalue},
  };
}

}  // namespace opentrn::import::aten
