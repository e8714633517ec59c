// Discrete Fourier transforms as matrix products, the parts of complex numbers side by side:
//
//   [re | im] (n + n columns) times [[C, -S], [S, C]], C and S the cosines and sines of 2 pi j k / n
//
// up to kMatrixMax points. A longer transform of n = a b points is a transforms of b points, twiddle factors
// and b transforms of a points (Cooley and Tukey), a the largest factor that a matrix takes. Transforms of
// real numbers have one matrix up to kRealMatrixMax: of a quarter of the size, it takes no more
// multiplications, and turning the factors around costs more than they do.
#include <cmath>
#include <cstring>
#include <numbers>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/expand/complex_parts.h"
#include "compiler/expand/expand.h"
#include "graph/element_value.h"

namespace opentrn::compiler {

using graph::FftType;

namespace {

constexpr int64_t kMatrixMax = 256, kRealMatrixMax = 1024;
// A length whose factors are all too small or too large has one matrix up to here.
constexpr int64_t kPrimeMax = 2048;

int64_t largest_factor(int64_t n) {
  for (int64_t factor = std::min(n, kMatrixMax); factor > 1; --factor)
    if (n % factor == 0) return factor;
  return 1;
}

bool has_length(int64_t n) {
  while (n > kMatrixMax) {
    const int64_t factor = largest_factor(n);
    if (factor == 1) return n <= kPrimeMax;
    n /= factor;
  }
  return true;
}

double angle(int64_t j, int64_t k, int64_t n) {
  return 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
}

// A constant of f32 elements by row and column.
template <typename Element>
ValueId matrix(Builder& builder, int64_t rows, int64_t columns, Element&& element) {
  std::vector<std::byte> bytes(static_cast<size_t>(rows * columns) * sizeof(float));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      graph::store_real(ElementType::kF32, element(i, j),
                        bytes.data() + (i * columns + j) * static_cast<int64_t>(sizeof(float)));
  return builder.constant(
      graph::Literal(graph::Type::tensor(ElementType::kF32, {rows, columns}), std::move(bytes)));
}

class Transform {
 public:
  explicit Transform(Builder& builder) : builder_(builder) {}

  // Along the last dimension; `sign` is that of the exponent. Nothing is scaled.
  Parts complex(const Parts& x, int sign) {
    const int64_t n = x.re.type().dims().back();
    if (n <= kMatrixMax || largest_factor(n) == 1) return by_matrix(x, sign);
    const int64_t a = largest_factor(n), b = n / a;
    Dims dims = x.re.type().dims_vector();
    const auto rank = static_cast<int64_t>(dims.size());
    dims.back() = a;
    dims.push_back(b);
    // x[j1 b + j2] by j2, j1: transforms of a points, of which k1 times twiddles[j2][k1].
    const Parts first = complex(swapped(reshaped(x, dims)), sign);
    const Parts transposed = times_twiddles(first, a, b, sign);
    // by k1, j2: transforms of b points, which give X[k1 + a k2].
    const Parts second = complex(swapped(transposed), sign);
    Dims flat(dims.begin(), dims.begin() + rank - 1);
    flat.push_back(n);
    return reshaped(swapped(second), flat);
  }

  // The first half of the spectrum of real values: n / 2 + 1 numbers.
  Parts of_real(const Expr& x) {
    const int64_t n = x.type().dims().back(), half = n / 2 + 1;
    if (n > kRealMatrixMax && largest_factor(n) > 1) {
      const Parts whole = complex({x, x.number(0)}, -1);
      return {columns(whole.re, 0, half), columns(whole.im, 0, half)};
    }
    const ValueId table = matrix(builder_, n, 2 * half, [&](int64_t j, int64_t k) {
      return k < half ? std::cos(angle(j, k, n)) : -std::sin(angle(j, k - half, n));
    });
    const Expr both = product(x, table);
    return {columns(both, 0, half), columns(both, half, 2 * half)};
  }

  // The n real values whose spectrum begins with x, times n: the rest is the conjugate of the beginning.
  Expr to_real(const Parts& x, int64_t n) {
    const int64_t half = n / 2 + 1;
    if (n > kRealMatrixMax && largest_factor(n) > 1) {
      const int64_t rest = n - half;  // X[n - k] = conj(X[k]), k = rest ... 1
      const Expr re = joined(x.re, reversed(columns(x.re, 1, rest + 1))),
                 im = joined(x.im, -reversed(columns(x.im, 1, rest + 1)));
      return complex({re, im}, 1).re;
    }
    const ValueId table = matrix(builder_, 2 * half, n, [&](int64_t row, int64_t j) {
      const int64_t k = row % half;
      const double weight = k == 0 || 2 * k == n ? 1 : 2;
      return weight * (row < half ? std::cos(angle(j, k, n)) : -std::sin(angle(j, k, n)));
    });
    return product(joined(x.re, x.im), table);
  }

  Parts reshaped(const Parts& x, const Dims& dims) {
    return {Expr(builder_, builder_.reshape(x.re.id(), dims)),
            Expr(builder_, builder_.reshape(x.im.id(), dims))};
  }

  // Dimension `axis` and the last change places.
  Parts moved(const Parts& x, int64_t axis) {
    Dims permutation(static_cast<size_t>(x.re.type().rank()));
    for (size_t i = 0; i < permutation.size(); ++i) permutation[i] = static_cast<int64_t>(i);
    std::swap(permutation[static_cast<size_t>(axis)], permutation.back());
    return {Expr(builder_, builder_.transpose(x.re.id(), permutation)),
            Expr(builder_, builder_.transpose(x.im.id(), permutation))};
  }

 private:
  Parts by_matrix(const Parts& x, int sign) {
    const int64_t n = x.re.type().dims().back();
    // Row j of the real, then of the imaginary part; column k of the real, then of the imaginary one.
    const ValueId table = matrix(builder_, 2 * n, 2 * n, [&](int64_t row, int64_t column) {
      const double theta = angle(row % n, column % n, n);
      if ((row < n) == (column < n)) return std::cos(theta);
      return row < n ? sign * std::sin(theta) : -sign * std::sin(theta);
    });
    const Expr both = product(joined(x.re, x.im), table);
    return {columns(both, 0, n), columns(both, n, 2 * n)};
  }

  Parts times_twiddles(const Parts& x, int64_t a, int64_t b, int sign) {
    const auto table = [&](auto function) {
      const ValueId values =
          matrix(builder_, b, a, [&](int64_t j, int64_t k) { return function(angle(j, k, a * b)); });
      const Dims dims = x.re.type().dims_vector();
      const auto rank = static_cast<int64_t>(dims.size());
      return Expr(builder_, builder_.broadcast_in_dim(values, dims, {rank - 2, rank - 1}));
    };
    const Expr cosines = table([](double theta) { return std::cos(theta); });
    const Expr sines = table([&](double theta) { return sign * std::sin(theta); });
    return {x.re * cosines - x.im * sines, x.re * sines + x.im * cosines};
  }

  Parts swapped(const Parts& x) { return moved(x, x.re.type().rank() - 2); }

  Expr product(const Expr& x, ValueId table) {
    const Dims contracted{x.type().rank() - 1}, first{0}, none;
    Dims dims = x.type().dims_vector();
    dims.back() = builder_.type(table).dim(1);
    return {builder_, builder_.add(OpKind::dot_general_, {x.id(), table},
                                   {{Attr::lhs_batching_dimensions, graph::Attribute(none)},
                                    {Attr::rhs_batching_dimensions, graph::Attribute(none)},
                                    {Attr::lhs_contracting_dimensions, graph::Attribute(contracted)},
                                    {Attr::rhs_contracting_dimensions, graph::Attribute(first)}},
                                   {x.type().with_dims(std::move(dims))})};
  }

  Expr columns(const Expr& x, int64_t begin, int64_t end) {
    Dims start(static_cast<size_t>(x.type().rank()), 0), limit = x.type().dims_vector();
    start.back() = begin;
    limit.back() = end;
    return {builder_, builder_.slice(x.id(), start, limit)};
  }

  Expr joined(const Expr& a, const Expr& b) {
    return {builder_, builder_.concatenate({a.id(), b.id()}, a.type().rank() - 1)};
  }

  Expr reversed(const Expr& x) {
    return {builder_, builder_.add(OpKind::reverse_, {x.id()},
                                   {{Attr::dimensions, graph::Attribute(Dims{x.type().rank() - 1})}})};
  }

  Builder& builder_;
};

}  // namespace

bool has_fourier_transform(const Op& op) {
  for (const int64_t n : op.integers(Attr::fft_length))
    if (n == 0 || !has_length(n)) return false;
  return true;
}

std::optional<ValueId> fourier_transform(Builder& builder, const Op& op, ValueId operand) {
  const auto lengths = op.integers(Attr::fft_length);
  const auto type = op.enumeration(Attr::fft_type, FftType::kFft);
  const ElementType element = graph::real_part(builder.type(operand).element());
  Transform transform(builder);
  const auto in_f32 = [](const Parts& x) {
    return Parts{x.re.as(ElementType::kF32), x.im.as(ElementType::kF32)};
  };
  const Parts given = in_f32(parts_of(builder, operand));
  const int64_t last = given.re.type().rank() - 1, first = last + 1 - static_cast<int64_t>(lengths.size());
  const bool forwards = type == FftType::kFft || type == FftType::kRfft;
  const bool real_in = type == FftType::kRfft, real_out = type == FftType::kIrfft;
  Parts x = real_in ? transform.of_real(given.re) : given;
  for (int64_t axis = first; axis < (real_in || real_out ? last : last + 1); ++axis)
    x = transform.moved(transform.complex(transform.moved(x, axis), forwards ? -1 : 1), axis);
  double scale = 1;
  if (!forwards)
    for (const int64_t n : lengths) scale /= static_cast<double>(n);
  if (real_out) return (transform.to_real(x, lengths.back()) * scale).as(element).id();
  if (!forwards) x = {x.re * scale, x.im * scale};
  return complex_value({x.re.as(element), x.im.as(element)});
}

}  // namespace opentrn::compiler
