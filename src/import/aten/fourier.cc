// Fourier transforms over the last dimensions, after transposes where torch names others.
#include <cmath>

#include <fmt/format.h>

#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

// torch's fft_norm_mode: none, by the root of the count, by the count.
double scale_of(const Arg& normalization, int64_t count) {
  const auto points = static_cast<double>(count);
  switch (normalization.integer()) {
    case 0: return 1;
    case 1: return std::pow(points, -0.5);
    default: return 1 / points;
  }
}

Value normalised(Body& body, const Value& value, double factor) {
  return factor == 1 ? value : body.multiply(value, body.like(factor, value));
}

// One transform along an axis; its size becomes what the kind gives for `length` points.
Value over(Body& body, const Value& value, int64_t axis, std::string_view kind, int64_t length,
           ElementType dtype) {
  Shape order = counted_up(value.rank());
  order.erase(order.begin() + axis);
  order.push_back(axis);
  const Value turned = body.transpose(value, order);
  Shape shape = turned.shape;
  shape.back() = kind == "RFFT" ? length / 2 + 1 : length;
  const std::string text =
      fmt::format("fft_type = #stablehlo<fft_type {}>, fft_length = {}", kind, numbers({length}));
  const Value made = body.op("fft", {turned}, shape, dtype, text);
  Shape back(order.size());
  for (size_t place = 0; place < order.size(); ++place) back[order[place]] = static_cast<int64_t>(place);
  return body.transpose(made, back);
}

struct Transform {
  Shape axes;
  int64_t count = 1;  // of points in a transform
};

// sizes: of the value, or of the result where that one's points count.
Transform transform_of(Call& call, const Shape& sizes) {
  Transform made;
  for (const int64_t axis : call.at(1).integers()) {
    made.axes.push_back(axis_of(axis, call.value(0).rank()));
    made.count *= sizes.at(made.axes.back());
  }
  return made;
}

Value complex_to_complex(Call& call) {
  Body& body = call.body;
  const auto& [shape, dtype, _] = call.out();
  if (is_empty(shape)) return body.splat(0, dtype, shape);
  const auto [axes, count] = transform_of(call, call.value(0).shape);
  const bool forward = call.at(3).flag();
  Value made = call.value(0);
  for (const int64_t axis : axes)
    made = over(body, made, axis, forward ? "FFT" : "IFFT", made.shape[axis], dtype);
  // StableHLO's inverse divides by the count, torch's only when it is told to.
  const double factor = scale_of(call.at(2), count) * (forward ? 1 : static_cast<double>(count));
  return normalised(body, made, factor);
}

Value real_to_complex(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const auto& [shape, dtype, _] = call.out();
  if (is_empty(shape)) return body.splat(0, dtype, shape);
  auto [axes, count] = transform_of(call, value.shape);
  Value made;
  if (call.at(3).flag()) {
    made = over(body, value, axes.back(), "RFFT", value.shape[axes.back()], dtype);
    axes.pop_back();
  } else {
    made = body.convert(value, dtype);
  }
  for (const int64_t axis : axes) made = over(body, made, axis, "FFT", value.shape[axis], dtype);
  return normalised(body, made, scale_of(call.at(2), count));
}

Value complex_to_real(Call& call) {
  Body& body = call.body;
  const auto& [shape, dtype, _] = call.out();
  if (is_empty(shape)) return body.splat(0, dtype, shape);
  Value made = call.value(0);
  require(made.dtype == ElementType::kComplexF32, "of torch.complex128 is not written");
  auto [axes, count] = transform_of(call, shape);
  const int64_t last_size = call.at(3).integer();
  const int64_t last = axes.back();
  axes.pop_back();
  for (const int64_t axis : axes) made = over(body, made, axis, "IFFT", made.shape[axis], made.dtype);
  const int64_t needed = last_size / 2 + 1;
  if (made.shape[last] > needed) made = body.slice_axis(made, last, 0, needed);
  made = over(body, made, last, "IRFFT", last_size, dtype);
  return normalised(body, made, scale_of(call.at(2), count) * static_cast<double>(count));
}

}  // namespace

Table fourier_transforms() {
  return {
      {{"_fft_c2c.default"}, complex_to_complex},
      {{"_fft_r2c.default"}, real_to_complex},
      {{"_fft_c2r.default"}, complex_to_real},
  };
}

}  // namespace opentrn::import::aten
