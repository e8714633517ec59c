// Resize and Upsample, GridSample, AffineGrid, RoiAlign: interpolation.
#include <algorithm>
#include <cmath>

#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

// How Resize finds the source of each element of one axis.
struct AxisResize {
  int64_t from;
  int64_t to;
  double scale;
  double length;  // from * scale
  double roi_start = 0;
  double roi_end = 1;
};

double source_of(const Node& n, const AxisResize& a, const std::string& transformation, int64_t place) {
  const auto x = static_cast<double>(place);
  const auto from = static_cast<double>(a.from);
  const double length = a.length;
  if (transformation == "half_pixel") return (x + 0.5) / a.scale - 0.5;
  if (transformation == "asymmetric") return x / a.scale;
  if (transformation == "align_corners") return length == 1 ? 0 : x * (from - 1) / (length - 1);
  if (transformation == "pytorch_half_pixel") return length == 1 ? -0.5 : (x + 0.5) / a.scale - 0.5;
  if (transformation == "half_pixel_symmetric")
    return from / 2 * (1 - static_cast<double>(a.to) / length) + (x + 0.5) / a.scale - 0.5;
  if (transformation == "tf_crop_and_resize") {
    const double span = (a.roi_end - a.roi_start) * (from - 1);
    return a.roi_start * (from - 1) + (length == 1 ? span / 2 : x * span / (length - 1));
  }
  n.bad(fmt::format("coordinate_transformation_mode is '{}'", transformation));
}

int64_t nearest(const Node& n, double source, const std::string& mode) {
  if (mode == "floor") return static_cast<int64_t>(std::floor(source));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(source));
  if (mode == "round_prefer_floor") return static_cast<int64_t>(std::ceil(source - 0.5));
  n.check(mode == "round_prefer_ceil", "nearest_mode is '{}'", mode);
  return static_cast<int64_t>(std::floor(source + 0.5));
}

double cubic(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// Row `place` of the interpolation matrix: weights over source elements. Kernels are stretched when
// antialias is wanted and the axis shrinks.
void fill_row(const Node& n, double source, const AxisResize& a, double* row) {
  const bool is_cubic = n.string("mode", "nearest") == "cubic";
  const double sharpness = n.real("cubic_coeff_a", -0.75);
  const bool exclude = n.flag("exclude_outside", false);
  const double stretch = n.flag("antialias", false) ? std::min(a.scale, 1.0) : 1.0;
  const double reach = (is_cubic ? 2 : 1) / stretch;
  const auto first = static_cast<int64_t>(std::floor(source - reach)) + 1;
  const auto last = static_cast<int64_t>(std::ceil(source + reach)) - 1;
  double total = 0;
  std::vector<std::pair<int64_t, double>> taps;
  for (int64_t i = first; i <= last; ++i) {
    const double distance = (static_cast<double>(i) - source) * stretch;
    const double weight = is_cubic ? cubic(distance, sharpness) : std::max(0.0, 1 - std::fabs(distance));
    if (exclude && (i < 0 || i >= a.from)) continue;
    taps.emplace_back(std::clamp<int64_t>(i, 0, a.from - 1), weight);
    total += weight;
  }
  for (const auto& [i, weight] : taps) row[i] += total == 0 ? weight : weight / total;
}

// Entries of one interpolation matrix.
constexpr int64_t kMatrixMax = int64_t{1} << 26;

ValueId resize_axis(const Node& n, ValueId x, int64_t axis, const AxisResize& a) {
  const Emit& e = n.emit;
  const std::string transformation = n.string("coordinate_transformation_mode", "half_pixel");
  const bool crop = transformation == "tf_crop_and_resize";
  const bool is_nearest = n.string("mode", "nearest") == "nearest";
  n.check(a.from > 0 && a.to >= 0 && a.to < (1 << 24), "an axis of {} becomes {}", a.from, a.to);
  std::vector<double> outside(static_cast<size_t>(a.to), 0);
  bool any_outside = false;
  Dims indices;
  if (!is_nearest) n.check(a.to * a.from < kMatrixMax, "an axis of {} becomes {}", a.from, a.to);
  std::vector<double> matrix(is_nearest ? 0 : static_cast<size_t>(a.to * a.from), 0);
  for (int64_t i = 0; i < a.to; ++i) {
    const double source = source_of(n, a, transformation, i);
    if (crop && (source < 0 || source > static_cast<double>(a.from - 1))) {
      outside[static_cast<size_t>(i)] = 1;
      any_outside = true;
    }
    if (is_nearest)
      indices.push_back(std::clamp<int64_t>(
          nearest(n, source, n.string("nearest_mode", "round_prefer_floor")), 0, a.from - 1));
    else
      fill_row(n, source, a, &matrix[static_cast<size_t>(i * a.from)]);
  }
  ValueId y = x;
  if (is_nearest) {
    y = e.take_along(x, e.integers(indices), axis);
  } else {
    const ValueId weights = e.reals(matrix, e.element(x), {a.to, a.from});
    // [to, rest of x]: the new axis goes back to its place.
    const ValueId moved = e.dot_general(weights, x, {}, {}, {1}, {axis});
    Dims order = range(1, e.rank(x));
    order.insert(order.begin() + axis, 0);
    y = e.transpose(moved, order);
  }
  if (!any_outside) return y;
  Dims dims(static_cast<size_t>(e.rank(x)), 1);
  dims[static_cast<size_t>(axis)] = a.to;
  const ValueId mask = e.compare(ComparisonDirection::kNe, e.reals(outside, ElementType::kF32, dims), 0);
  return e.select(mask, e.like(y, n.real("extrapolation_value", 0)), y);
}

// Of an axis that a factor of the model's scales. The factor is a float32 number, and so is the length: 7 / 3
// in float32 makes 7 of 3, where more digits make 6.99999998, of which 6 are whole.
double scaled_length(int64_t from, double scale) {
  return static_cast<double>(static_cast<float>(from) * static_cast<float>(scale));
}

// Sizes from scales or the other way round; keep_aspect_ratio_policy makes one scale of the sizes.
std::vector<AxisResize> axes_of(const Node& n, const Dims& axes, const std::vector<double>& scales,
                                Dims sizes) {
  std::vector<AxisResize> all;
  const std::string policy = n.string("keep_aspect_ratio_policy", "stretch");
  std::vector<double> factors = scales;
  if (!sizes.empty()) {
    for (size_t i = 0; i < axes.size(); ++i)
      factors.push_back(static_cast<double>(sizes[i]) / static_cast<double>(n.emit.dim(n.in(0), axes[i])));
    if (policy != "stretch") {
      n.check(policy == "not_larger" || policy == "not_smaller", "keep_aspect_ratio_policy is '{}'", policy);
      const double one = policy == "not_larger" ? *std::min_element(factors.begin(), factors.end())
                                                : *std::max_element(factors.begin(), factors.end());
      for (size_t i = 0; i < axes.size(); ++i) {
        factors[i] = one;
        sizes[i] =
            static_cast<int64_t>(std::floor(one * static_cast<double>(n.emit.dim(n.in(0), axes[i])) + 0.5));
      }
    }
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t from = n.emit.dim(n.in(0), axes[i]);
    n.check(std::isfinite(factors[i]) && factors[i] > 0 && factors[i] < 1e9, "scale {} is {}", i, factors[i]);
    const double length =
        sizes.empty() ? scaled_length(from, factors[i]) : static_cast<double>(from) * factors[i];
    const int64_t to = sizes.empty() ? static_cast<int64_t>(std::floor(length)) : sizes[i];
    all.push_back({from, to, factors[i], length});
  }
  return all;
}

void resize(Node& n, const Dims& axes, const std::vector<AxisResize>& resizes) {
  const Emit& e = n.emit;
  const ElementType narrow = n.element(0);
  const bool is_nearest = n.string("mode", "nearest") == "nearest";
  const ElementType wide = is_nearest || narrow == ElementType::kF64 ? narrow : ElementType::kF32;
  ValueId x = e.cast(n.in(0), wide);
  const bool crop = n.string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize";
  for (size_t i = 0; i < axes.size(); ++i)
    if (resizes[i].to != resizes[i].from || resizes[i].scale != 1 || crop)
      x = resize_axis(n, x, axes[i], resizes[i]);
  if (graph::is_integer(narrow) && !is_nearest) {
    // Interpolated integers are rounded to even and saturate.
    n.set(0, quantized(e, x, e.scalar(narrow, 0)));
    return;
  }
  n.set(0, e.cast(x, narrow));
}

}  // namespace

// X, roi, scales, sizes.
void import_resize(Node& n) {
  Dims axes = n.axes(n.integers("axes", range(0, n.rank(0))), n.rank(0));
  std::vector<double> scales;
  Dims sizes;
  const size_t scales_at = n.opset() < 11 ? 1 : 2;
  if (n.has(scales_at)) scales = n.reals(scales_at);
  if (n.opset() >= 11 && n.has(3)) sizes = n.integers(3);
  n.check(scales.size() == axes.size() || (scales.empty() && sizes.size() == axes.size()),
          "{} scales and {} sizes for {} axes", scales.size(), sizes.size(), axes.size());
  if (!scales.empty()) sizes.clear();
  auto resizes = axes_of(n, axes, scales, sizes);
  if (n.opset() >= 11 && n.string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize") {
    const auto roi = n.reals(1);
    n.check(roi.size() == 2 * axes.size(), "roi has {} entries", roi.size());
    for (size_t i = 0; i < axes.size(); ++i) {
      resizes[i].roi_start = roi[i];
      resizes[i].roi_end = roi[axes.size() + i];
    }
  }
  resize(n, axes, resizes);
}

// Opset 10's Resize and Upsample: asymmetric, nearest rounds down.
void import_upsample(Node& n) {
  const Emit& e = n.emit;
  std::vector<double> scales;
  if (n.opset() < 9) {
    const auto given = n.reals("scales").value_or(std::vector<float>{});
    scales.assign(given.begin(), given.end());
  } else {
    scales = n.reals(1);
  }
  n.check(static_cast<int64_t>(scales.size()) == n.rank(0), "{} scales for rank {}", scales.size(),
          n.rank(0));
  const std::string mode = n.string("mode", "nearest");
  n.check(mode == "nearest" || mode == "linear" || mode == "bilinear", "mode is '{}'", mode);
  // Integers between integers are cut, as ONNX Runtime does.
  const ElementType narrow = n.element(0);
  const bool is_exact = mode == "nearest" || graph::is_float(narrow);
  n.check(is_exact || graph::is_integer(narrow), "mode is '{}' of {}", mode, graph::name(narrow));
  ValueId x = is_exact ? n.in(0) : e.cast(n.in(0), ElementType::kF32);
  for (int64_t axis = 0; axis < n.rank(0); ++axis) {
    const int64_t from = e.dim(x, axis);
    const double scale = scales[static_cast<size_t>(axis)];
    n.check(std::isfinite(scale) && scale > 0 && scale < 1e9 && from > 0, "scale {} is {}", axis, scale);
    const auto to = static_cast<int64_t>(std::floor(scaled_length(from, scale)));
    n.check(to < (1 << 24) && to * from < kMatrixMax, "an axis of {} becomes {}", from, to);
    if (to == from) continue;
    Dims low;
    std::vector<double> fraction;
    for (int64_t i = 0; i < to; ++i) {
      const double source = static_cast<double>(i) / scale;
      low.push_back(std::min<int64_t>(static_cast<int64_t>(std::floor(source)), from - 1));
      fraction.push_back(source - std::floor(source));
    }
    const ValueId below = e.take_along(x, e.integers(low), axis);
    if (mode == "nearest") {
      x = below;
      continue;
    }
    Dims high = low;
    for (int64_t& i : high) i = std::min(i + 1, from - 1);
    Dims dims(static_cast<size_t>(n.rank(0)), 1);
    dims[static_cast<size_t>(axis)] = to;
    const ValueId above = e.take_along(x, e.integers(high), axis);
    x = e.add(below, e.mul(e.sub(above, below), e.reals(fraction, e.element(x), dims)));
  }
  n.set(0, e.cast(x, narrow));
}

namespace {

enum class Outside { kZeros, kBorder, kReflection };

struct Sampling {
  int taps = 2;  // per dimension: 1 nearest, 2 linear, 4 cubic
  Outside outside = Outside::kZeros;
  bool align_corners = false;
};

// Reflects an index between the borders; `low` and `high` are half a pixel out unless corners align.
ValueId reflected(const Emit& e, ValueId x, double low, double high) {
  const double span = high - low;
  if (span <= 0) return e.like(x, 0);
  const ValueId distance = e.unary(OpKind::abs_, e.sub(x, low));
  const ValueId turns = e.unary(OpKind::floor_, e.div(distance, span));
  const ValueId rest = e.sub(distance, e.mul(turns, span));
  const ValueId odd =
      e.compare(ComparisonDirection::kEq, e.binary(OpKind::remainder_, turns, e.like(turns, 2)), 1);
  return e.add(e.select(odd, e.sub(e.like(rest, span), rest), rest), low);
}

// Weights of the taps at fraction t.
Values tap_weights(const Emit& e, ValueId t, int taps) {
  if (taps == 1) return {e.like(t, 1)};
  const ValueId one = e.like(t, 1);
  if (taps == 2) return {e.sub(one, t), t};
  constexpr double a = -0.75;
  const auto far = [&](ValueId x) {  // 1 < x < 2
    return e.sub(e.mul(e.add(e.mul(e.sub(e.mul(x, a), 5 * a), x), 8 * a), x), 4 * a);
  };
  const auto near = [&](ValueId x) {  // 0 <= x <= 1
    return e.add(e.mul(e.mul(e.sub(e.mul(x, a + 2), a + 3), x), x), 1);
  };
  const ValueId rest = e.sub(one, t);
  return {far(e.add(t, 1)), near(t), near(rest), far(e.add(rest, 1))};
}

// image [N, C, spatial..] at coordinates, one [N, P] per spatial dimension: [N, C, P].
ValueId sample(const Emit& e, ValueId image, const Values& coordinates, const Sampling& s) {
  const auto count = static_cast<int64_t>(coordinates.size());
  const ElementType element = e.element(image);
  Dims order{0};
  for (int64_t i = 0; i < count; ++i) order.push_back(2 + i);
  order.push_back(1);
  const ValueId rows = e.transpose(image, order);
  std::vector<Values> indices(coordinates.size()), weights(coordinates.size());
  for (size_t i = 0; i < coordinates.size(); ++i) {
    const auto size = static_cast<double>(e.dim(image, static_cast<int64_t>(i) + 2));
    const ValueId x = coordinates[i];
    const ValueId base = s.taps == 1 ? e.unary(OpKind::round_nearest_even_, x) : e.unary(OpKind::floor_, x);
    const ValueId fraction = e.sub(x, base);
    weights[i] = tap_weights(e, e.cast(fraction, element), s.taps);
    for (int tap = 0; tap < s.taps; ++tap) {
      ValueId at = e.add(base, tap - (s.taps == 4 ? 1 : 0));
      if (s.outside == Outside::kReflection)
        at = e.unary(OpKind::round_nearest_afz_,
                     s.align_corners ? reflected(e, at, 0, size - 1) : reflected(e, at, -0.5, size - 0.5));
      if (s.outside == Outside::kZeros) {
        const ValueId inside = e.binary(OpKind::and_, e.compare(ComparisonDirection::kGe, at, 0),
                                        e.compare(ComparisonDirection::kLe, at, size - 1));
        ValueId& weight = weights[i][static_cast<size_t>(tap)];
        weight = e.select(inside, weight, e.like(weight, 0));
      }
      at = e.max(e.min(at, size - 1), 0);
      indices[i].push_back(e.cast(at, ElementType::kI64));
    }
  }
  int64_t combinations = 1;
  for (int64_t i = 0; i < count; ++i) combinations *= s.taps;
  std::optional<ValueId> sum;
  for (int64_t c = 0; c < combinations; ++c) {
    int64_t rest = c;
    Values columns;
    std::optional<ValueId> weight;
    for (size_t i = 0; i < coordinates.size(); ++i) {
      const auto tap = static_cast<size_t>(rest % s.taps);
      rest /= s.taps;
      columns.push_back(e.unsqueeze(indices[i][tap], 2));
      weight = weight ? e.mul(*weight, weights[i][tap]) : weights[i][tap];
    }
    const ValueId values = e.gather_nd(rows, e.concat(columns, 2), 1);  // [N, P, C]
    const ValueId weighted = e.mul(values, e.unsqueeze(*weight, 2));
    sum = sum ? e.add(*sum, weighted) : weighted;
  }
  return e.transpose(*sum, {0, 2, 1});
}

}  // namespace

ValueId bilinear_sample(const Emit& e, ValueId image, ValueId y, ValueId x) {
  return sample(e, image, {y, x}, {});
}

void import_grid_sample(Node& n) {
  const Emit& e = n.emit;
  const Dims x = n.dims(0);
  const Dims grid = n.dims(1);
  const auto count = static_cast<int64_t>(x.size()) - 2;
  n.check(count >= 1 && count <= 3 && grid.size() == x.size() && grid.back() == count && grid[0] == x[0],
          "input of rank {} and grid of rank {}", x.size(), grid.size());
  const std::string mode = n.string("mode", "linear");
  const std::string padding = n.string("padding_mode", "zeros");
  Sampling s;
  s.align_corners = n.flag("align_corners", false);
  s.taps = mode == "nearest" ? 1 : mode == "cubic" || mode == "bicubic" ? 4 : 2;
  n.check(s.taps != 2 || mode == "linear" || mode == "bilinear", "mode is '{}'", mode);
  n.check(padding == "zeros" || padding == "border" || padding == "reflection", "padding_mode is '{}'",
          padding);
  s.outside = padding == "zeros"    ? Outside::kZeros
              : padding == "border" ? Outside::kBorder
                                    : Outside::kReflection;
  const int64_t places = product({grid.begin() + 1, grid.end() - 1});
  const ValueId flat = e.reshape(n.in(1), {grid[0], places, count});
  Values coordinates;
  for (int64_t i = 0; i < count; ++i) {
    // The last coordinate is that of the first spatial dimension.
    const ValueId normal = e.add(e.take(flat, 2, count - 1 - i), 1);
    const auto size = static_cast<double>(x[static_cast<size_t>(i) + 2]);
    coordinates.push_back(s.align_corners ? e.mul(normal, (size - 1) / 2)
                                          : e.mul(e.sub(e.mul(normal, size), 1), 0.5));
  }
  Dims to{x[0], x[1]};
  to.insert(to.end(), grid.begin() + 1, grid.end() - 1);
  if (product(to) == 0) return n.set(0, e.full(n.element(0), to, 0));
  n.set(0, e.reshape(sample(e, n.in(0), coordinates, s), to));
}

// theta [N, d, d + 1] applied to a regular grid of homogeneous coordinates.
void import_affine_grid(Node& n) {
  const Emit& e = n.emit;
  const Dims size = n.integers(1);
  const bool corners = n.flag("align_corners", false);
  n.check(size.size() == 4 || size.size() == 5, "size has {} entries", size.size());
  const Dims spatial(size.begin() + 2, size.end());
  const auto count = static_cast<int64_t>(spatial.size());
  const ElementType element = n.element(0);
  Values columns;
  for (int64_t i = count; i-- > 0;) {
    const auto length = static_cast<double>(spatial[static_cast<size_t>(i)]);
    n.check(length > 0, "a size is {}", length);
    const double step = corners ? 2 / std::max(length - 1, 1.0) : 2 / length;
    const double start = corners ? -1 : -1 + step / 2;
    columns.push_back(e.unsqueeze(e.add(e.mul(e.iota(element, spatial, i), step), start), count));
  }
  columns.push_back(e.unsqueeze(e.full(element, spatial, 1), count));
  const ValueId grid = e.concat(columns, count);  // [spatial.., d + 1]
  // [N, d, spatial..]
  const ValueId moved = e.dot_general(n.in(0), grid, {}, {}, {2}, {count});
  Dims order{0};
  for (int64_t i = 0; i < count; ++i) order.push_back(2 + i);
  order.push_back(1);
  n.set(0, e.transpose(moved, order));
}

// Each bin averages (or takes the largest of) sampling_ratio^2 bilinear samples.
void import_roi_align(Node& n) {
  const Emit& e = n.emit;
  const Dims x = n.dims(0);
  const Dims rois = n.dims(1);
  n.check(x.size() == 4 && rois.size() == 2 && rois[1] == 4, "input of rank {}, rois of rank {}", x.size(),
          rois.size());
  const int64_t height = n.integer("output_height", 1);
  const int64_t width = n.integer("output_width", 1);
  const int64_t ratio = n.integer("sampling_ratio", 0);
  const std::string mode = n.string("mode", "avg");
  if (ratio <= 0) n.refuse("sampling_ratio 0 makes the number of samples depend on data");
  n.check(height > 0 && width > 0 && height * ratio < 1 << 14 && width * ratio < 1 << 14 && ratio < 1 << 10,
          "output of {} x {}, sampling_ratio {}", height, width, ratio);
  const bool half_pixel =
      n.opset() >= 16 && n.string("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const double offset = half_pixel ? 0.5 : 0;
  const double scale = n.real("spatial_scale", 1);
  const ElementType element = n.element(0);
  const auto edge = [&](int64_t column) {
    return e.sub(e.mul(e.take(n.in(1), 1, column), scale), offset);  // [R]
  };
  // Coordinates of all samples along one axis: [R, bins * ratio].
  struct Axis {
    ValueId low, high, fraction, outside;
  };
  const auto axis_of = [&](int64_t column, int64_t bins, int64_t size) {
    const ValueId start = edge(column);
    ValueId length = e.sub(edge(column + 2), start);
    if (!half_pixel) length = e.max(length, 1);
    const ValueId step = e.div(length, static_cast<double>(bins * ratio));
    const ValueId place = e.add(e.iota(element, {1, bins * ratio}, 1), 0.5);
    ValueId at = e.add(e.unsqueeze(start, 1), e.mul(place, e.unsqueeze(step, 1)));
    const auto limit = static_cast<double>(size);
    const ValueId outside = e.binary(OpKind::or_, e.compare(ComparisonDirection::kLt, at, -1),
                                     e.compare(ComparisonDirection::kGt, at, limit));
    at = e.min(e.max(at, 0), limit - 1);
    const ValueId low = e.unary(OpKind::floor_, at);
    const ValueId high = e.min(e.add(low, 1), limit - 1);
    return Axis{e.cast(low, ElementType::kI64), e.cast(high, ElementType::kI64), e.sub(at, low), outside};
  };
  const Axis v = axis_of(1, height, x[2]);
  const Axis h = axis_of(0, width, x[3]);
  const Dims grid{rois[0], height * ratio, width * ratio};
  const auto rows = [&](ValueId a) { return e.broadcast_to(e.unsqueeze(a, 2), grid); };
  const auto columns = [&](ValueId a) { return e.broadcast_to(e.unsqueeze(a, 1), grid); };
  const ValueId outside = e.binary(OpKind::or_, rows(v.outside), columns(h.outside));
  const ValueId image = e.transpose(e.take_along(n.in(0), n.in(2), 0), {0, 2, 3, 1});  // [R, H, W, C]
  const auto corner = [&](bool bottom, bool right) {
    const ValueId index = e.concat(
        {e.unsqueeze(rows(bottom ? v.high : v.low), 3), e.unsqueeze(columns(right ? h.high : h.low), 3)}, 3);
    const ValueId fy = rows(bottom ? v.fraction : e.sub(e.like(v.fraction, 1), v.fraction));
    const ValueId fx = columns(right ? h.fraction : e.sub(e.like(h.fraction, 1), h.fraction));
    const ValueId weight = e.select(outside, e.full(element, grid, 0), e.mul(fy, fx));
    return e.mul(e.gather_nd(image, index, 1), e.unsqueeze(weight, 3));
  };
  const Values corners{corner(false, false), corner(false, true), corner(true, false), corner(true, true)};
  const bool average = mode == "avg";
  n.check(average || mode == "max", "mode is '{}'", mode);
  ValueId samples = corners[0];
  for (size_t i = 1; i < 4; ++i) samples = average ? e.add(samples, corners[i]) : e.max(samples, corners[i]);
  const ValueId bins = e.reshape(samples, {rois[0], height, ratio, width, ratio, x[1]});
  const ValueId pooled =
      average ? e.mean(bins, {2, 4}, false) : e.reduce(OpKind::maximum_, bins, {2, 4}, false);
  n.set(0, e.transpose(pooled, {0, 3, 1, 2}));
}

}  // namespace opentrn::import::onnx
