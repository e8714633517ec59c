// Pooling.
#include <algorithm>
#include <cmath>

#include "import/onnx/ops.h"
#include "import/onnx/window.h"

namespace opentrn::import::onnx {

namespace {

struct Pool {
  std::vector<WindowDim> windows;  // of all dimensions
  Dims places;
};

// With ceil_mode the last window hangs over: more padding behind.
Pool pool_of(const Node& n) {
  const Dims dims = n.dims(0);
  n.check(dims.size() >= 3, "input of rank {}", dims.size());
  n.check(n.attribute("kernel_shape") != nullptr, "kernel_shape is missing");
  const Dims spatial(dims.begin() + 2, dims.end());
  Pool pool{{WindowDim{}, WindowDim{}}, {dims[0], dims[1]}};
  const auto windows = windows_of(n, spatial, {});
  for (size_t i = 0; i < spatial.size(); ++i) {
    WindowDim w = windows[i];
    const int64_t places = window_places(spatial[i], w, n.flag("ceil_mode", false));
    const int64_t reach = (w.size - 1) * w.dilation + 1;
    const int64_t needed = places == 0 ? 0 : (places - 1) * w.stride + reach;
    w.pad_high = std::max(w.pad_high, needed - spatial[i] - w.pad_low);
    pool.windows.push_back(w);
    pool.places.push_back(places);
  }
  return pool;
}

// Trims what larger paddings would add.
ValueId trimmed(const Emit& e, ValueId y, const Dims& places) {
  for (int64_t i = 0; i < e.rank(y); ++i) y = e.slice(y, i, 0, places[static_cast<size_t>(i)]);
  return y;
}

ValueId pooled(const Emit& e, OpKind combiner, ValueId x, const Pool& pool) {
  return trimmed(e, e.reduce_window(combiner, x, pool.windows), pool.places);
}

// How many elements each window averages.
ValueId counted(const Node& n, const Pool& pool) {
  const Emit& e = n.emit;
  const ElementType element = n.element(0);
  Dims dims = n.dims(0);
  dims[0] = dims[1] = 1;
  ValueId ones = e.full(element, dims, 1);
  Pool counting = pool;
  counting.places[0] = counting.places[1] = 1;
  if (n.flag("count_include_pad", false)) {
    // The stated padding counts, what ceil_mode adds behind it does not.
    const auto stated = windows_of(n, {dims.begin() + 2, dims.end()}, {});
    Dims low(dims.size(), 0);
    Dims high(dims.size(), 0);
    for (size_t i = 0; i < stated.size(); ++i) {
      low[i + 2] = stated[i].pad_low;
      high[i + 2] = stated[i].pad_high;
      counting.windows[i + 2].pad_low -= stated[i].pad_low;
      counting.windows[i + 2].pad_high -= stated[i].pad_high;
    }
    ones = e.pad(ones, e.scalar(element, 1), low, high);
  }
  return pooled(e, OpKind::add_, ones, counting);
}

}  // namespace

void import_average_pool(Node& n) {
  const Pool pool = pool_of(n);
  n.set(0, n.emit.div(pooled(n.emit, OpKind::add_, n.in(0), pool), counted(n, pool)));
}

void import_lp_pool(Node& n) {
  const Emit& e = n.emit;
  const auto p = static_cast<double>(n.integer("p", 2));
  const Pool pool = pool_of(n);
  const ValueId power = e.binary(OpKind::power_, e.unary(OpKind::abs_, n.in(0)), e.like(n.in(0), p));
  const ValueId sum = pooled(e, OpKind::add_, power, pool);
  n.set(0, e.binary(OpKind::power_, sum, e.like(sum, 1 / p)));
}

namespace {

// Flat index, in the whole input, of each window's largest element: one slice of the padded input per
// window element, compared in order.
ValueId max_indices(const Node& n, const Pool& pool) {
  const Emit& e = n.emit;
  const Dims dims = n.dims(0);
  const bool column_major = n.flag("storage_order", false);
  Dims low, high;
  for (const WindowDim& w : pool.windows) {
    low.push_back(w.pad_low);
    high.push_back(w.pad_high);
  }
  // Position of an element: row-major, or with the spatial dimensions in the other order.
  ValueId position = e.full(ElementType::kI64, dims, 0);
  int64_t stride = 1;
  Dims order;
  if (column_major)
    for (int64_t i = 2; i < n.rank(0); ++i) order.push_back(i);
  else
    for (int64_t i = n.rank(0); i-- > 2;) order.push_back(i);
  order.push_back(1);
  order.push_back(0);
  for (const int64_t axis : order) {
    position = e.add(position, e.mul(e.iota(ElementType::kI64, dims, axis), static_cast<double>(stride)));
    stride *= dims[static_cast<size_t>(axis)];
  }
  const ValueId lowest = e.constant(graph::neutral_element(OpKind::maximum_, n.element(0)));
  const ValueId x = e.pad(n.in(0), lowest, low, high);
  position = e.pad(position, e.scalar(ElementType::kI64, -1), low, high);
  Dims sizes;
  for (const WindowDim& w : pool.windows) sizes.push_back(w.size);
  const int64_t taps = product(sizes);
  n.check(taps < 1 << 12, "windows of {} elements", taps);
  std::optional<ValueId> best, index;
  for (int64_t tap = 0; tap < taps; ++tap) {
    ValueId value = x;
    ValueId place = position;
    int64_t rest = tap;
    for (int64_t axis = n.rank(0); axis-- > 0;) {
      const WindowDim& w = pool.windows[static_cast<size_t>(axis)];
      const int64_t start = rest % w.size * w.dilation;
      rest /= w.size;
      const int64_t limit = start + (pool.places[static_cast<size_t>(axis)] - 1) * w.stride + 1;
      value = e.slice(value, axis, start, limit, w.stride);
      place = e.slice(place, axis, start, limit, w.stride);
    }
    if (!best) {
      best = value;
      index = place;
      continue;
    }
    // Padding (-1) loses to any element, also to the lowest value.
    const ValueId larger = e.compare(ComparisonDirection::kGt, value, *best);
    const ValueId real = e.compare(ComparisonDirection::kGe, place, 0);
    const ValueId empty = e.compare(ComparisonDirection::kLt, *index, 0);
    const ValueId wins = e.binary(OpKind::and_, real, e.binary(OpKind::or_, larger, empty));
    best = e.select(wins, value, *best);
    index = e.select(wins, place, *index);
  }
  return *index;
}

}  // namespace

void import_max_pool(Node& n) {
  const Pool pool = pool_of(n);
  n.set(0, pooled(n.emit, OpKind::maximum_, n.in(0), pool));
  if (n.wants(1)) n.set(1, max_indices(n, pool));
}

namespace {

Dims spatial_axes(const Node& n) {
  n.check(n.rank(0) >= 2, "input of rank {}", n.rank(0));
  return range(2, n.rank(0));
}

}  // namespace

void import_global_average_pool(Node& n) { n.set(0, n.emit.mean(n.in(0), spatial_axes(n), true)); }
void import_global_max_pool(Node& n) {
  n.set(0, n.emit.reduce(OpKind::maximum_, n.in(0), spatial_axes(n), true));
}

void import_global_lp_pool(Node& n) {
  const Emit& e = n.emit;
  const auto p = static_cast<double>(n.integer("p", 2));
  const ValueId power = e.binary(OpKind::power_, e.unary(OpKind::abs_, n.in(0)), e.like(n.in(0), p));
  const ValueId sum = e.sum(power, spatial_axes(n), true);
  n.set(0, e.binary(OpKind::power_, sum, e.like(sum, 1 / p)));
}

// Values go back to the places that MaxPool took them from.
void import_max_unpool(Node& n) {
  const Emit& e = n.emit;
  const Dims dims = n.dims(0);
  n.check(dims.size() >= 3, "input of rank {}", dims.size());
  const Dims spatial(dims.begin() + 2, dims.end());
  const auto windows = windows_of(n, spatial, {});
  Dims own{dims[0], dims[1]};
  for (size_t i = 0; i < spatial.size(); ++i)
    own.push_back((spatial[i] - 1) * windows[i].stride - windows[i].pad_low - windows[i].pad_high +
                  windows[i].size);
  Dims to = n.has(2) ? n.integers(2) : own;
  n.check(to.size() == dims.size(), "output_shape has {} entries", to.size());
  // Indices are flat in the tensor that the kernel and strides make.
  const int64_t count = product(dims);
  const ValueId flat = e.full(n.element(0), {product(own)}, 0);
  const ValueId indices = e.reshape(n.in(1), {count, 1});
  const ValueId placed =
      e.reshape(e.scatter_nd(flat, indices, e.reshape(n.in(0), {count}), std::nullopt), own);
  Dims low(dims.size(), 0);
  Dims high;
  for (size_t i = 0; i < dims.size(); ++i) high.push_back(to[i] - own[i]);
  n.set(0, to == own ? placed : e.pad(placed, e.scalar(n.element(0), 0), low, high));
}

void import_lrn(Node& n) {
  const Emit& e = n.emit;
  const ValueId x = n.in(0);
  const int64_t size = n.integer("size", 0);
  n.check(n.rank(0) >= 2 && size > 0 && size < 1 << 20, "size is {}", size);
  const double alpha = n.real("alpha", 1e-4);
  const double beta = n.real("beta", 0.75);
  const double bias = n.real("bias", 1);
  std::vector<WindowDim> windows(static_cast<size_t>(n.rank(0)));
  windows[1].size = size;
  windows[1].pad_low = (size - 1) / 2;
  windows[1].pad_high = size - 1 - (size - 1) / 2;
  const ValueId squares = e.reduce_window(OpKind::add_, e.mul(x, x), windows);
  const ValueId scale = e.add(e.mul(squares, alpha / static_cast<double>(size)), bias);
  n.set(0, e.div(x, e.binary(OpKind::power_, scale, e.like(scale, beta))));
}

}  // namespace opentrn::import::onnx
