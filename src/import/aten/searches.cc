// searchsorted: halving the range, once for every bit of its length, all numbers at once. nonzero_static.
#include <algorithm>

#include "import/aten/expression.h"
#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

// In which two types are compared: a float goes before whole numbers, the wider one before the narrower.
ElementType joined_type(ElementType left, ElementType right) {
  if (left == right) return left;
  if (graph::is_float(left) != graph::is_float(right)) return graph::is_float(left) ? left : right;
  if (!graph::is_float(left)) return ElementType::kI64;
  const int bytes = std::max(graph::storage_bytes(left), graph::storage_bytes(right));
  if (graph::storage_bytes(left) == graph::storage_bytes(right)) return ElementType::kF32;
  return graph::storage_bytes(left) == bytes ? left : right;
}

// Whether boundaries are before values: a comparison with NaN goes right, as torch's.
Expr is_before(const Expr& at, const Expr& given, bool right) {
  return right ? !(at > given) : !(at >= given);
}

// How many boundaries of its row are below each value, or not above it from the right.
Value searched(Call& call, const Value& boundaries, const Arg& values) {
  Body& body = call.body;
  const auto& [shape, dtype, _] = call.out();
  const Arg& side = call.named("side");
  const bool right = call.named("right").flag() || (!side.is_none() && side.text() == "right");
  const int64_t size = boundaries.shape.empty() ? 0 : boundaries.shape.back();
  if (is_empty(shape) || size == 0) return body.splat(0, dtype, shape);
  const Arg& sorter = call.named("sorter");
  const int64_t last = boundaries.rank() - 1;
  const Value sorted = sorter.is_none() ? boundaries : gathered(body, boundaries, last, sorter.value());
  const Shape line = shape.empty() ? Shape{1} : shape;
  ElementType kind = boundaries.dtype;
  if (values.is_value())
    kind = joined_type(kind, values.value().dtype);
  else if (!values.is_integer() && !graph::is_float(kind))
    kind = ElementType::kF32;
  const Expr given(body, values.is_value() ? body.reshape(body.convert(values.value(), kind), line)
                                           : body.splat(values.number(), kind, line));
  const Expr table(body, body.convert(sorted, kind));
  Expr low(body, body.splat(0, kI32, line));
  Expr high(body, body.splat(size, kI32, line));
  for (int64_t left = size; left > 0; left /= 2) {
    const Expr middle = (low + high) / Number(int64_t{2});
    const Expr place = middle.binary("minimum", middle.number(size - 1, line));
    const Expr at = table.of(last == 0 ? take(body, table.value(), place.value(), 0)
                                       : gathered(body, table.value(), last, place.value()));
    const Expr open = low < high;
    const Expr is_after = open & is_before(at, given, right);
    const Expr next = (middle + int64_t{1}).where(is_after, low);
    high = high.where(is_after, middle);
    low = next;
  }
  return body.convert(body.reshape(low.value(), shape), dtype);
}

Value searchsorted(Call& call) { return searched(call, call.value(0), call.at(1)); }

Value bucketize(Call& call) { return searched(call, call.value(1), call.at(0)); }

// Indices of the first `size` elements that are not zero, one a row; then rows of fill_value.
Value nonzero_static(Call& call) {
  Body& body = call.body;
  const Value& x = call.value(0);
  const int64_t size = call.named("size").integer();
  const Number& fill = call.named("fill_value").number();
  const auto& [shape, dtype, _] = call.out();
  if (is_empty(shape) || is_empty(x.shape)) return body.splat(fill, dtype, shape);
  const int64_t count = size_of(x.shape);
  const Value found = body.reshape(body.convert(x, ElementType::kI1), {count});
  const Expr is_found(body, found);
  const Expr rank(body,
                  body.reduce_window("add", body.convert(found, kI32), 0, {count}, {1}, {{count - 1, 0}}));
  // Those that are not asked for go to a row that is cut off.
  const Expr is_asked = is_found & (rank <= Number(size));
  const Expr row = (rank - int64_t{1}).where(is_asked, Number(size));
  const Value numbers = body.iota({count}, 0, kI32);
  const Value places =
      scattered(body, body.splat(0, kI32, {size + 1}), 0, row.value(), numbers, std::string_view());
  Expr place = Expr(body, places).part(0, 0, size);
  std::vector<Value> columns;
  for (size_t axis = x.shape.size(); axis-- > 0;) {
    const Expr length = place.number(x.shape[axis], {size});
    columns.push_back(place.binary("remainder", length).reshape({size, 1}).value());
    place = place / length;
  }
  std::reverse(columns.begin(), columns.end());
  const Expr made(body, body.concatenate(columns, 1));
  const Expr has_row = place.iota({size}, 0) < rank.part(0, count - 1, count);
  return body.convert(made.where(has_row.reshape({size, 1}), fill).value(), dtype);
}

}  // namespace

Table searches() {
  return {
      {{"searchsorted.Tensor", "searchsorted.Scalar"}, searchsorted},
      {{"bucketize.Tensor", "bucketize.Scalar"}, bucketize},
      {{"nonzero_static.default"}, nonzero_static},
  };
}

}  // namespace opentrn::import::aten
