// Convolutions.
#include <algorithm>

#include "import/onnx/ops.h"
#include "import/onnx/window.h"

namespace opentrn::import::onnx {

std::vector<WindowDim> windows_of(const Node& n, const Dims& spatial, Dims kernel) {
  const size_t count = spatial.size();
  const Dims sizes = n.integers("kernel_shape", std::move(kernel));
  const Dims strides = n.integers("strides", Dims(count, 1));
  const Dims dilations = n.integers("dilations", Dims(count, 1));
  const Dims pads = n.integers("pads", Dims(2 * count, 0));
  n.check(sizes.size() == count && strides.size() == count && dilations.size() == count &&
              pads.size() == 2 * count,
          "kernel_shape, strides, dilations and pads have {}, {}, {} and {} entries for {} dimensions",
          sizes.size(), strides.size(), dilations.size(), pads.size(), count);
  const std::string automatic = n.string("auto_pad", "NOTSET");
  constexpr int64_t kMax = int64_t{1} << 40;
  std::vector<WindowDim> windows;
  for (size_t i = 0; i < count; ++i) {
    WindowDim w{sizes[i], strides[i], dilations[i], pads[i], pads[count + i]};
    n.check(0 < w.size && w.size < kMax && 0 < w.stride && w.stride < kMax && 0 < w.dilation &&
                w.dilation < (int64_t{1} << 20) && std::abs(w.pad_low) < kMax &&
                std::abs(w.pad_high) < kMax && spatial[i] < kMax,
            "dimension {} has window {}, stride {}, dilation {}, pads {} and {}", i, w.size, w.stride,
            w.dilation, w.pad_low, w.pad_high);
    if (automatic == "VALID") {
      w.pad_low = w.pad_high = 0;
    } else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const int64_t places = (spatial[i] + w.stride - 1) / w.stride;
      const int64_t reach = (w.size - 1) * w.dilation + 1;
      const int64_t total = std::max<int64_t>((places - 1) * w.stride + reach - spatial[i], 0);
      w.pad_low = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.pad_high = total - w.pad_low;
    } else {
      n.check(automatic == "NOTSET", "auto_pad is '{}'", automatic);
    }
    windows.push_back(w);
  }
  return windows;
}

int64_t window_places(int64_t size, const WindowDim& w, bool ceil_mode) {
  const int64_t span = size + w.pad_low + w.pad_high - ((w.size - 1) * w.dilation + 1);
  if (span < 0) return 0;
  int64_t places = span / w.stride + 1;
  if (ceil_mode && span % w.stride != 0 && places * w.stride < size + w.pad_low) ++places;
  return places;
}

namespace {

struct ConvolutionForm {
  std::vector<WindowDim> windows;
  Dims base_dilation;
  bool reversed = false;
  int64_t groups = 1;
  std::optional<ElementType> result;
};

// x [N, C, spatial..], w [M, C / groups, kernel..].
ValueId convolve(const Emit& e, ValueId x, ValueId w, const ConvolutionForm& form) {
  const auto count = static_cast<int64_t>(form.windows.size());
  Dims strides, dilations, to{e.dim(x, 0), e.dim(w, 0)};
  graph::IntMatrix padding{count, 2, {}};
  const Dims base = form.base_dilation.empty() ? Dims(form.windows.size(), 1) : form.base_dilation;
  for (size_t i = 0; i < form.windows.size(); ++i) {
    const WindowDim& d = form.windows[i];
    strides.push_back(d.stride);
    dilations.push_back(d.dilation);
    padding.values.insert(padding.values.end(), {d.pad_low, d.pad_high});
    const int64_t size = e.dim(x, static_cast<int64_t>(i) + 2);
    to.push_back(window_places(size == 0 ? 0 : (size - 1) * base[i] + 1, d));
  }
  const Dims spatial = range(2, 2 + count);
  Builder::Attributes attributes{{Attr::window_strides, strides},
                                 {Attr::padding, padding},
                                 {Attr::lhs_dilation, base},
                                 {Attr::rhs_dilation, dilations},
                                 {Attr::window_reversal, Dims(spatial.size(), form.reversed ? 1 : 0)},
                                 {Attr::input_batch_dimension, int64_t{0}},
                                 {Attr::input_feature_dimension, int64_t{1}},
                                 {Attr::input_spatial_dimensions, spatial},
                                 {Attr::kernel_input_feature_dimension, int64_t{1}},
                                 {Attr::kernel_output_feature_dimension, int64_t{0}},
                                 {Attr::kernel_spatial_dimensions, spatial},
                                 {Attr::output_batch_dimension, int64_t{0}},
                                 {Attr::output_feature_dimension, int64_t{1}},
                                 {Attr::output_spatial_dimensions, spatial},
                                 {Attr::feature_group_count, form.groups},
                                 {Attr::batch_group_count, int64_t{1}}};
  return e.builder().add(OpKind::convolution_, {x, w}, std::move(attributes),
                         {Type::tensor(form.result.value_or(e.element(x)), to)});
}

ValueId with_bias(const Emit& e, ValueId y, ValueId bias) {
  Dims dims(static_cast<size_t>(e.rank(y)), 1);
  dims[1] = e.dim(bias, 0);
  return e.add(y, e.reshape(bias, dims));
}

Dims spatial_of(const Dims& dims) { return {dims.begin() + 2, dims.end()}; }

void check_ranks(const Node& n, size_t x, size_t w) {
  n.check(n.rank(x) >= 3 && n.rank(x) == n.rank(w), "input of rank {} and kernel of rank {}", n.rank(x),
          n.rank(w));
}

}  // namespace

ValueId depthwise_convolution(const Emit& e, ValueId x, ValueId w) {
  ConvolutionForm form;
  form.windows = {WindowDim{.size = e.dim(w, 2)}};
  form.groups = e.dim(x, 1);
  return convolve(e, x, w, form);
}

void import_conv(Node& n) {
  const Emit& e = n.emit;
  check_ranks(n, 0, 1);
  ConvolutionForm form;
  form.windows = windows_of(n, spatial_of(n.dims(0)), spatial_of(n.dims(1)));
  form.groups = n.integer("group", 1);
  const ValueId y = convolve(e, n.in(0), n.in(1), form);
  n.set(0, n.has(2) ? with_bias(e, y, n.in(2)) : y);
}

// Integers, zero points taken off first; sums in i32.
void import_conv_integer(Node& n) {
  const Emit& e = n.emit;
  check_ranks(n, 0, 1);
  ConvolutionForm form;
  form.windows = windows_of(n, spatial_of(n.dims(0)), spatial_of(n.dims(1)));
  form.groups = n.integer("group", 1);
  ValueId x = e.cast(n.in(0), ElementType::kI32);
  ValueId w = e.cast(n.in(1), ElementType::kI32);
  if (n.has(2)) x = e.sub(x, e.cast(n.in(2), ElementType::kI32));
  if (n.has(3)) {
    ValueId zero = e.cast(n.in(3), ElementType::kI32);
    if (e.rank(zero) == 1) {
      Dims dims(static_cast<size_t>(n.rank(1)), 1);
      dims[0] = e.dim(zero, 0);
      zero = e.reshape(zero, dims);
    }
    w = e.sub(w, zero);
  }
  n.set(0, convolve(e, x, w, form));
}

// x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias (i32).
void import_qlinear_conv(Node& n) {
  const Emit& e = n.emit;
  check_ranks(n, 0, 3);
  ConvolutionForm form;
  form.windows = windows_of(n, spatial_of(n.dims(0)), spatial_of(n.dims(3)));
  form.groups = n.integer("group", 1);
  const auto channels = [&](ValueId v, int64_t axis) {
    if (e.rank(v) == 0) return v;
    Dims dims(static_cast<size_t>(n.rank(3)), 1);
    dims[static_cast<size_t>(axis)] = e.dim(v, 0);
    return e.reshape(v, dims);
  };
  const ValueId x =
      e.sub(e.cast(n.in(0), ElementType::kI32), e.cast(channels(n.in(2), 1), ElementType::kI32));
  const ValueId w =
      e.sub(e.cast(n.in(3), ElementType::kI32), e.cast(channels(n.in(5), 0), ElementType::kI32));
  ValueId y = convolve(e, x, w, form);
  if (n.has(8)) y = with_bias(e, y, n.in(8));
  const ValueId scale = e.div(e.mul(channels(n.in(1), 1), channels(n.in(4), 1)), n.in(6));
  const ValueId scaled = e.mul(e.cast(y, ElementType::kF32), scale);
  n.set(0, quantized(e, scaled, n.in(7)));
}

// The gradient of a convolution: the input dilated by the strides, the kernel turned and its feature
// dimensions exchanged within groups.
void import_conv_transpose(Node& n) {
  const Emit& e = n.emit;
  check_ranks(n, 0, 1);
  const Dims x = n.dims(0);
  const Dims w = n.dims(1);
  const Dims spatial = spatial_of(x);
  const int64_t groups = n.integer("group", 1);
  n.check(groups > 0 && w[0] % groups == 0 && x[1] == w[0], "{} input features in {} groups", w[0], groups);
  auto windows = windows_of(n, spatial, spatial_of(w));
  const Dims extra = n.integers("output_padding", Dims(spatial.size(), 0));
  const auto shape = n.integers("output_shape");
  const std::string automatic = n.string("auto_pad", "NOTSET");
  n.check(extra.size() == spatial.size(), "output_padding has {} entries", extra.size());
  n.check(!shape || shape->size() >= spatial.size(), "output_shape is too short");
  Dims base;
  for (size_t i = 0; i < windows.size(); ++i) {
    WindowDim& d = windows[i];
    const int64_t reach = (d.size - 1) * d.dilation + 1;
    const int64_t full = (spatial[i] - 1) * d.stride + reach + extra[i];
    int64_t low = d.pad_low;
    int64_t high = d.pad_high;
    if (shape || automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const int64_t wanted = shape ? (*shape)[shape->size() - spatial.size() + i] : spatial[i] * d.stride;
      const int64_t total = std::max<int64_t>(full - wanted, 0);
      // What does not split evenly goes to the end for SAME_UPPER, to the start otherwise.
      low = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      high = total - low;
      if (wanted > full) high = full - wanted;
    }
    base.push_back(d.stride);
    d.stride = 1;
    d.pad_low = reach - 1 - low;
    d.pad_high = reach - 1 - high + extra[i];
  }
  // [C, M / g, k..] to [M, C / g, k..].
  Dims split{groups, w[0] / groups, w[1]};
  split.insert(split.end(), w.begin() + 2, w.end());
  Dims order{0, 2, 1};
  for (int64_t i = 3; i < static_cast<int64_t>(split.size()); ++i) order.push_back(i);
  Dims turned{groups * w[1], w[0] / groups};
  turned.insert(turned.end(), w.begin() + 2, w.end());
  const ValueId kernel = e.reshape(e.transpose(e.reshape(n.in(1), split), order), turned);
  const ValueId y = convolve(e, n.in(0), kernel, {windows, base, true, groups, std::nullopt});
  n.set(0, n.has(2) ? with_bias(e, y, n.in(2)) : y);
}

// Each kernel element samples the input at its own offset, with bilinear interpolation; zeros outside.
void import_deform_conv(Node& n) {
  const Emit& e = n.emit;
  check_ranks(n, 0, 1);
  if (n.rank(0) != 4) n.refuse(fmt::format("{} spatial dimensions; two are imported", n.rank(0) - 2));
  for (const size_t i : {0, 1, 2})
    n.check(graph::is_float(n.element(i)) && !graph::is_complex(n.element(i)), "input {} is {}", i,
            graph::name(n.element(i)));
  const Dims x = n.dims(0);
  const Dims w = n.dims(1);
  const int64_t groups = n.integer("group", 1);
  const int64_t offset_groups = n.integer("offset_group", 1);
  const auto windows = windows_of(n, spatial_of(x), spatial_of(w));
  const int64_t taps = windows[0].size * windows[1].size;
  const int64_t oh = window_places(x[2], windows[0]);
  const int64_t ow = window_places(x[3], windows[1]);
  n.check(
      groups > 0 && offset_groups > 0 && x[1] % offset_groups == 0 && x[1] % groups == 0 && taps < 1 << 12,
      "{} features in {} groups and {} offset groups", x[1], groups, offset_groups);
  const Dims grid{x[0], offset_groups, taps, oh, ow};
  const ValueId offsets = e.reshape(n.in(2), {x[0], offset_groups, taps, 2, oh, ow});
  const auto coordinate = [&](size_t axis) {
    const WindowDim& d = windows[axis];
    std::vector<double> tap_places;
    for (int64_t t = 0; t < taps; ++t) {
      const int64_t k = axis == 0 ? t / windows[1].size : t % windows[1].size;
      tap_places.push_back(static_cast<double>(k * d.dilation - d.pad_low));
    }
    const ElementType element = e.element(offsets);
    const ValueId base = e.mul(e.iota(element, grid, axis == 0 ? 3 : 4), static_cast<double>(d.stride));
    const ValueId tap = e.reals(tap_places, element, {taps, 1, 1});
    return e.add(e.add(base, tap), e.take(offsets, 3, static_cast<int64_t>(axis)));
  };
  // [N, groups, C / groups, H, W] sampled at [N, groups, taps, oh, ow].
  const ValueId image = e.reshape(n.in(0), {x[0] * offset_groups, x[1] / offset_groups, x[2], x[3]});
  const Dims places{x[0] * offset_groups, taps * oh * ow};
  ValueId sampled =
      bilinear_sample(e, image, e.reshape(coordinate(0), places), e.reshape(coordinate(1), places));
  sampled = e.reshape(sampled, {x[0], offset_groups, x[1] / offset_groups, taps, oh, ow});
  if (n.has(4)) sampled = e.mul(sampled, e.unsqueeze(e.reshape(n.in(4), grid), 2));
  const int64_t per_group = x[1] / groups;
  const ValueId columns = e.reshape(sampled, {x[0], groups, per_group * taps, oh * ow});
  const ValueId kernel = e.reshape(n.in(1), {groups, w[0] / groups, per_group * taps});
  // [g, M/g, k] x [N, g, k, p] -> [g, M/g, N, p].
  const ValueId y = e.dot_general(kernel, columns, {0}, {1}, {2}, {2});
  const ValueId placed = e.reshape(e.transpose(y, {2, 0, 1, 3}), {x[0], w[0], oh, ow});
  n.set(0, n.has(3) ? with_bias(e, placed, n.in(3)) : placed);
}

}  // namespace opentrn::import::onnx
