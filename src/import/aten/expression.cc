#include "import/aten/expression.h"

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::import::aten {

Expr Expr::inside(const Expr& other) const {
  return {other.body_->depth() > body_->depth() ? *other.body_ : *body_, value_};
}

std::pair<Expr, Expr> Expr::with(const Expr& other) const {
  Expr a = inside(other);
  Expr b = other.inside(*this);
  if (a.dtype() != b.dtype()) {
    const ElementType wide = graph::is_complex(a.dtype()) ? a.dtype() : b.dtype();
    a = a.to(wide);
    b = b.to(wide);
  }
  const Shape shape = broadcast_shape({a.shape(), b.shape()});
  Expr first = a.spread(shape);
  return {std::move(first), b.spread(shape)};
}

Expr Expr::binary(std::string_view name, const Expr& other) const {
  const auto [a, b] = with(other);
  return a.of(a.body_->binary(name, a.value_, b.value_));
}

Expr Expr::clamped(const Number& low, const Number& high) const {
  const Expr raised = binary("maximum", number(low, shape()));
  return raised.binary("minimum", raised.number(high, shape()));
}

Expr Expr::compared(std::string_view direction, const Expr& other) const {
  const auto [a, b] = with(other);
  return a.of(a.body_->compare(direction, a.value_, b.value_));
}

Expr Expr::real() const {
  if (!graph::is_complex(dtype())) return *this;
  return of(body_->op("real", {value_}, shape(), graph::real_part(dtype())));
}

Expr Expr::conj() const { return graph::is_complex(dtype()) ? of(body_->unary("chlo.conj", value_)) : *this; }

Expr Expr::where(const Expr& condition, const Expr& other) const {
  const auto [a, b] = inside(condition).with(other);
  const Shape shape = broadcast_shape({a.shape(), condition.shape()});
  const Expr chooses = condition.inside(a).spread(shape);
  const Expr first = a.inside(a).spread(shape);
  const Expr second = b.inside(a).spread(shape);
  return a.of(a.body_->select(chooses.value_, first.value_, second.value_));
}

Expr Expr::where(const Expr& condition, const Number& other) const {
  const Expr here = inside(condition);
  return here.where(condition, here.number(other, shape()));
}

Expr Expr::transposed() const {
  Shape order = counted_up(value_.rank());
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return of(body_->transpose(value_, order));
}

Expr Expr::at(const Expr& place, int64_t axis) const {
  if (const Expr here = inside(place); here.body_ != body_) return here.at(place, axis);
  std::vector<Value> operands = {value_};
  const Value zero = body_->splat(0, place.dtype());
  for (int each = 0; each < value_.rank(); ++each) operands.push_back(each == axis ? place.value_ : zero);
  Shape sizes = shape();
  sizes.at(axis) = 1;
  return of(body_->op("dynamic_slice", operands, sizes, dtype(), "slice_sizes = " + numbers(sizes)));
}

Expr Expr::reduced(std::string_view combiner, int64_t axis, const Number& initial) const {
  Shape sizes = shape();
  sizes.at(axis) = 1;
  return of(body_->reduce(combiner, value_, {axis}, initial)).reshape(sizes);
}

Expr Expr::dot(const Expr& other) const {
  const Expr here = inside(other);
  return here.of(here.body_->dot(value_, other.value_, {{2}, {1}}, {{0}, {0}}));
}

Expr identity(const Expr& like, int64_t rows, int64_t columns) {
  const Shape shape = {1, rows, columns};
  const Expr row = like.iota(shape, 1);
  return row.equals(like.iota(shape, 2)).to(like.dtype());
}

std::vector<Expr> loop(const std::variant<int64_t, Value>& count, const std::vector<Expr>& carried,
                       const Step& step) {
  Body& body = carried.at(0).body();
  std::vector<Value> values = {body.splat(0, ElementType::kI32)};
  const auto* number = std::get_if<int64_t>(&count);
  const Value limit = number ? body.splat(*number, ElementType::kI32) : std::get<Value>(count);
  std::vector<Kind> kinds;
  for (const Expr& each : carried) values.push_back(each.value());
  for (const Value& each : values) kinds.emplace_back(each.shape, each.dtype);
  const auto goes_on = [&](Body& inner, const std::vector<Value>& given) {
    return std::vector{inner.compare("LT", given[0], limit)};
  };
  const auto next = [&](Body& inner, const std::vector<Value>& given) {
    std::vector<Expr> now;
    for (size_t i = 1; i < given.size(); ++i) now.emplace_back(inner, given[i]);
    const auto made = step(Expr(inner, given[0]), now);
    std::vector<Value> results = {inner.add(given[0], inner.splat(1, ElementType::kI32))};
    for (size_t i = 0; i < made.size(); ++i) {
      OPENTRN_CHECK(made[i].value().type() == now.at(i).value().type(), "a loop carries {} and got {}",
                    now[i].value().type(), made[i].value().type());
      results.push_back(made[i].value());
    }
    return results;
  };
  const std::string condition = body.block(kinds, goes_on);
  const std::string region = body.block(kinds, next);
  const auto made = body.ops("while", values, kinds, "", " (" + condition + ", " + region + ")");
  std::vector<Expr> results;
  for (size_t i = 1; i < made.size(); ++i) results.emplace_back(body, made[i]);
  return results;
}

Expr matrices(Body& body, const Value& value) {
  const size_t rank = value.shape.size();
  const int64_t batch = size_of(Shape(value.shape.begin(), value.shape.end() - 2));
  return {body, body.reshape(value, {batch, value.shape[rank - 2], value.shape[rank - 1]})};
}

Expr spread_matrices(Body& body, const Value& value, const Shape& batch) {
  Shape shape = batch;
  shape.insert(shape.end(), value.shape.end() - 2, value.shape.end());
  return matrices(body, body.broadcast(value, shape));
}

Shape joint_batch(const Value& a, const Value& b) {
  return broadcast_shape(
      {Shape(a.shape.begin(), a.shape.end() - 2), Shape(b.shape.begin(), b.shape.end() - 2)});
}

Expr triangle(const Expr& a, bool upper) {
  const Expr rows = a.iota(a.shape(), 1);
  const Expr columns = a.iota(a.shape(), 2);
  return a.where(upper ? columns >= rows : rows >= columns, 0);
}

Expr solved(const Expr& a, const Expr& b, const Triangular& how) {
  if (is_empty(b.shape())) return b;
  const auto word = [](bool flag) { return flag ? "true" : "false"; };
  const std::string text =
      fmt::format("left_side = {}, lower = {}, unit_diagonal = {}, transpose_a = #stablehlo<transpose {}>",
                  word(how.left), word(how.lower), word(how.unit), how.adjoint ? "ADJOINT" : "NO_TRANSPOSE");
  return b.of(b.body().op("triangular_solve", {a.value(), b.value()}, b.shape(), b.dtype(), text));
}

}  // namespace opentrn::import::aten
