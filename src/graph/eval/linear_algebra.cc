// cholesky and triangular_solve, in double (complex double) with one rounding of each result.
#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/eval/bodies.h"
#include "graph/eval/conjugate.h"
#include "graph/eval/indexing.h"

namespace opentrn::graph::eval {

namespace {

// The lower factor of one n x n matrix of which only the lower triangle is read. Not positive definite:
// all NaN, as the spec leaves it to the implementation and XLA does.
template <typename T>
void factor_lower(const T* a, T* l, int64_t n) {
  for (int64_t column = 0; column < n; ++column) {
    Real diagonal = real_of(a[column * n + column]);
    for (int64_t k = 0; k < column; ++k) diagonal -= std::norm(l[column * n + k]);
    if (!(diagonal > 0)) {
      std::fill(l, l + n * n, T(std::numeric_limits<Real>::quiet_NaN()));
      return;
    }
    const Real pivot = std::sqrt(diagonal);
    l[column * n + column] = pivot;
    for (int64_t row = column + 1; row < n; ++row) {
      T sum = a[row * n + column];
      for (int64_t k = 0; k < column; ++k) sum -= l[row * n + k] * conjugate(l[column * n + k]);
      l[row * n + column] = sum / pivot;
    }
  }
}

// Calls body with the values of a float or complex tensor.
template <typename Body>
Tensor with_floats(const Call& call, const Tensor& tensor, Body&& body) {
  if (is_float(tensor.element())) return body(tensor.values<Real>());
  if (is_complex(tensor.element())) return body(tensor.values<Complex>());
  call.fail(fmt::format("it is not defined on {}", tensor.type().to_string()));
}

}  // namespace

Tensor cholesky(const Call& call) {
  const Tensor& a = call.tensor(0);
  if (a.rank() < 2 || a.dims().back() != a.dims()[a.dims().size() - 2])
    call.fail(fmt::format("{} is not a batch of square matrices", a.type().to_string()));
  const bool lower = call.op().boolean_or(Attr::lower, false);
  const int64_t n = a.dims().back();
  return with_floats(call, a, [&]<typename T>(const std::vector<T>& values) {
    std::vector<T> factors(values.size());
    std::vector<T> source(static_cast<size_t>(n * n));
    std::vector<T> factor(static_cast<size_t>(n * n));
    for (size_t at = 0; at < values.size(); at += source.size()) {
      // A = U^H U reads the upper triangle: the lower one of the transpose.
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j)
          source[static_cast<size_t>(i * n + j)] =
              lower ? values[at + static_cast<size_t>(i * n + j)]
                    : conjugate(values[at + static_cast<size_t>(j * n + i)]);
      std::fill(factor.begin(), factor.end(), T{});
      factor_lower(source.data(), factor.data(), n);
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j)
          factors[at + static_cast<size_t>(i * n + j)] =
              lower ? factor[static_cast<size_t>(i * n + j)]
                    : conjugate(factor[static_cast<size_t>(j * n + i)]);
    }
    return call.finish(call.result(a.dims()), std::move(factors));
  });
}

// op(A) X = B or X op(A) = B by substitution. The other triangle of A is not read.
Tensor triangular_solve(const Call& call) {
  const Tensor& a = call.tensor(0);
  const Tensor& b = call.tensor(1);
  const Op& op = call.op();
  const bool left = op.boolean(Attr::left_side);
  const bool lower = op.boolean(Attr::lower);
  const bool unit = op.boolean(Attr::unit_diagonal);
  const auto kind = op.enumeration(Attr::transpose_a, Transpose::kNone);
  const bool transposed = kind == Transpose::kTranspose || kind == Transpose::kAdjoint;
  if (a.rank() < 2 || a.rank() != b.rank() || a.dims().back() != a.dims()[a.dims().size() - 2] ||
      b.dims()[b.dims().size() - (left ? 2 : 1)] != a.dims().back())
    call.fail(fmt::format("{} and {}", a.type().to_string(), b.type().to_string()));
  const int64_t n = a.dims().back();
  const int64_t rows = b.dims()[b.dims().size() - 2];
  const int64_t columns = b.dims().back();
  const int64_t batch = a.size() == 0 ? 0 : a.size() / (n * n);
  return with_floats(call, a, [&]<typename T>(const std::vector<T>& matrices) {
    std::vector<T> x = b.values<T>();
    // X op(A) = B is op(A)^T X^T = B^T: the same substitution along rows of X.
    const bool flipped = transposed != !left;
    const bool forward = lower != flipped;
    const int64_t vectors = left ? columns : rows;
    for (int64_t i = 0; i < batch; ++i) {
      const T* matrix = matrices.data() + i * n * n;
      T* solution = x.data() + i * rows * columns;
      const auto coefficient = [&](int64_t row, int64_t column) {
        const T value = flipped ? matrix[column * n + row] : matrix[row * n + column];
        return kind == Transpose::kAdjoint ? conjugate(value) : value;
      };
      for (int64_t v = 0; v < vectors; ++v) {
        const auto element = [&](int64_t k) -> T& {
          return left ? solution[k * columns + v] : solution[v * columns + k];
        };
        for (int64_t step = 0; step < n; ++step) {
          const int64_t row = forward ? step : n - 1 - step;
          T sum = element(row);
          for (int64_t done = 0; done < step; ++done) {
            const int64_t column = forward ? done : n - 1 - done;
            sum -= coefficient(row, column) * element(column);
          }
          element(row) = unit ? sum : sum / coefficient(row, row);
        }
      }
    }
    return call.finish(call.result(b.dims()), std::move(x));
  });
}

}  // namespace opentrn::graph::eval
