// Distances of every pair of rows, and counts of values by equal bins.
#include <cmath>

#include "import/aten/expression.h"
#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

// The p-norm over the last dimension.
Value norm_of_last(Body& body, const Value& value, double p) {
  const Shape last = {value.rank() - 1};
  const Value size = body.unary("abs", value);
  if (p == 0) {
    const Value differs = body.compare("NE", value, body.like(0, value));
    return body.reduce("add", body.convert(differs, value.dtype), last, 0);
  }
  if (p == 1) return body.reduce("add", size, last, 0);
  if (std::isinf(p)) return body.reduce("maximum", size, last, 0);
  if (p == 2) return body.unary("sqrt", body.reduce("add", body.multiply(value, value), last, 0));
  const Value total = body.reduce("add", body.binary("power", size, body.like(p, size)), last, 0);
  return body.binary("power", total, body.like(1 / p, total));
}

// [..., rows, width] and [..., columns, width] as [..., rows, columns, width].
std::pair<Value, Value> every_pair(Body& body, const Value& left, const Value& right, const Shape& lead) {
  const int64_t width = left.shape.back();
  const int64_t rows = left.shape[left.shape.size() - 2];
  const int64_t columns = right.shape[right.shape.size() - 2];
  const auto behind = [&](Shape sizes) {
    sizes.insert(sizes.begin(), lead.begin(), lead.end());
    return sizes;
  };
  const Shape shape = behind({rows, columns, width});
  const auto spread = [&](const Value& value, const Shape& matrix, const Shape& apart) {
    return body.broadcast(body.reshape(body.broadcast(value, matrix), apart), shape);
  };
  Value a = spread(left, behind({rows, width}), behind({rows, 1, width}));
  return {std::move(a), spread(right, behind({columns, width}), behind({1, columns, width}))};
}

Shape lead_of(const Shape& shape) { return {shape.begin(), shape.end() - 2}; }

Value cdist(Call& call) {
  const auto& [shape, dtype, _] = call.out();
  if (is_empty(shape) || call.value(0).shape.back() == 0) return call.body.splat(0, dtype, shape);
  const auto [a, b] = every_pair(call.body, call.value(0), call.value(1), lead_of(shape));
  return norm_of_last(call.body, call.body.subtract(a, b), call.at(2).real());
}

struct Pairing {
  const Value& left;
  const Value& right;
  const Value& gradient;
  const Value& distances;
};

// What one element of a row sends back, of the p-norm's gradient; a distance of zero sends nothing.
Value share_of(Body& body, const Value& step, const Value& distance, double p) {
  const Value zero = body.like(0, step);
  const Value one = body.like(1, step);
  const Value size = body.unary("abs", step);
  const Value above = body.compare("GT", step, zero);
  const Value below = body.compare("LT", step, zero);
  const Value sign = body.select(above, one, body.select(below, body.like(-1, step), zero));
  Value share = zero;
  if (p == 1) {
    share = sign;
  } else if (std::isinf(p)) {
    share = body.select(body.compare("EQ", size, distance), sign, zero);
  } else if (p != 0) {
    const Value safe = body.select(body.compare("EQ", distance, zero), one, distance);
    const Value ratio = body.divide(size, safe);
    const Value raised = p == 2 ? ratio : body.binary("power", ratio, body.like(p - 1, ratio));
    const Value is_zero = body.compare("EQ", step, zero);
    share = body.select(is_zero, zero, body.multiply(sign, raised));
  }
  return body.select(body.compare("EQ", distance, zero), zero, share);
}

// Of the left rows.
Value pairs_backward(Body& body, const Spec& out, const Pairing& given, double p) {
  if (is_empty(out.shape) || is_empty(given.gradient.shape)) return body.splat(0, out.dtype, out.shape);
  const auto [a, b] = every_pair(body, given.left, given.right, lead_of(given.distances.shape));
  const Shape pair = counted_up(a.rank() - 1);
  const Value spread = body.broadcast(given.gradient, given.distances.shape);
  const Value gradient = body.broadcast_in_dim(spread, a.shape, pair);
  const Value distance = body.broadcast_in_dim(given.distances, a.shape, pair);
  const Value share = share_of(body, body.subtract(a, b), distance, p);
  return body.reduce("add", body.multiply(gradient, share), {a.rank() - 2}, 0);
}

Value cdist_backward(Call& call) {
  const Pairing given{call.value(1), call.value(2), call.value(0), call.value(4)};
  return pairs_backward(call.body, call.out(), given, call.at(3).real());
}

// Of every pair of rows, once.
Value pdist(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const auto& [shape, dtype, _] = call.out();
  if (is_empty(shape) || value.shape.at(1) == 0) return body.splat(0, dtype, shape);
  std::vector<Value> parts;
  for (int64_t row = 0; row + 1 < value.shape[0]; ++row) {
    const Value rest = body.slice_axis(value, 0, row + 1, value.shape[0]);
    const Value one = body.broadcast(body.slice_axis(value, 0, row, row + 1), rest.shape);
    parts.push_back(body.subtract(one, rest));
  }
  return norm_of_last(body, body.concatenate(parts, 0), call.at(1).real());
}

// Values of all pairs as a symmetric matrix.
Value square_of(Body& body, const Value& pairs, int64_t rows) {
  std::vector<Value> parts;
  int64_t at = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t count = rows - row - 1;
    parts.push_back(body.pad(body.slice_axis(pairs, 0, at, at + count), {row + 1}, {0}));
    at += count;
  }
  for (Value& part : parts) part = body.reshape(part, {1, rows});
  const Value upper = body.concatenate(parts, 0);
  return body.add(upper, body.transpose(upper, {1, 0}));
}

// As cdist's of the rows with themselves, each pair once from either side.
Value pdist_backward(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(1);
  const auto& [shape, dtype, _] = call.out();
  if (is_empty(shape) || is_empty(call.value(0).shape)) return body.splat(0, dtype, shape);
  const Value gradient = square_of(body, call.value(0), value.shape.at(0));
  const Value distances = square_of(body, call.value(3), value.shape[0]);
  return pairs_backward(body, {value.shape, dtype, {}}, {value, value, gradient, distances},
                        call.at(2).real());
}

constexpr int64_t kComparedMost =
    1 << 24;  // comparisons of every element with every bin; else counts are scattered

// torch's rule: low and high the same means the least and greatest element; what lies outside counts nowhere.
Value histc(Call& call) {
  Body& body = call.body;
  const auto& [shape, dtype, _] = call.out();
  const int64_t count = size_of(call.value(0).shape);
  const int64_t bins = call.at(1).integer();
  if (count == 0) return body.splat(0, dtype, shape);
  const ElementType wide = math_dtype(dtype);
  const Expr flat(body, body.reshape(body.convert(call.value(0), wide), {count}));
  Expr least = flat;
  Expr most = flat;
  if (equals(call.at(2).number(), call.at(3).real())) {
    least = flat.min(0);
    most = flat.max(0);
    const Expr same = least.equals(most).to(wide);
    least = least - same;
    most = most + same;
  } else {
    least = flat.number(call.at(2).number(), {1});
    most = flat.number(call.at(3).number(), {1});
  }
  const Expr width = most - least;
  Expr place = ((flat - least) * Number(static_cast<double>(bins)) / width).to(ElementType::kI32);
  const Expr last = place.number(bins - 1, place.shape());
  place = last.where(place > last, place);
  const Expr not_below = flat >= least;
  const Expr counted = (not_below & (most >= flat)).to(ElementType::kI32);
  if (count * bins <= kComparedMost) {
    const Expr hit = place.iota({bins, count}, 0).equals(place.reshape({1, count}));
    const Expr ones = counted.reshape({1, count}).where(hit, 0);
    return body.convert(ones.sum(1).reshape({bins}).value(), dtype);
  }
  const Value zero = body.splat(0, ElementType::kI32, {bins});
  const Expr none = place.number(0, place.shape());
  const Expr where = none.where(counted.equals(0), place);
  const Value total =
      scatter_op(body, zero, where.reshape({count, 1}).value(), counted.value(), {0}, {}, "add");
  return body.convert(total, dtype);
}

}  // namespace

Table distances() {
  return {
      {{"_cdist_forward.default"}, cdist}, {{"_cdist_backward.default"}, cdist_backward},
      {{"_pdist_forward.default"}, pdist}, {{"_pdist_backward.default"}, pdist_backward},
      {{"histc.default"}, histc},
  };
}

}  // namespace opentrn::import::aten
