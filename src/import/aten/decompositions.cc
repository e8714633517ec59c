// QR, LU, eigenvalues and singular values: custom calls which the compiler expands (src/graph/solver_call.h).
//
// Packed factors, coefficients and pivots are LAPACK's. `solve`, `inv`, `det` and others are taken apart into
// these ops (opentrn/torch/linear_algebra.py).
#include <algorithm>

#include <fmt/format.h>

#include "import/aten/expression.h"
#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

// The sizes of the last two dimensions, and those before them.
struct Sizes {
  Shape batch;
  int64_t rows = 0;
  int64_t columns = 0;

  explicit Sizes(const Shape& shape)
      : batch(shape.begin(), shape.end() - 2), rows(shape.end()[-2]), columns(shape.end()[-1]) {}
  int64_t least() const { return std::min(rows, columns); }
  Shape with(const Shape& last) const {
    Shape made = batch;
    made.insert(made.end(), last.begin(), last.end());
    return made;
  }
};

// The results of `opentrn.<name>`: [..., rows, columns], vectors [..., count].
std::vector<Value> called(Body& body, std::string_view name, const std::vector<Value>& operands,
                          const std::vector<Kind>& results, std::string_view words = "") {
  return body.ops("custom_call", operands, results,
                  fmt::format("call_target_name = \"opentrn.{}\", backend_config = \"{}\"", name, words));
}

// Of those leading dimensions.
Value unit_matrix(Body& body, const Shape& shape, ElementType dtype) {
  const Sizes sizes(shape);
  const Expr like(body, body.splat(0, dtype));
  const Value one = identity(like, sizes.rows, sizes.columns).value();
  return body.broadcast(body.reshape(one, {sizes.rows, sizes.columns}), shape);
}

Value empty_result(Body& body, const Spec& spec) { return body.splat(0, spec.dtype, spec.shape); }

// ---- QR

// (R above the reflections' vectors, coefficients)
std::vector<Value> reflections(Body& body, const Value& value) {
  const Sizes sizes(value.shape);
  return called(body, "geqrf", {value},
                {{value.shape, value.dtype}, {sizes.with({sizes.least()}), value.dtype}});
}

// Q b, or Q^H b, of Q the product of the reflections in `packed`.
Value reflected(Body& body, const Value& packed, const Value& taus, const Value& b, bool adjoint) {
  return called(body, "ormqr", {packed, taus, b}, {{b.shape, b.dtype}}, adjoint ? "adjoint" : "")[0];
}

// (Q, R); Q has all columns with mode "complete", and is empty with "r".
Results qr(Call& call) {
  Body& body = call.body;
  const std::string& mode = call.named("mode").text();
  const auto made = reflections(body, call.value(0));
  const Sizes sizes(call.value(0).shape);
  const int64_t rows = mode == "complete" ? sizes.rows : sizes.least();
  const Expr above = matrices(body, made[0]).part(1, 0, rows);
  const Value upper = triangle(above, true).reshape(call.outs.at(1).shape).value();
  const Spec& q = call.outs[0];
  if (mode == "r") return {empty_result(body, q), upper};
  return {reflected(body, made[0], made[1], unit_matrix(body, q.shape, q.dtype), false), upper};
}

Results geqrf(Call& call) {
  const auto made = reflections(call.body, call.value(0));
  return {made[0], made[1]};
}

// As many columns of Q as the value has.
Value householder_product(Call& call) {
  const Value& value = call.value(0);
  return reflected(call.body, value, call.value(1), unit_matrix(call.body, value.shape, value.dtype), false);
}

// Q b or b Q, or with Q^H; from the right it is the adjoint of what the left has.
Value ormqr(Call& call) {
  Body& body = call.body;
  const Value& b = call.value(2);
  const bool transpose = call.named("transpose").flag();
  if (call.named("left").flag()) return reflected(body, call.value(0), call.value(1), b, transpose);
  const Sizes sizes(b.shape);
  const Value turned = matrices(body, b).adjoint().reshape(sizes.with({sizes.columns, sizes.rows})).value();
  const Value made = reflected(body, call.value(0), call.value(1), turned, !transpose);
  return matrices(body, made).adjoint().reshape(call.out().shape).value();
}

// ---- LU

// (L below U in one matrix; the row that each was exchanged with, from 1; info)
std::vector<Value> factors_of(Body& body, const Value& value, bool pivot) {
  const Sizes sizes(value.shape);
  return called(body, "getrf", {value},
                {{value.shape, value.dtype}, {sizes.with({sizes.least()}), kI32}, {sizes.batch, kI32}},
                pivot ? "" : "no_pivot");
}

// [batch, rows], int32: where each row of L U comes from.
Expr order_of(const Expr& pivots, int64_t rows) {
  const int64_t batch = pivots.shape()[0];
  const int64_t count = pivots.shape()[1];
  const Expr places = pivots.iota({1, rows}, 1);
  const Expr start = places.spread({batch, rows});
  if (batch == 0 || count == 0) return start;
  const auto step = [&](const Expr& i, const std::vector<Expr>& now) {
    const Expr other = pivots.at(i, 1) - int64_t{1};
    const Expr mine = now[0].at(i, 1);
    const Expr theirs = now[0].where(places.equals(other), int64_t{0}).sum(1);
    const Expr is_mine = places.equals(i);
    return std::vector{theirs.where(is_mine, mine.where(places.equals(other), now[0]))};
  };
  return loop(count, {start}, step)[0];
}

// P of A = P L U, [batch, rows, rows]; pivots [..., count], int32.
Expr permutation_of(Body& body, const Value& pivots, int64_t rows, const Expr& like) {
  const int64_t count = pivots.shape.back();
  const Shape lead(pivots.shape.begin(), pivots.shape.end() - 1);
  const Expr steps(body, body.reshape(pivots, {size_of(lead), count}));
  const Expr source = order_of(steps, rows).reshape({steps.shape()[0], 1, rows});
  return like.iota({1, rows, rows}, 1).equals(source).to(like.dtype());
}

// (LU, pivots, info)
Results lu_factor(Call& call) {
  const auto made = factors_of(call.body, call.value(0), call.named("pivot").flag());
  if (call.named("check_errors").flag())
    call.body.check_info(made[2], "torch.linalg.lu_factor_ex", call.value(0).rank() == 2);
  return {made.begin(), made.end()};
}

struct Unpacked {
  Expr permutation;
  Expr lower;
  Expr upper;
};

Unpacked unpacked(Body& body, const Value& packed, const Value& pivots, bool pivot) {
  const Expr a = matrices(body, packed);
  const Sizes sizes(a.shape());
  const int64_t count = sizes.least();
  const Expr below = a.part(2, 0, count);
  const Expr rows = below.iota({1, sizes.rows, count}, 1);
  const Expr diagonal = rows.equals(below.iota({1, sizes.rows, count}, 2));
  const Expr ones = below.number(int64_t{1}, below.shape());
  const Expr lower = ones.where(diagonal, triangle(below, false));
  const Expr permutation =
      pivot ? permutation_of(body, pivots, sizes.rows, a) : identity(a, sizes.rows, sizes.rows);
  return {permutation, lower, triangle(a.part(1, 0, count), true)};
}

// (P, L, U); what is not asked for is empty.
Results lu_unpack(Call& call) {
  Body& body = call.body;
  const auto [permutation, lower, upper] =
      unpacked(body, call.value(0), body.convert(call.value(1), kI32), true);
  const bool data = call.at(2).flag();
  const bool asked[] = {call.at(3).flag(), data, data};
  const Expr* made[] = {&permutation, &lower, &upper};
  Results results;
  for (size_t i = 0; i < 3; ++i)
    results.emplace_back(asked[i] ? made[i]->reshape(call.outs.at(i).shape).value()
                                  : empty_result(body, call.outs.at(i)));
  return results;
}

// (P, L, U); P is empty without exchanges.
Results lu(Call& call) {
  Body& body = call.body;
  const bool pivot = call.named("pivot").flag();
  const auto packed = factors_of(body, call.value(0), pivot);
  const auto [permutation, lower, upper] = unpacked(body, packed[0], packed[1], pivot);
  Results made = {pivot ? permutation.reshape(call.outs.at(0).shape).value()
                        : empty_result(body, call.outs.at(0))};
  made.emplace_back(lower.reshape(call.outs.at(1).shape).value());
  made.emplace_back(upper.reshape(call.outs.at(2).shape).value());
  return made;
}

// X of A X = b, or of A's adjoint.
Expr solved_by_factors(const Expr& packed, const Expr& permutation, const Expr& b, bool adjoint) {
  if (!adjoint) {
    const Expr half = solved(packed, permutation.adjoint().dot(b), {.lower = true, .unit = true});
    return solved(packed, half, {.lower = false});
  }
  const Expr half = solved(packed, b, {.lower = false, .adjoint = true});
  return permutation.dot(solved(packed, half, {.lower = true, .unit = true, .adjoint = true}));
}

// From the right it is the adjoint system of the adjoints.
Value lu_solve(Call& call) {
  Body& body = call.body;
  if (is_empty(call.out().shape)) return empty_result(body, call.out());
  const Value& pivots = call.value(1);
  const bool adjoint = call.named("adjoint").flag();
  const Shape batch = joint_batch(call.value(0), call.value(2));
  const Expr a = spread_matrices(body, call.value(0), batch);
  const Expr b = spread_matrices(body, call.value(2), batch);
  const int64_t size = pivots.shape.back();
  Shape every = batch;
  every.push_back(size);
  const Value steps = body.broadcast(body.convert(pivots, kI32), every);
  const Expr permutation = permutation_of(body, steps, size, a);
  const Expr made = call.named("left").flag()
                        ? solved_by_factors(a, permutation, b, adjoint)
                        : solved_by_factors(a, permutation, b.adjoint(), !adjoint).adjoint();
  return made.reshape(call.out().shape).value();
}

// ---- eigenvalues and singular values

// (eigenvalues rising, eigenvectors as columns). One triangle is read.
Results eigh(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const std::string& triangle_of = call.at(1).text();
  const Shape lead(value.shape.begin(), value.shape.end() - 1);
  const bool is_upper = triangle_of == "U" || triangle_of == "u";
  const auto made =
      called(body, "eigh", {value}, {{lead, graph::real_part(value.dtype)}, {value.shape, value.dtype}},
             is_upper ? "upper sorted" : "lower sorted");
  return {made[0], call.at(2).flag() ? made[1] : empty_result(body, call.outs.at(1))};
}

// (U, singular values falling, V^H)
Results svd(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const Sizes sizes(value.shape);
  const bool compute_uv = call.named("compute_uv").flag();
  const bool full = call.named("full_matrices").flag() && compute_uv;
  const int64_t count = sizes.least();
  const auto made = called(body, "svd", {value},
                           {{sizes.with({sizes.rows, full ? sizes.rows : count}), value.dtype},
                            {sizes.with({count}), graph::real_part(value.dtype)},
                            {sizes.with({full ? sizes.columns : count, sizes.columns}), value.dtype}},
                           full ? "full" : "");
  if (compute_uv) return {made[0], made[1], made[2]};
  const Value none = empty_result(body, call.outs.at(0));
  return {none, made[1], empty_result(body, call.outs.at(2))};
}

}  // namespace

Table decompositions() {
  return {
      {{"linalg_qr.default"}, qr},
      {{"geqrf.default"}, geqrf},
      {{"linalg_householder_product.default"}, householder_product},
      {{"ormqr.default"}, ormqr},
      {{"linalg_lu_factor_ex.default"}, lu_factor},
      {{"lu_unpack.default"}, lu_unpack},
      {{"linalg_lu.default"}, lu},
      {{"linalg_lu_solve.default"}, lu_solve},
      {{"_linalg_eigh.default"}, eigh},
      {{"_linalg_svd.default"}, svd},
  };
}

}  // namespace opentrn::import::aten
