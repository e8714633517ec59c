// fft in complex double: Cooley and Tukey by the smallest prime factor, the plain sum for a prime length
// (O(n^2); a length with a large prime factor is slow).
#include <cmath>
#include <numbers>

#include "graph/eval/bodies.h"
#include "graph/eval/indexing.h"

namespace opentrn::graph::eval {

namespace {

// roots[k] = exp(sign 2 pi i k / n).
std::vector<Complex> roots_of_unity(int64_t n, int sign) {
  std::vector<Complex> roots(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k)
    roots[static_cast<size_t>(k)] =
        std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n));
  return roots;
}

int64_t smallest_factor(int64_t n) {
  for (int64_t p = 2; p * p <= n; ++p)
    if (n % p == 0) return p;
  return n;
}

// out[k] = sum over j of in[j * stride] * root^(jk), `roots` those of the whole transform, every
// `root_step`-th of which belongs to this length.
void transform(const Complex* in, int64_t stride, Complex* out, int64_t n, std::span<const Complex> roots,
               int64_t root_step) {
  if (n == 1) {
    out[0] = in[0];
    return;
  }
  const int64_t p = smallest_factor(n);
  const int64_t m = n / p;
  std::vector<Complex> parts(static_cast<size_t>(n));
  for (int64_t r = 0; r < p; ++r) {
    if (m == 1)
      parts[static_cast<size_t>(r)] = in[r * stride];
    else
      transform(in + r * stride, stride * p, parts.data() + r * m, m, roots, root_step * p);
  }
  const auto whole = static_cast<int64_t>(roots.size());
  for (int64_t k = 0; k < n; ++k) {
    Complex sum = 0;
    for (int64_t r = 0; r < p; ++r)
      sum += parts[static_cast<size_t>(r * m + k % m)] *
             roots[static_cast<size_t>(r * k % n * root_step % whole)];
    out[k] = sum;
  }
}

// Transforms every line along `axis`.
void transform_axis(std::vector<Complex>& values, const Dims& dims, size_t axis, bool inverse) {
  const int64_t n = dims[axis];
  if (n == 0) return;
  const auto roots = roots_of_unity(n, inverse ? 1 : -1);
  const int64_t stride = row_major_strides(dims)[axis];
  std::vector<Complex> line(static_cast<size_t>(n));
  Dims lines = dims;
  lines[axis] = 1;
  const Dims strides = row_major_strides(dims);
  for_each_index(lines, [&](const Dims& index, int64_t) {
    const int64_t start = linear_index(index, strides);
    transform(values.data() + start, stride, line.data(), n, roots, 1);
    for (int64_t k = 0; k < n; ++k)
      values[static_cast<size_t>(start + k * stride)] =
          inverse ? line[static_cast<size_t>(k)] / static_cast<double>(n) : line[static_cast<size_t>(k)];
  });
}

std::vector<Complex> to_complex(const Tensor& tensor) {
  if (is_complex(tensor.element())) return tensor.values<Complex>();
  const auto& values = tensor.values<Real>();
  return {values.begin(), values.end()};
}

// The full spectrum of a real signal from its first half: X[n - k] = conj(X[k]), over all transformed axes.
std::vector<Complex> mirrored(const std::vector<Complex>& half, const Dims& dims, const Dims& full,
                              size_t first_axis) {
  const Dims strides = row_major_strides(dims);
  std::vector<Complex> all(static_cast<size_t>(product(full)));
  const size_t last = full.size() - 1;
  for_each_index(full, [&](const Dims& index, int64_t linear) {
    if (index[last] < dims[last]) {
      all[static_cast<size_t>(linear)] = half[static_cast<size_t>(linear_index(index, strides))];
      return;
    }
    Dims mirror = index;
    for (size_t axis = first_axis; axis < full.size(); ++axis)
      mirror[axis] = (full[axis] - index[axis]) % full[axis];
    all[static_cast<size_t>(linear)] = std::conj(half[static_cast<size_t>(linear_index(mirror, strides))]);
  });
  return all;
}

}  // namespace

Tensor fft(const Call& call) {
  const Tensor& operand = call.tensor(0);
  const auto type = call.op().enumeration(Attr::fft_type, FftType::kFft);
  const auto lengths = call.op().integers(Attr::fft_length);
  if (lengths.empty() || lengths.size() > operand.dims().size())
    call.fail(fmt::format("{} lengths for {}", lengths.size(), operand.type().to_string()));
  const size_t first_axis = operand.dims().size() - lengths.size();
  const size_t last = operand.dims().size() - 1;
  Dims dims = copy_dims(operand.dims());
  std::vector<Complex> values = to_complex(operand);
  Dims full = dims;
  for (size_t i = 0; i < lengths.size(); ++i) full[first_axis + i] = lengths[i];
  Dims expected = full;
  if (type == FftType::kIrfft) expected[last] = full[last] / 2 + 1;
  if (dims != expected)
    call.fail(fmt::format("{} for lengths of {}", operand.type().to_string(), fmt::join(lengths, " x ")));
  if (type == FftType::kIrfft) values = mirrored(values, dims, full, first_axis);
  const bool inverse = type == FftType::kIfft || type == FftType::kIrfft;
  for (size_t axis = full.size(); axis-- > first_axis;) transform_axis(values, full, axis, inverse);

  if (type == FftType::kIrfft) {
    std::vector<Real> real;
    for (const Complex& value : values) real.push_back(value.real());
    return call.finish(call.result(full), std::move(real));
  }
  if (type == FftType::kRfft) {
    const Tensor all(Type::tensor(ElementType::kComplexF64, full), std::move(values));
    const Tensor half = slice_along(all, static_cast<int64_t>(last), 0, full[last] / 2 + 1);
    return call.finish(call.result(half.dims()), half.values<Complex>());
  }
  return call.finish(call.result(full), std::move(values));
}

}  // namespace opentrn::graph::eval
