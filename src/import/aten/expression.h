// Values with operators, and loops over them: for rules that are algorithms rather than one op.
#pragma once

#include <functional>
#include <variant>
#include <vector>

#include "import/aten/body.h"

namespace opentrn::import::aten {

inline constexpr ElementType kI32 = ElementType::kI32;

// A value in a body of a program. Sizes of 1, missing first dimensions and numbers broadcast. What is
// computed of values of a loop's body and of around it is in the loop.
class Expr {
 public:
  Expr(Body& body, Value value) : body_(&body), value_(std::move(value)) {}

  Body& body() const { return *body_; }
  const Value& value() const { return value_; }
  const Shape& shape() const { return value_.shape; }
  ElementType dtype() const { return value_.dtype; }
  // A constant of this type.
  Expr number(const Number& number, const Shape& shape = {}) const {
    return of(body_->splat(number, dtype(), shape));
  }
  // Places along an axis, int32.
  Expr iota(const Shape& shape, int64_t axis) const {
    return of(body_->iota(shape, axis, ElementType::kI32));
  }
  // This, in the inner one of both bodies.
  Expr inside(const Expr& other) const;

  Expr operator+(const Expr& other) const { return binary("add", other); }
  Expr operator-(const Expr& other) const { return binary("subtract", other); }
  Expr operator*(const Expr& other) const { return binary("multiply", other); }
  Expr operator/(const Expr& other) const { return binary("divide", other); }
  Expr operator&(const Expr& other) const { return binary("and", other); }
  Expr operator+(const Number& other) const { return *this + number(other, shape()); }
  Expr operator-(const Number& other) const { return *this - number(other, shape()); }
  Expr operator*(const Number& other) const { return *this * number(other, shape()); }
  Expr operator|(const Expr& other) const { return binary("or", other); }
  Expr operator/(const Number& other) const { return *this / number(other, shape()); }
  Expr operator-() const { return unary("negate"); }
  Expr operator!() const { return unary("not"); }
  Expr unary(std::string_view name) const { return of(body_->unary(name, value_)); }
  Expr binary(std::string_view name, const Expr& other) const;
  // At least, and at most, these numbers.
  Expr clamped(const Number& low, const Number& high) const;
  Expr operator<(const Expr& other) const { return compared("LT", other); }
  Expr operator<=(const Expr& other) const { return compared("LE", other); }
  Expr operator<(const Number& other) const { return *this < number(other, shape()); }
  Expr operator<=(const Number& other) const { return *this <= number(other, shape()); }
  Expr operator>=(const Number& other) const { return *this >= number(other, shape()); }
  Expr operator>(const Expr& other) const { return compared("GT", other); }
  Expr operator>=(const Expr& other) const { return compared("GE", other); }
  Expr operator>(const Number& other) const { return *this > number(other, shape()); }
  Expr equals(const Expr& other) const { return compared("EQ", other); }
  Expr equals(const Number& other) const { return equals(number(other, shape())); }
  Expr differs(const Expr& other) const { return compared("NE", other); }
  Expr real() const;
  Expr conj() const;
  Expr to(ElementType dtype) const { return of(body_->convert(value_, dtype)); }
  // These elements where the condition holds, the other's elsewhere.
  Expr where(const Expr& condition, const Expr& other) const;
  Expr where(const Expr& condition, const Number& other) const;

  Expr spread(const Shape& shape) const { return of(body_->broadcast(value_, shape)); }
  Expr reshape(const Shape& shape) const { return of(body_->reshape(value_, shape)); }
  // Of matrices, the last two dimensions; the adjoint is conjugated.
  Expr transposed() const;
  Expr adjoint() const { return transposed().conj(); }
  Expr part(int64_t axis, int64_t start, int64_t limit) const {
    return of(body_->slice_axis(value_, axis, start, limit));
  }
  // The slice of one at a computed place; the axis stays, of size 1.
  Expr at(const Expr& place, int64_t axis) const;
  // The axis stays, of size 1.
  Expr sum(int64_t axis) const { return reduced("add", axis, 0); }
  Expr max(int64_t axis) const { return reduced("maximum", axis, Body::lowest(dtype())); }
  Expr min(int64_t axis) const { return reduced("minimum", axis, Body::highest(dtype())); }
  // The product of batches of matrices, [batch, rows, columns] both.
  Expr dot(const Expr& other) const;
  Expr of(Value value) const { return {*body_, std::move(value)}; }

 private:
  std::pair<Expr, Expr> with(const Expr& other) const;
  Expr compared(std::string_view direction, const Expr& other) const;
  Expr reduced(std::string_view combiner, int64_t axis, const Number& initial) const;

  Body* body_;
  Value value_;
};

// [1, rows, columns] of a type.
Expr identity(const Expr& like, int64_t rows, int64_t columns);
// What `carried` is after step(i, carried) for each i below count, int32: a number or a scalar.
using Step = std::function<std::vector<Expr>(const Expr& i, const std::vector<Expr>& carried)>;
std::vector<Expr> loop(const std::variant<int64_t, Value>& count, const std::vector<Expr>& carried,
                       const Step& step);

// ---- matrices, [batch, rows, columns]

Expr matrices(Body& body, const Value& value);
// Of those leading dimensions.
Expr spread_matrices(Body& body, const Value& value, const Shape& batch);
Shape joint_batch(const Value& a, const Value& b);
// With zeros in the other triangle.
Expr triangle(const Expr& a, bool upper);
struct Triangular {
  bool lower = true;
  bool left = true;
  bool unit = false;
  bool adjoint = false;  // a's adjoint in its place
};
// X of a X = b, or of X a = b; only one triangle of a is read.
Expr solved(const Expr& a, const Expr& b, const Triangular& how);

}  // namespace opentrn::import::aten
