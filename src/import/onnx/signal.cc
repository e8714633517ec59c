// Windows, Fourier transforms, mel filters.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

constexpr int64_t kLengthMax = 1 << 24;

// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n).
void window(Node& n, double a0, double a1, double a2) {
  const int64_t size = n.integer(0);
  n.check(0 <= size && size < kLengthMax, "size is {}", size);
  const bool periodic = n.flag("periodic", true);
  const double period = static_cast<double>(periodic ? size : size - 1);
  std::vector<double> values;
  for (int64_t i = 0; i < size; ++i) {
    const double turn = 2 * std::numbers::pi * static_cast<double>(i) / period;
    values.push_back(period == 0 ? 1 : a0 - a1 * std::cos(turn) + a2 * std::cos(2 * turn));
  }
  n.set(0, n.emit.reals(values, n.data_type("output_datatype").value_or(ElementType::kF32), {size}));
}

ValueId complex_of(const Emit& e, ValueId x, int64_t parts) {
  const int64_t last = e.rank(x) - 1;
  const ValueId real = e.take(x, last, 0);
  const ValueId imaginary = parts == 2 ? e.take(x, last, 1) : e.like(real, 0);
  return e.binary(OpKind::complex_, real, imaginary);
}

ValueId parts_of(const Emit& e, ValueId x) {
  const int64_t rank = e.rank(x);
  return e.concat(
      {e.unsqueeze(e.unary(OpKind::real_, x), rank), e.unsqueeze(e.unary(OpKind::imag_, x), rank)}, rank);
}

ValueId transform(const Emit& e, ValueId x, graph::FftType type) {
  return e.builder().add(
      OpKind::fft_, {x},
      {{Attr::fft_type, static_cast<int64_t>(type)}, {Attr::fft_length, Dims{e.dim(x, e.rank(x) - 1)}}});
}

// `axis` cut or padded with zeros to `length`.
ValueId resized(const Emit& e, ValueId x, int64_t axis, int64_t length) {
  const int64_t size = e.dim(x, axis);
  if (length <= size) return e.slice(x, axis, 0, length);
  Dims high(static_cast<size_t>(e.rank(x)), 0);
  high[static_cast<size_t>(axis)] = length - size;
  return e.pad(x, e.scalar(e.element(x), 0), Dims(high.size(), 0), high);
}

Dims with_axis_last(int64_t rank, int64_t axis) {
  Dims order;
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis) order.push_back(i);
  order.push_back(axis);
  return order;
}

Dims inverse(const Dims& order) {
  Dims back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return back;
}

}  // namespace

void import_hann_window(Node& n) { window(n, 0.5, 0.5, 0); }
void import_hamming_window(Node& n) { window(n, 25.0 / 46, 21.0 / 46, 0); }
void import_blackman_window(Node& n) { window(n, 0.42, 0.5, 0.08); }

void import_dft(Node& n) {
  const Emit& e = n.emit;
  const int64_t rank = n.rank(0);
  const int64_t given = n.opset() < 20 ? n.integer("axis", 1) : n.has(2) ? n.integer(2) : -2;
  const int64_t axis = n.axis(given, rank);
  const int64_t parts = e.dim(n.in(0), rank - 1);
  n.check(axis < rank - 1 && (parts == 1 || parts == 2), "axis {} of rank {}, {} parts", axis, rank, parts);
  const bool backward = n.flag("inverse", false);
  const bool onesided = n.flag("onesided", false);
  const ElementType narrow = n.element(0);
  const ElementType wide = narrow == ElementType::kF64 ? narrow : ElementType::kF32;
  const int64_t size = e.dim(n.in(0), axis);
  // One-sided spectra of an inverse transform have length / 2 + 1 elements.
  const int64_t absent = backward && onesided ? 2 * (size - 1) : size;
  const int64_t length = n.has(1) ? n.integer(1) : absent;
  n.check(0 < length && length < kLengthMax, "dft_length is {}", length);
  const Dims order = with_axis_last(rank - 1, axis);
  const ValueId x = e.cast(n.in(0), wide);
  if (backward && onesided) {
    const ValueId half = e.transpose(complex_of(e, resized(e, x, axis, length / 2 + 1), parts), order);
    const ValueId y = e.builder().add(
        OpKind::fft_, {half},
        {{Attr::fft_type, static_cast<int64_t>(graph::FftType::kIrfft)}, {Attr::fft_length, Dims{length}}});
    return n.set(0, e.cast(e.unsqueeze(e.transpose(y, inverse(order)), rank - 1), narrow));
  }
  const ValueId z = e.transpose(complex_of(e, resized(e, x, axis, length), parts), order);
  ValueId y =
      e.transpose(transform(e, z, backward ? graph::FftType::kIfft : graph::FftType::kFft), inverse(order));
  if (onesided) y = e.slice(y, axis, 0, length / 2 + 1);
  n.set(0, e.cast(parts_of(e, y), narrow));
}

// signal [batch, length, 1 or 2], or [batch, length] of real numbers, as ONNX Runtime takes it too;
// frame_step, window, frame_length.
void import_stft(Node& n) {
  const Emit& e = n.emit;
  n.check(n.rank(0) == 2 || n.rank(0) == 3, "signal of rank {}; [batch, length] or [batch, length, 1 or 2]",
          n.rank(0));
  const ValueId signal = n.rank(0) == 3 ? n.in(0) : e.unsqueeze(n.in(0), 2);
  const Dims d = e.dims(signal);
  n.check(d[2] == 1 || d[2] == 2, "signal of {} parts; 1 or 2", d[2]);
  const int64_t step = n.integer(1);
  int64_t length = d[1];
  if (n.has(3))
    length = n.integer(3);
  else if (n.has(2))
    length = e.dim(n.in(2), 0);
  n.check(step > 0 && 0 < length && length <= d[1] && d[1] < kLengthMax,
          "frame_step {}, frame_length {} of {}", step, length, d[1]);
  const int64_t frames = (d[1] - length) / step + 1;
  n.check(frames * length < kLengthMax, "{} frames of {}", frames, length);
  Dims places;
  for (int64_t f = 0; f < frames; ++f)
    for (int64_t i = 0; i < length; ++i) places.push_back(f * step + i);
  const ElementType narrow = n.element(0);
  const ElementType wide = narrow == ElementType::kF64 ? narrow : ElementType::kF32;
  const ValueId picked = e.take_along(e.cast(signal, wide), e.integers(places), 1);
  ValueId framed = e.reshape(picked, {d[0], frames, length, d[2]});
  if (n.has(2)) framed = e.mul(framed, e.unsqueeze(e.cast(n.in(2), wide), 1));
  const bool half = n.flag("onesided", true) && d[2] == 1;
  const ValueId y = half ? transform(e, e.take(framed, 3, 0), graph::FftType::kRfft)
                         : transform(e, complex_of(e, framed, d[2]), graph::FftType::kFft);
  n.set(0, e.cast(parts_of(e, y), narrow));
}

// num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz: triangles on the mel scale.
void import_mel_weight_matrix(Node& n) {
  const int64_t bins = n.integer(0);
  const int64_t length = n.integer(1);
  const auto rate = static_cast<double>(n.integer(2));
  const double lower = n.real(3);
  const double upper = n.real(4);
  const int64_t spectrum = length / 2 + 1;
  n.check(
      0 < bins && bins < 1 << 14 && 0 < length && length < 1 << 20 && rate > 0 && lower >= 0 && upper > lower,
      "{} bins of a spectrum of {}", bins, length);
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double step = (mel(upper) - mel(lower)) / static_cast<double>(bins + 2);
    const double hertz = 700 * (std::pow(10, (mel(lower) + static_cast<double>(i) * step) / 2595) - 1);
    edges.push_back(static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / rate)));
  }
  std::vector<double> matrix(static_cast<size_t>(spectrum * bins), 0);
  const auto at = [&](int64_t row, int64_t bin) -> double& {
    return matrix[static_cast<size_t>(row * bins + bin)];
  };
  for (int64_t bin = 0; bin < bins; ++bin) {
    const auto b = static_cast<size_t>(bin);
    const int64_t low = edges[b], centre = edges[b + 1], high = edges[b + 2];
    for (int64_t row = low; row <= centre && row < spectrum; ++row)
      at(row, bin) = centre == low ? 1 : static_cast<double>(row - low) / static_cast<double>(centre - low);
    for (int64_t row = centre; row < high && row < spectrum; ++row)
      at(row, bin) = static_cast<double>(high - row) / static_cast<double>(high - centre);
  }
  n.set(0,
        n.emit.reals(matrix, n.data_type("output_datatype").value_or(ElementType::kF32), {spectrum, bins}));
}

}  // namespace opentrn::import::onnx
