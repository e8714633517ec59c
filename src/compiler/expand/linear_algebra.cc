// cholesky and triangular_solve by halves: small blocks are kernels, or of up to kBlock rows written out row
// by row; larger ones are two of half the size and a product. Only the triangle that counts is read.
#include <algorithm>
#include <limits>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"
#include "compiler/lowering/takes.h"

namespace opentrn::compiler {

namespace {

// Of numbers that no kernel of small matrices takes.
constexpr int64_t kBlock = 16;
// Of a factor that one kernel takes of larger matrices: all its elements lie in one partition, and in each of
// its steps all that are left are read, so that halves and products are faster from here on.
constexpr int64_t kCholeskyRows = 32;

// Batches of matrices: the last two dimensions.
class Matrices {
 public:
  explicit Matrices(Builder& builder) : builder_(builder) {}

  int64_t rows(const Expr& x) const { return x.type().dims()[x.type().dims().size() - 2]; }
  int64_t columns(const Expr& x) const { return x.type().dims().back(); }

  Expr part(const Expr& x, int64_t row, int64_t row_count, int64_t column, int64_t column_count) {
    Dims start(static_cast<size_t>(x.type().rank()), 0), limit = x.type().dims_vector();
    const size_t last = start.size() - 1;
    start[last - 1] = row;
    limit[last - 1] = row + row_count;
    start[last] = column;
    limit[last] = column + column_count;
    return {builder_, builder_.slice(x.id(), start, limit)};
  }

  Expr transposed(const Expr& x) {
    Dims permutation(static_cast<size_t>(x.type().rank()));
    for (size_t i = 0; i < permutation.size(); ++i) permutation[i] = static_cast<int64_t>(i);
    std::swap(permutation[permutation.size() - 2], permutation.back());
    return {builder_, builder_.transpose(x.id(), permutation)};
  }

  // Real numbers as they are.
  Expr conjugate(const Expr& x) {
    return graph::is_complex(x.type().element()) ? x.unary(OpKind::chlo_conj_) : x;
  }

  Expr adjoint(const Expr& x) { return conjugate(transposed(x)); }

  Expr stacked(const Expr& upper, const Expr& lower) {
    return {builder_, builder_.concatenate({upper.id(), lower.id()}, upper.type().rank() - 2)};
  }

  Expr side_by_side(const Expr& left, const Expr& right) {
    return {builder_, builder_.concatenate({left.id(), right.id()}, left.type().rank() - 1)};
  }

  Expr zeros(const Expr& like, int64_t row_count, int64_t column_count) {
    Dims dims = like.type().dims_vector();
    dims[dims.size() - 2] = row_count;
    dims.back() = column_count;
    return {builder_, builder_.splat(like.type().with_dims(std::move(dims)), 0)};
  }

  // One row or one column of numbers, for every row and column.
  Expr spread(const Expr& x, int64_t row_count, int64_t column_count) {
    Dims dims = x.type().dims_vector(), places;
    for (size_t i = 0; i < dims.size(); ++i) places.push_back(static_cast<int64_t>(i));
    dims[dims.size() - 2] = row_count;
    dims.back() = column_count;
    return {builder_, builder_.broadcast_in_dim(x.id(), std::move(dims), std::move(places))};
  }

  Expr product(const Expr& a, const Expr& b) {
    const int64_t rank = a.type().rank();
    Dims batch, left{rank - 1}, right{rank - 2};
    for (int64_t i = 0; i < rank - 2; ++i) batch.push_back(i);
    Dims dims = a.type().dims_vector();
    dims.back() = columns(b);
    return {builder_, builder_.add(OpKind::dot_general_, {a.id(), b.id()},
                                   {{Attr::lhs_batching_dimensions, graph::Attribute(batch)},
                                    {Attr::rhs_batching_dimensions, graph::Attribute(batch)},
                                    {Attr::lhs_contracting_dimensions, graph::Attribute(left)},
                                    {Attr::rhs_contracting_dimensions, graph::Attribute(right)}},
                                   {a.type().with_dims(std::move(dims))})};
  }

  // Whose small ones the device takes as they are.
  static bool has_kernel(const Expr& x) { return x.type().element() == ElementType::kF32; }

  // L X = B, L lower triangular or upper; `unit`: its diagonal is not read, and is one.
  Expr solve(const Expr& l, const Expr& b, bool lower, bool unit) {
    const int64_t n = rows(l), m = columns(b);
    if (has_kernel(l) && n <= kSmallMatrixRows)
      return {builder_, builder_.add(OpKind::triangular_solve_, {l.id(), b.id()},
                                     {{Attr::left_side, graph::Attribute(true)},
                                      {Attr::lower, graph::Attribute(lower)},
                                      {Attr::unit_diagonal, graph::Attribute(unit)},
                                      {Attr::transpose_a, static_cast<int64_t>(graph::Transpose::kNone)}})};
    if (n <= kBlock) return solve_rows(l, b, lower, unit);
    const int64_t half = n / 2, rest = n - half;
    const Expr above = part(b, 0, half, 0, m), below = part(b, half, rest, 0, m);
    const Expr first = part(l, 0, half, 0, half), last = part(l, half, rest, half, rest);
    if (lower) {
      const Expr known = solve(first, above, lower, unit);
      return stacked(known, solve(last, below - product(part(l, half, rest, 0, half), known), lower, unit));
    }
    const Expr known = solve(last, below, lower, unit);
    return stacked(solve(first, above - product(part(l, 0, half, half, rest), known), lower, unit), known);
  }

  // Every row, once known, is taken from those that are not.
  Expr solve_rows(const Expr& l, const Expr& b, bool lower, bool unit) {
    const int64_t n = rows(l), m = columns(b);
    Expr left = b;
    std::vector<ValueId> known;
    for (int64_t step = 0; step < n; ++step) {
      const int64_t others = n - step - 1, row = lower ? step : others;
      Expr x = part(left, lower ? 0 : others, 1, 0, m);
      if (!unit) x = x / spread(part(l, row, 1, row, 1), 1, m);
      known.push_back(x.id());
      if (others == 0) break;
      const Expr factors = part(l, lower ? row + 1 : 0, others, row, 1);
      left = part(left, lower ? 1 : 0, others, 0, m) - spread(factors, others, m) * spread(x, others, m);
    }
    if (!lower) std::ranges::reverse(known);
    return {builder_, builder_.concatenate(std::move(known), b.type().rank() - 2)};
  }

  // X L^H = B.
  Expr solve_from_right(const Expr& l, const Expr& b) {
    if (!has_kernel(l) || rows(l) > kSmallMatrixRows)
      return adjoint(solve(l, adjoint(b), /*lower=*/true, /*unit=*/false));
    return {builder_,
            builder_.add(OpKind::triangular_solve_, {l.id(), b.id()},
                         {{Attr::left_side, graph::Attribute(false)},
                          {Attr::lower, graph::Attribute(true)},
                          {Attr::unit_diagonal, graph::Attribute(false)},
                          {Attr::transpose_a, static_cast<int64_t>(graph::Transpose::kTranspose)}})};
  }

  // The lower factor; NaN from the first pivot that is not positive.
  Expr factor(const Expr& a) {
    const int64_t n = rows(a);
    if (has_kernel(a) && n <= kCholeskyRows)
      return {builder_, builder_.add(OpKind::cholesky_, {a.id()}, {{Attr::lower, graph::Attribute(true)}})};
    if (n > kBlock) {
      const int64_t half = n / 2, rest = n - half;
      const Expr upper = factor(part(a, 0, half, 0, half));
      const Expr below = solve_from_right(upper, part(a, half, rest, 0, half));
      const Expr last = factor(part(a, half, rest, half, rest) - product(below, adjoint(below)));
      return stacked(side_by_side(upper, zeros(a, half, rest)), side_by_side(below, last));
    }
    Expr left = a;
    std::optional<Expr> factors;
    for (int64_t column = 0; column < n; ++column) {
      const int64_t below = n - column - 1;
      const Expr first = part(left, 0, 1, 0, 1);
      const bool is_complex = graph::is_complex(first.type().element());
      const Expr square = is_complex ? first.unary(OpKind::real_) : first;  // the diagonal is real
      const Expr root =
          select(square > 0.0, sqrt(square), square.number(std::numeric_limits<double>::quiet_NaN()));
      const Expr pivot = is_complex ? root.binary(OpKind::complex_, root.number(0)) : root;
      Expr values = pivot;
      if (below > 0) {
        const Expr under = part(left, 1, below, 0, 1) / spread(pivot, below, 1);
        values = stacked(pivot, under);
        left = part(left, 1, below, 1, below) -
               spread(under, below, below) * spread(adjoint(under), below, below);
      }
      if (column > 0) values = stacked(zeros(a, column, 1), values);
      factors = factors ? side_by_side(*factors, values) : values;
    }
    return *factors;
  }

  // What is no factor is NaN as a whole, as LAPACK's callers and XLA have it: a pivot that is NaN has made
  // the last one NaN too.
  Expr whole_or_nan(const Expr& factor) {
    const int64_t n = rows(factor);
    const Expr last = part(factor, n - 1, 1, n - 1, 1);
    return factor + spread(last - last, n, n);
  }

 private:
  Builder& builder_;
};

bool on_numbers(const Function& function, const Op& op) {
  if (has_small_factors(function, op)) return false;
  for (const ValueId value : op.operands) {
    const graph::Type& type = function.type(value);
    if (!type.is_tensor() || !type.is_static() || type.element_count() == 0) return false;
    if (!graph::is_float(type.element()) && !graph::is_complex(type.element())) return false;
  }
  return true;
}

// What is computed in: no device has wider numbers.
Expr computed(const Expr& x) {
  return x.as(graph::is_complex(x.type().element()) ? ElementType::kComplexF32 : ElementType::kF32);
}

std::vector<ValueId> cholesky(Builder& builder, const Function&, const Op& op,
                              std::span<const ValueId> operands) {
  const Expr given(builder, operands[0]);
  const ElementType element = given.type().element();
  Matrices matrices(builder);
  const bool lower = op.boolean_or(Attr::lower, false);
  const Expr a = computed(given);
  const Expr factor = matrices.whole_or_nan(matrices.factor(lower ? a : matrices.adjoint(a)));
  return {(lower ? factor : matrices.adjoint(factor)).as(element).id()};
}

// Everything becomes L X = B: from the right by transposing.
std::vector<ValueId> triangular_solve(Builder& builder, const Function&, const Op& op,
                                      std::span<const ValueId> operands) {
  Expr a = computed(Expr(builder, operands[0])), b = Expr(builder, operands[1]);
  const ElementType element = b.type().element();
  b = computed(b);
  Matrices matrices(builder);
  const auto kind = op.enumeration(Attr::transpose_a, graph::Transpose::kNone);
  const bool transposes = kind == graph::Transpose::kTranspose || kind == graph::Transpose::kAdjoint;
  const bool left = op.boolean(Attr::left_side);
  const bool flips = transposes != !left, lower = op.boolean(Attr::lower) != flips;
  if (kind == graph::Transpose::kAdjoint) a = matrices.conjugate(a);
  if (flips) a = matrices.transposed(a);
  if (!left) b = matrices.transposed(b);
  Expr x = matrices.solve(a, b, lower, op.boolean(Attr::unit_diagonal));
  if (!left) x = matrices.transposed(x);
  return {x.as(element).id()};
}

constexpr Expansion kLinearAlgebraExpansions[] = {
    {OpKind::cholesky_, on_numbers, cholesky},
    {OpKind::triangular_solve_, on_numbers, triangular_solve},
};

}  // namespace

std::span<const Expansion> linear_algebra_expansions() { return kLinearAlgebraExpansions; }

}  // namespace opentrn::compiler
