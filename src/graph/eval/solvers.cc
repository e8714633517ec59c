// The plain textbook forms, in double (complex double) with one rounding of each result: one matrix, and one
// rotation or reflection at a time.
#include "graph/eval/solvers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/eval/conjugate.h"

namespace opentrn::graph::eval {

namespace {

Real imag_of(Real) { return 0; }
Real imag_of(Complex a) { return a.imag(); }

// One matrix, row after row.
template <typename T>
struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<T> values;

  Matrix(int64_t rows, int64_t columns)
      : rows(rows), columns(columns), values(static_cast<size_t>(rows * columns)) {}
  T& at(int64_t row, int64_t column) { return values[static_cast<size_t>(row * columns + column)]; }
  const T& at(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * columns + column)];
  }
  static Matrix identity(int64_t rows, int64_t columns) {
    Matrix made(rows, columns);
    for (int64_t i = 0; i < std::min(rows, columns); ++i) made.at(i, i) = 1;
    return made;
  }
  Matrix adjoint() const {
    Matrix made(columns, rows);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) made.at(j, i) = conjugate(at(i, j));
    return made;
  }
};

// A tensor's matrices, one after the other; results are appended to lists.
template <typename T>
Matrix<T> matrix_of(const std::vector<T>& values, int64_t number, int64_t rows, int64_t columns) {
  Matrix<T> made(rows, columns);
  std::copy_n(values.begin() + number * rows * columns, rows * columns, made.values.begin());
  return made;
}

template <typename T>
void append(std::vector<T>& list, const std::vector<T>& values) {
  list.insert(list.end(), values.begin(), values.end());
}

// Householder's reflections (geqr2): R above the vectors, and their coefficients.
template <typename T>
std::vector<T> reflect(Matrix<T>& a) {
  const int64_t count = std::min(a.rows, a.columns);
  std::vector<T> taus(static_cast<size_t>(count));
  for (int64_t j = 0; j < count; ++j) {
    Real below = 0;
    for (int64_t i = j + 1; i < a.rows; ++i) below = std::hypot(below, std::abs(a.at(i, j)));
    const T alpha = a.at(j, j);
    if (below == 0 && imag_of(alpha) == 0) continue;
    const Real length = std::hypot(std::abs(alpha), below), beta = real_of(alpha) >= 0 ? -length : length;
    const T tau = (T(beta) - alpha) / T(beta);
    for (int64_t i = j + 1; i < a.rows; ++i) a.at(i, j) /= alpha - T(beta);
    a.at(j, j) = beta;
    taus[static_cast<size_t>(j)] = tau;
    for (int64_t k = j + 1; k < a.columns; ++k) {
      T sum = a.at(j, k);
      for (int64_t i = j + 1; i < a.rows; ++i) sum += conjugate(a.at(i, j)) * a.at(i, k);
      a.at(j, k) -= conjugate(tau) * sum;
      for (int64_t i = j + 1; i < a.rows; ++i) a.at(i, k) -= conjugate(tau) * a.at(i, j) * sum;
    }
  }
  return taus;
}

// Q b, or Q^H b (org2r, ormqr).
template <typename T>
void apply(const Matrix<T>& packed, const std::vector<T>& taus, Matrix<T>& b, bool adjoint) {
  const auto count = static_cast<int64_t>(taus.size());
  for (int64_t step = 0; step < count; ++step) {
    const int64_t j = adjoint ? step : count - 1 - step;
    const T tau = adjoint ? conjugate(taus[static_cast<size_t>(j)]) : taus[static_cast<size_t>(j)];
    for (int64_t k = 0; k < b.columns; ++k) {
      T sum = b.at(j, k);
      for (int64_t i = j + 1; i < b.rows; ++i) sum += conjugate(packed.at(i, j)) * b.at(i, k);
      b.at(j, k) -= tau * sum;
      for (int64_t i = j + 1; i < b.rows; ++i) b.at(i, k) -= tau * packed.at(i, j) * sum;
    }
  }
}

// getrf: L below U; pivots from 1; which row each was, from 0; the place of the first pivot that is zero,
// from 1, or 0.
template <typename T>
Signed eliminate(Matrix<T>& a, std::vector<Signed>& pivots, std::vector<Signed>& orders, bool exchanges) {
  const int64_t count = std::min(a.rows, a.columns);
  const size_t first = orders.size();
  for (int64_t i = 0; i < a.rows; ++i) orders.push_back(i);
  Signed info = 0;
  for (int64_t j = 0; j < count; ++j) {
    int64_t chosen = j;
    const auto size = [&](int64_t i) {
      return std::abs(real_of(a.at(i, j))) + std::abs(imag_of(a.at(i, j)));
    };
    for (int64_t i = j; exchanges && i < a.rows; ++i) {
      if (std::isnan(size(chosen))) break;
      if (std::isnan(size(i)) || size(i) > size(chosen)) chosen = i;
    }
    pivots.push_back(chosen + 1);
    std::swap(orders[first + static_cast<size_t>(j)], orders[first + static_cast<size_t>(chosen)]);
    for (int64_t k = 0; k < a.columns; ++k) std::swap(a.at(j, k), a.at(chosen, k));
    if (a.at(j, j) == T(0)) {
      if (info == 0) info = j + 1;
      continue;
    }
    for (int64_t i = j + 1; i < a.rows; ++i) {
      a.at(i, j) /= a.at(j, j);
      for (int64_t k = j + 1; k < a.columns; ++k) a.at(i, k) -= a.at(i, j) * a.at(j, k);
    }
  }
  return info;
}

// The rotation of two columns that are at right angles afterwards, of lengths p and q and product `off`.
template <typename T>
struct Rotation {
  T cosine = 1, sine = 0, phase = 1;
  Rotation(Real p, Real q, T off) {
    const Real length = std::abs(off);
    if (length == 0) return;
    const Real tau = (q - p) / (2 * length);
    const Real tangent = (tau >= 0 ? 1 : -1) / (std::abs(tau) + std::hypot(1.0, tau));
    cosine = 1 / std::hypot(1.0, tangent);
    sine = tangent / std::hypot(1.0, tangent);
    phase = conjugate(off / T(length));
  }
  void turn(Matrix<T>& a, int64_t i, int64_t j) const {
    for (int64_t row = 0; row < a.rows; ++row) {
      const T left = a.at(row, i), right = phase * a.at(row, j);
      a.at(row, i) = cosine * left - sine * right;
      a.at(row, j) = sine * left + cosine * right;
    }
  }
};

constexpr int kSweepsMax = 60;
constexpr Real kSmall = 1e-15;

// Hestenes' one-sided Jacobi: a V has columns at right angles; returns V.
template <typename T>
Matrix<T> turn_columns(Matrix<T>& a) {
  Matrix<T> v = Matrix<T>::identity(a.columns, a.columns);
  bool more = true;
  for (int sweep = 0; more && sweep < kSweepsMax; ++sweep) {
    more = false;
    for (int64_t i = 0; i < a.columns; ++i)
      for (int64_t j = i + 1; j < a.columns; ++j) {
        Real p = 0, q = 0;
        T off = 0;
        for (int64_t row = 0; row < a.rows; ++row) {
          p += std::norm(a.at(row, i));
          q += std::norm(a.at(row, j));
          off += conjugate(a.at(row, i)) * a.at(row, j);
        }
        if (!(std::abs(off) > kSmall * std::sqrt(p * q))) continue;
        more = true;
        const Rotation<T> rotation(p, q, off);
        rotation.turn(a, i, j);
        rotation.turn(v, i, j);
      }
  }
  return v;
}

template <typename T>
Matrix<T> columns_of(const Matrix<T>& a, const std::vector<int64_t>& order) {
  Matrix<T> made(a.rows, a.columns);
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t column = 0; column < a.columns; ++column)
      made.at(row, column) = a.at(row, order[static_cast<size_t>(column)]);
  return made;
}

std::vector<int64_t> order_of(const std::vector<Real>& values, bool falling) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
    const Real x = values[static_cast<size_t>(a)], y = values[static_cast<size_t>(b)];
    return falling ? x > y : x < y;
  });
  return order;
}

// Two-sided Jacobi, the matrix in the rotated basis until nothing is left beside the diagonal.
template <typename T>
Matrix<T> diagonalise(Matrix<T>& a) {
  const int64_t n = a.rows;
  Matrix<T> v = Matrix<T>::identity(n, n);
  Real size = 0;
  for (const T value : a.values) size = std::hypot(size, std::abs(value));
  bool more = true;
  for (int sweep = 0; more && sweep < kSweepsMax; ++sweep) {
    more = false;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = i + 1; j < n; ++j) {
        if (!(std::abs(a.at(i, j)) > kSmall * size / static_cast<Real>(n))) continue;
        more = true;
        const Rotation<T> rotation(real_of(a.at(i, i)), real_of(a.at(j, j)), a.at(i, j));
        rotation.turn(a, i, j);
        a = a.adjoint();
        rotation.turn(a, i, j);
        a = a.adjoint();
        rotation.turn(v, i, j);
      }
  }
  return v;
}

// The triangle that is read, and its mirror image.
template <typename T>
Matrix<T> hermitian(const Matrix<T>& given, bool upper) {
  Matrix<T> made = given;
  for (int64_t i = 0; i < given.rows; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      const T value = upper ? conjugate(given.at(j, i)) : given.at(i, j);
      made.at(i, j) = i == j ? T(real_of(value)) : value;
      made.at(j, i) = conjugate(made.at(i, j));
    }
  return made;
}

template <typename T>
struct Singular {
  Matrix<T> u, v;
  std::vector<Real> values;
};

// Of a matrix that is not wider than high.
template <typename T>
Singular<T> singular(Matrix<T> a, bool full) {
  Matrix<T> v = turn_columns(a);
  std::vector<Real> lengths;
  for (int64_t j = 0; j < a.columns; ++j) {
    Real sum = 0;
    for (int64_t i = 0; i < a.rows; ++i) sum = std::hypot(sum, std::abs(a.at(i, j)));
    lengths.push_back(sum);
  }
  const std::vector<int64_t> order = order_of(lengths, true);
  a = columns_of(a, order);
  v = columns_of(v, order);
  // Columns of zeros have no direction: Q's are at right angles to all others.
  const std::vector<T> taus = reflect(a);
  Matrix<T> u = Matrix<T>::identity(a.rows, full ? a.rows : a.columns);
  apply(a, taus, u, false);
  std::vector<Real> values;
  for (int64_t j = 0; j < a.columns; ++j) {
    const Real value = std::abs(a.at(j, j));
    values.push_back(value);
    for (int64_t i = 0; value > 0 && i < a.rows; ++i) u.at(i, j) *= a.at(j, j) / T(value);
  }
  return {std::move(u), std::move(v), std::move(values)};
}

template <typename T>
Items decomposed(const Call& call, Solver solver, const std::vector<T>& given) {
  const Tensor& a = call.tensor(0);
  const Op& op = call.op();
  const auto dims = a.dims();
  const int64_t rows = dims[dims.size() - 2], columns = dims.back();
  const int64_t batch = std::accumulate(dims.begin(), dims.end() - 2, int64_t{1}, std::multiplies<>());
  const auto result = [&](size_t i, auto values) -> Item {
    return call.finish(call.stated(i), std::move(values));
  };
  std::vector<T> first, second;
  std::vector<Real> reals;
  std::vector<Signed> pivots, orders, infos;
  for (int64_t number = 0; number < batch; ++number) {
    Matrix<T> matrix = matrix_of(given, number, rows, columns);
    switch (solver) {
      case Solver::kGeqrf: {
        append(second, reflect(matrix));
        append(first, matrix.values);
        break;
      }
      case Solver::kOrmqr: {
        const int64_t count = call.tensor(1).dims().back(), width = call.tensor(2).dims().back();
        const std::vector<T> taus = matrix_of(call.tensor(1).values<T>(), number, 1, count).values;
        Matrix<T> b = matrix_of(call.tensor(2).values<T>(), number, rows, width);
        apply(matrix, taus, b, solver_says(op, "adjoint"));
        append(first, b.values);
        break;
      }
      case Solver::kGetrf: {
        infos.push_back(eliminate(matrix, pivots, orders, !solver_says(op, "no_pivot")));
        append(first, matrix.values);
        break;
      }
      case Solver::kEigh: {
        Matrix<T> whole = hermitian(matrix, solver_says(op, "upper"));
        Matrix<T> vectors = diagonalise(whole);
        std::vector<Real> values;
        for (int64_t i = 0; i < rows; ++i) values.push_back(real_of(whole.at(i, i)));
        if (solver_says(op, "sorted")) {
          const std::vector<int64_t> order = order_of(values, false);
          vectors = columns_of(vectors, order);
          std::ranges::sort(values);
        }
        append(reals, values);
        append(first, vectors.values);
        break;
      }
      case Solver::kSvd: {
        const bool is_wide = rows < columns;
        const Singular<T> made = singular(is_wide ? matrix.adjoint() : matrix, solver_says(op, "full"));
        append(first, (is_wide ? made.v : made.u).values);
        append(reals, made.values);
        append(second, (is_wide ? made.u : made.v).adjoint().values);
        break;
      }
    }
  }
  switch (solver) {
    case Solver::kGeqrf: return {result(0, std::move(first)), result(1, std::move(second))};
    case Solver::kOrmqr: return {result(0, std::move(first))};
    case Solver::kGetrf: {
      Items items{result(0, std::move(first)), result(1, std::move(pivots)), result(2, std::move(infos))};
      if (solver_says(op, "permutation")) items.push_back(result(3, std::move(orders)));
      return items;
    }
    case Solver::kEigh: return {result(0, std::move(reals)), result(1, std::move(first))};
    case Solver::kSvd:
      return {result(0, std::move(first)), result(1, std::move(reals)), result(2, std::move(second))};
  }
  OPENTRN_CHECK(false, "a decomposition without a body");
}

}  // namespace

Items solver(const Call& call, Solver kind) {
  const Tensor& a = call.tensor(0);
  if (is_complex(a.element())) return decomposed(call, kind, a.values<Complex>());
  return decomposed(call, kind, a.values<Real>());
}

}  // namespace opentrn::graph::eval
