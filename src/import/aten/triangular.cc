// Cholesky's factor and triangular systems: StableHLO has ops for both, which the compiler expands.
#include <algorithm>

#include "import/aten/expression.h"
#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

// The factor with zeros in the other triangle; NaN where a matrix has none.
Expr cholesky_of(const Expr& a, bool upper) {
  const std::string text = upper ? "lower = false" : "lower = true";
  const Value made = a.body().op("cholesky", {a.value()}, a.shape(), a.dtype(), text);
  return triangle(a.of(made), upper);
}

// [batch], int32: 0, or the order of the first leading minor that is not positive, as LAPACK's potrf says.
//
// The elimination that finds it runs only where a factor is NaN.
Expr first_bad_minor(const Expr& a, const Expr& factor) {
  const int64_t batch = a.shape()[0];
  const int64_t size = a.shape()[1];
  const Expr none = a.iota({std::max<int64_t>(batch, 1)}, 0).part(0, 0, batch) * int64_t{0};
  const Expr corner = factor.part(1, size - 1, size).part(2, size - 1, size).real().reshape({batch});
  const Expr is_bad = corner.differs(corner).to(ElementType::kI32);
  const Expr count = is_bad.max(0).reshape({}) * size;
  const auto step = [batch](const Expr& j, const std::vector<Expr>& now) {
    const Expr& left = now[0];
    const Expr& found = now[1];
    const Expr column = left.at(j, 2);
    const Expr row = left.at(j, 1);
    const Expr pivot = column.at(j, 1);
    const Expr positive = (pivot.real() > int64_t{0}).reshape({batch}).equals(int64_t{0});
    const Expr bad = positive & found.equals(int64_t{0});
    const Expr rest = left - column * row / pivot;
    return std::vector{rest, (j + int64_t{1}).spread({batch}).where(bad, found)};
  };
  return loop(count.value(), {a, none}, step)[1];
}

struct Factored {
  Expr factor;
  Expr info;
};

// Only the triangle that the factor replaces is read.
Factored factored(Body& body, const Value& value, bool upper) {
  const Expr a = matrices(body, value);
  if (is_empty(a.shape())) return {a, {body, body.splat(0, ElementType::kI32, {a.shape()[0]})}};
  const Expr half = triangle(a, upper);
  const Expr made = cholesky_of(half, upper);
  const Expr rows = a.iota(a.shape(), 1);
  const Expr diagonal = rows.equals(a.iota(a.shape(), 2));
  const Expr whole = half + half.adjoint();
  return {made, first_bad_minor(half.where(diagonal, whole), made)};
}

// (the factor, info)
Results cholesky_ex(Call& call) {
  const Value& value = call.value(0);
  const auto [made, info] = factored(call.body, value, call.named("upper").flag());
  if (call.named("check_errors").flag())
    call.body.check_info(info.value(), "linalg.cholesky_ex", value.rank() == 2);
  const Value factor = made.reshape(value.shape).value();
  return {factor, info.reshape(call.outs.at(1).shape).value()};
}

Value cholesky(Call& call) {
  const Value& value = call.value(0);
  const auto [made, info] = factored(call.body, value, call.named("upper").flag());
  call.body.check_info(info.value(), "cholesky", value.rank() == 2);
  return made.reshape(value.shape).value();
}

Value solve_triangular(Call& call) {
  const Shape batch = joint_batch(call.value(0), call.value(1));
  const Expr a = spread_matrices(call.body, call.value(0), batch);
  const Expr b = spread_matrices(call.body, call.value(1), batch);
  const Triangular how{.lower = !call.named("upper").flag(),
                       .left = call.named("left").flag(),
                       .unit = call.named("unitriangular").flag()};
  return solved(a, b, how).reshape(call.out().shape).value();
}

// (X of a X = b, a)
Results triangular_solve(Call& call) {
  const Value& b = call.value(0);
  const Value& a = call.value(1);
  bool upper = call.named("upper").flag();
  const Shape batch = joint_batch(a, b);
  Expr coefficients = spread_matrices(call.body, a, batch);
  const Expr right = spread_matrices(call.body, b, batch);
  if (call.named("transpose").flag()) {
    coefficients = coefficients.transposed();
    upper = !upper;
  }
  const Expr made =
      solved(coefficients, right, {.lower = !upper, .unit = call.named("unitriangular").flag()});
  const Value first = made.reshape(call.outs.at(0).shape).value();
  return {first, call.body.broadcast(a, call.outs.at(1).shape)};
}

Expr by_factor(const Expr& factor, const Expr& b, bool upper) {
  const Expr half = solved(factor, b, {.lower = !upper, .adjoint = upper});
  return solved(factor, half, {.lower = !upper, .adjoint = !upper});
}

Value cholesky_solve(Call& call) {
  const Shape batch = joint_batch(call.value(1), call.value(0));
  const Expr a = spread_matrices(call.body, call.value(1), batch);
  const Expr b = spread_matrices(call.body, call.value(0), batch);
  return by_factor(a, b, call.named("upper").flag()).reshape(call.out().shape).value();
}

Value cholesky_inverse(Call& call) {
  const Expr a = matrices(call.body, call.value(0));
  const Expr one = identity(a, a.shape()[1], a.shape()[2]).spread(a.shape());
  return by_factor(a, one, call.named("upper").flag()).reshape(call.out().shape).value();
}

}  // namespace

Table triangular() {
  return {
      {{"linalg_cholesky_ex.default"}, cholesky_ex},
      {{"cholesky.default"}, cholesky},
      {{"linalg_solve_triangular.default"}, solve_triangular},
      {{"triangular_solve.default"}, triangular_solve},
      {{"cholesky_solve.default"}, cholesky_solve},
      {{"cholesky_inverse.default"}, cholesky_inverse},
  };
}

}  // namespace opentrn::import::aten
