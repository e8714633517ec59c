// Sums, products, extremes and where they are, variances, soft maxima, over some or all dimensions.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Given as number, list or nothing; an empty list means all.
Shape axes_of(const Arg& axes, int rank) {
  if (axes.is_none() || (axes.is_list() && axes.list().empty())) return counted_up(rank);
  if (rank == 0) return {};
  Shape found = axes.is_list() ? axes.integers() : Shape{axes.integer()};
  for (int64_t& axis : found) axis = axis_of(axis, rank);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// The axes of a reduction: torch's `dim`, the `dims` of prims.
Shape axes_of(Call& call) {
  const Arg& axes = call.named("dim");
  return axes_of(axes.is_none() ? call.named("dims") : axes, call.value(0).rank());
}

Shape all_but(const Shape& axes, int rank) {
  Shape kept;
  for (int axis = 0; axis < rank; ++axis)
    if (!has(axes, axis)) kept.push_back(axis);
  return kept;
}

Shape sizes_at(const Value& value, const Shape& axes) {
  Shape sizes;
  for (const int64_t axis : axes) sizes.push_back(value.shape.at(axis));
  return sizes;
}

Value finished(Call& call, const Value& value, const Spec& out) {
  return call.body.reshape(call.body.convert(value, out.dtype), out.shape);
}

// In fp32 for narrower floats; rounded once.
Value sum(Call& call) {
  Body& body = call.body;
  const Shape axes = axes_of(call);
  const Value wide = body.convert(call.value(0), math_dtype(call.out().dtype));
  if (wide.dtype == ElementType::kI1)
    return body.reshape(body.reduce("or", wide, axes, false), call.out().shape);
  return finished(call, body.reduce("add", wide, axes, 0), call.out());
}

Value mean(Call& call) {
  Body& body = call.body;
  const Shape axes = axes_of(call);
  const int64_t count = size_of(sizes_at(call.value(0), axes));
  const Value wide = body.convert(call.value(0), math_dtype(call.out().dtype));
  const Value total = body.reduce("add", wide, axes, 0);
  const double factor = count ? 1 / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
  const Value share = body.like(factor, total);
  const bool is_exact = (count & (count - 1)) == 0;
  const Value made = is_exact ? body.multiply(total, share) : body.divide(total, body.like(count, total));
  return finished(call, made, call.out());
}

Value prod(Call& call) {
  Body& body = call.body;
  const Shape axes = axes_of(call);
  const Value wide = body.convert(call.value(0), math_dtype(call.out().dtype));
  if (wide.dtype == ElementType::kI1)
    return body.reshape(body.reduce("and", wide, axes, true), call.out().shape);
  return finished(call, body.reduce("multiply", wide, axes, 1), call.out());
}

Rule truth(std::string_view combiner, bool initial) {
  return [combiner, initial](Call& call) {
    const Value flags = call.body.convert(call.value(0), ElementType::kI1);
    return finished(call, call.body.reduce(combiner, flags, axes_of(call), initial), call.out());
  };
}

Number start_of_extreme(ElementType dtype, bool largest) {
  return largest ? Body::lowest(dtype) : Body::highest(dtype);
}

Rule extreme(bool largest) {
  return [largest](Call& call) {
    Body& body = call.body;
    const Value& value = call.value(0);
    const Shape axes = axes_of(call);
    if (value.dtype == ElementType::kI1)
      return body.reshape(body.reduce(largest ? "or" : "and", value, axes, !largest), call.out().shape);
    const Number start = start_of_extreme(value.dtype, largest);
    return body.reshape(body.reduce(largest ? "maximum" : "minimum", value, axes, start), call.out().shape);
  };
}

std::pair<Value, Value> found(Call& call, const Arg& given, bool largest) {
  Body& body = call.body;
  Value value = call.value(0);
  int64_t axis = 0;
  if (given.is_none() || value.rank() == 0)
    value = body.reshape(value, {size_of(value.shape)});
  else
    axis = axis_of(given.integer(), value.rank());
  if (is_empty(value.shape)) {
    const Shape shape = sizes_at(value, all_but({axis}, value.rank()));
    const Value none = body.splat(0, value.dtype, shape);
    return {none, body.splat(0, ElementType::kI32, shape)};
  }
  return place_of_extreme(body, value, axis, largest);
}

Rule with_places(bool largest) {
  return [largest](Call& call) {
    Body& body = call.body;
    const auto [made, where] = found(call, call.at(1), largest);
    const Value first = body.convert(made, call.outs.at(0).dtype);
    const Value second = body.convert(where, ElementType::kI64);
    Results both = {body.reshape(first, call.outs[0].shape)};
    both.emplace_back(body.reshape(second, call.outs.at(1).shape));
    return both;
  };
}

Rule places(bool largest) {
  return [largest](Call& call) {
    const Value where = found(call, call.at(1), largest).second;
    return call.body.reshape(call.body.convert(where, ElementType::kI64), call.out().shape);
  };
}

// |value| squared.
Value magnitude_squared(Body& body, const Value& value) {
  if (!graph::is_complex(value.dtype)) return body.multiply(value, value);
  const ElementType part = graph::real_part(value.dtype);
  const Value real = body.op("real", {value}, value.shape, part);
  const Value imaginary = body.op("imag", {value}, value.shape, part);
  return body.add(body.multiply(real, real), body.multiply(imaginary, imaginary));
}

// (variance, mean), both without the axes; of complex numbers the variance is real.
std::pair<Value, Value> moments(Call& call, double correction) {
  Body& body = call.body;
  const Shape axes = axes_of(call);
  const ElementType given = call.value(0).dtype;
  const Value wide =
      body.convert(call.value(0), graph::is_complex(given) ? given : math_dtype(call.out().dtype));
  const int64_t count = size_of(sizes_at(call.value(0), axes));
  const Value total = body.reduce("add", wide, axes, 0);
  const Value average = body.divide(total, body.like(count, total));
  const Value spread = body.broadcast_in_dim(average, wide.shape, all_but(axes, wide.rank()));
  const Value offset = body.subtract(wide, spread);
  const Value squares = body.reduce("add", magnitude_squared(body, offset), axes, 0);
  const double degrees = std::max(0.0, static_cast<double>(count) - correction);
  return {body.divide(squares, body.like(degrees, squares)), average};
}

double correction_of(Call& call) {
  if (const Arg& unbiased = call.named("unbiased"); !unbiased.is_none()) return unbiased.flag() ? 1 : 0;
  const Arg& correction = call.named("correction");
  return correction.is_none() ? 1 : correction.real();
}

Value var(Call& call) { return finished(call, moments(call, correction_of(call)).first, call.out()); }

Value standard_deviation(Call& call) {
  const Value variance = moments(call, correction_of(call)).first;
  return finished(call, call.body.unary("sqrt", variance), call.out());
}

Results var_mean(Call& call) {
  const auto [variance, average] = moments(call, correction_of(call));
  Results both = {finished(call, variance, call.outs.at(0))};
  both.emplace_back(finished(call, average, call.outs.at(1)));
  return both;
}

// ---- soft maximum: one rounding at the end

struct Shifted {
  Value value;   // less its maximum
  Value raised;  // its exponential
  Shape kept;    // axes but the one
};

Shifted shifted(Call& call, int64_t axis) {
  Body& body = call.body;
  const Value wide = body.convert(call.value(0), math_dtype(call.out().dtype));
  const Shape kept = all_but({axis}, wide.rank());
  const Value top = body.reduce("maximum", wide, {axis}, -kInfinity);
  const Value made = body.subtract(wide, body.broadcast_in_dim(top, wide.shape, kept));
  return {made, body.unary("exponential", made), kept};
}

Value softmax(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const auto& [shape, dtype, _] = call.out();
  if (is_empty(value.shape)) return body.splat(0, dtype, shape);
  if (value.rank() == 0) {
    const Value one = body.unary("exponential", body.subtract(value, value));
    return body.convert(body.divide(one, one), dtype);
  }
  const int64_t axis = axis_of(call.at(1).integer(), value.rank());
  const auto [_made, raised, kept] = shifted(call, axis);
  const Value sums = body.reduce("add", raised, {axis}, 0);
  const Value total = body.broadcast_in_dim(sums, raised.shape, kept);
  return body.convert(body.divide(raised, total), dtype);
}

Value log_softmax(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const auto& [shape, dtype, _] = call.out();
  if (is_empty(value.shape)) return body.splat(0, dtype, shape);
  if (value.rank() == 0) return body.convert(body.subtract(value, value), dtype);
  const int64_t axis = axis_of(call.at(1).integer(), value.rank());
  const auto [made, raised, kept] = shifted(call, axis);
  const Value total = body.unary("log", body.reduce("add", raised, {axis}, 0));
  return body.convert(body.subtract(made, body.broadcast_in_dim(total, made.shape, kept)), dtype);
}

}  // namespace

std::pair<Value, Value> place_of_extreme(Body& body, Value value, int64_t axis, bool largest) {
  if (value.dtype == ElementType::kI1) value = body.convert(value, ElementType::kI32);
  const Value place = body.iota(value.shape, axis, ElementType::kI32);
  const Value start = body.splat(start_of_extreme(value.dtype, largest), value.dtype);
  const Value zero = body.splat(0, ElementType::kI32);
  const auto combine = [largest](Body& inner, const std::vector<Value>& given) {
    const Value &a = given[0], &i = given[1], &b = given[2], &j = given[3];
    Value beyond = inner.compare(largest ? "GT" : "LT", a, b);
    if (graph::is_float(a.dtype)) beyond = inner.binary("or", beyond, inner.is_nan(a));
    const Value equal = inner.compare("EQ", a, b);
    const Value first = inner.binary("and", equal, inner.compare("LT", i, j));
    const Value taken = inner.binary("or", beyond, first);
    const Value made = inner.select(beyond, a, b);
    return std::vector{made, inner.select(taken, i, j)};
  };
  const std::string region =
      body.region({value.dtype, ElementType::kI32, value.dtype, ElementType::kI32}, combine);
  const Shape shape = sizes_at(value, all_but({axis}, value.rank()));
  const auto made =
      body.ops("reduce", {value, place, start, zero}, {{shape, value.dtype}, {shape, ElementType::kI32}},
               fmt::format("dimensions = array<i64: {}>", axis), region);
  return {made[0], made[1]};
}

Table reductions() {
  return {
      {{"sum.default", "sum.dim_IntList", "prims.sum"}, sum},
      {{"mean.default", "mean.dim"}, mean},
      {{"prod.default", "prod.dim_int", "prims.prod"}, prod},
      {{"any.default", "any.dim", "any.dims"}, truth("or", false)},
      {{"all.default", "all.dim", "all.dims"}, truth("and", true)},
      {{"amax.default", "max.default", "prims.amax"}, extreme(true)},
      {{"amin.default", "min.default", "prims.amin"}, extreme(false)},
      {{"max.dim"}, with_places(true)},
      {{"min.dim"}, with_places(false)},
      {{"argmax.default"}, places(true)},
      {{"argmin.default"}, places(false)},
      {{"var.correction", "prims.var", "var.dim"}, var},
      {{"std.correction"}, standard_deviation},
      {{"var_mean.correction"}, var_mean},
      {{"_softmax.default"}, softmax},
      {{"_log_softmax.default"}, log_softmax},
  };
}

}  // namespace opentrn::import::aten
