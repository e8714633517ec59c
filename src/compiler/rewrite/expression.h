// Arithmetic on graph values, for passes that write an op as simpler ones.
//
// An Expr is a value and the builder that made it; numbers become splats of the value's type. Every operation
// is one op of the graph, so every operation rounds once to the element type.
#pragma once

#include <span>

#include "compiler/analysis/dims.h"
#include "graph/builder.h"

namespace opentrn::compiler {

class Expr {
 public:
  Expr(graph::Builder& builder, graph::ValueId id) : builder_(&builder), id_(id) {}

  graph::Builder& builder() const { return *builder_; }
  graph::ValueId id() const { return id_; }
  const graph::Type& type() const { return builder_->type(id_); }
  // A splat of this value's type.
  Expr number(double value) const { return {*builder_, builder_->splat(type(), value)}; }
  // A splat of this value's type with these bits (integers of up to 32 bits).
  Expr bits(uint32_t value) const { return number(static_cast<double>(static_cast<int32_t>(value))); }
  Expr as(graph::ElementType element) const { return {*builder_, builder_->convert(id_, element)}; }
  // The same bits as another type of the same width.
  Expr seen_as(graph::ElementType element) const;

  Expr unary(graph::OpKind kind) const { return {*builder_, builder_->add(kind, {id_})}; }
  Expr binary(graph::OpKind kind, const Expr& other) const {
    return {*builder_, builder_->add(kind, {id_, other.id_})};
  }
  Expr compare(graph::ComparisonDirection direction, const Expr& other) const {
    return {*builder_, builder_->compare(direction, id_, other.id_)};
  }

 private:
  graph::Builder* builder_;
  graph::ValueId id_;
};

inline Expr operator+(const Expr& a, const Expr& b) { return a.binary(graph::OpKind::add_, b); }
inline Expr operator-(const Expr& a, const Expr& b) { return a.binary(graph::OpKind::subtract_, b); }
inline Expr operator*(const Expr& a, const Expr& b) { return a.binary(graph::OpKind::multiply_, b); }
inline Expr operator/(const Expr& a, const Expr& b) { return a.binary(graph::OpKind::divide_, b); }
inline Expr operator+(const Expr& a, double b) { return a + a.number(b); }
inline Expr operator-(const Expr& a, double b) { return a - a.number(b); }
inline Expr operator*(const Expr& a, double b) { return a * a.number(b); }
inline Expr operator/(const Expr& a, double b) { return a / a.number(b); }
inline Expr operator-(double a, const Expr& b) { return b.number(a) - b; }
inline Expr operator/(double a, const Expr& b) { return b.number(a) / b; }
inline Expr operator-(const Expr& a) { return a.unary(graph::OpKind::negate_); }

// Integers and booleans.
inline Expr operator&(const Expr& a, const Expr& b) { return a.binary(graph::OpKind::and_, b); }
inline Expr operator|(const Expr& a, const Expr& b) { return a.binary(graph::OpKind::or_, b); }
inline Expr operator^(const Expr& a, const Expr& b) { return a.binary(graph::OpKind::xor_, b); }
inline Expr operator~(const Expr& a) { return a.unary(graph::OpKind::not_); }
// Logical shifts.
inline Expr operator<<(const Expr& a, int bits) {
  return a.binary(graph::OpKind::shift_left_, a.number(bits));
}
inline Expr operator>>(const Expr& a, int bits) {
  return a.binary(graph::OpKind::shift_right_logical_, a.number(bits));
}

inline Expr operator<(const Expr& a, const Expr& b) { return a.compare(graph::ComparisonDirection::kLt, b); }
inline Expr operator<=(const Expr& a, const Expr& b) { return a.compare(graph::ComparisonDirection::kLe, b); }
inline Expr operator>(const Expr& a, const Expr& b) { return a.compare(graph::ComparisonDirection::kGt, b); }
inline Expr operator>=(const Expr& a, const Expr& b) { return a.compare(graph::ComparisonDirection::kGe, b); }
inline Expr operator==(const Expr& a, const Expr& b) { return a.compare(graph::ComparisonDirection::kEq, b); }
inline Expr operator!=(const Expr& a, const Expr& b) { return a.compare(graph::ComparisonDirection::kNe, b); }
inline Expr operator<(const Expr& a, double b) { return a < a.number(b); }
inline Expr operator<=(const Expr& a, double b) { return a <= a.number(b); }
inline Expr operator>(const Expr& a, double b) { return a > a.number(b); }
inline Expr operator>=(const Expr& a, double b) { return a >= a.number(b); }
inline Expr operator==(const Expr& a, double b) { return a == a.number(b); }
inline Expr operator!=(const Expr& a, double b) { return a != a.number(b); }

Expr select(const Expr& condition, const Expr& on_true, const Expr& on_false);
Expr abs(const Expr& x);
Expr exp(const Expr& x);
Expr expm1(const Expr& x);
Expr log(const Expr& x);
Expr log1p(const Expr& x);
Expr sqrt(const Expr& x);
Expr sin(const Expr& x);
Expr cos(const Expr& x);
Expr floor(const Expr& x);
Expr nearest(const Expr& x);  // ties to even
Expr min(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);
Expr is_nan(const Expr& x);
// Of f32 values: true for -0 too.
Expr is_negative(const Expr& x);
// c[0] + c[1] x + c[2] x^2 + ...
Expr polynomial(const Expr& x, std::span<const double> coefficients);

// Elements [begin, end) of one dimension.
graph::ValueId part_of(graph::Builder& builder, graph::ValueId value, int64_t dimension, int64_t begin,
                       int64_t end);
// With `filling` around and between the elements of each dimension, as pad has it; negative edges cut off.
graph::ValueId padded(graph::Builder& builder, graph::ValueId value, graph::ValueId filling, const Dims& low,
                      const Dims& high, const Dims& interior);
// `count` elements of each dimension from `start`, `step` apart.
graph::ValueId strided(graph::Builder& builder, graph::ValueId value, const Dims& start, const Dims& count,
                       const Dims& step);

}  // namespace opentrn::compiler
