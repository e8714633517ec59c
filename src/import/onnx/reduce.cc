// Reductions, ArgMax and ArgMin, running sums, TopK.
#include <algorithm>

#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

struct Reduction {
  Dims axes;
  bool keep;
};

// Axes are an attribute before opset 18 (of ReduceSum before 13) and an input after. None: all, or nothing.
Reduction reduction_of(Node& n, int64_t input_since) {
  const int64_t rank = n.rank(0);
  Dims axes;
  bool given = false;
  if (n.opset() < input_since) {
    axes = n.integers("axes", {});
    given = n.attribute("axes") != nullptr;
  } else if (n.has(1)) {
    axes = n.integers(1);
    given = !axes.empty();
  }
  if (!given && !n.flag("noop_with_empty_axes", false)) axes = range(0, rank);
  return {n.axes(axes, rank), n.flag("keepdims", true)};
}

constexpr int64_t kAxesInputSince = 18;

template <OpKind combiner>
void reduce_of(Node& n, auto&& before, auto&& after, int64_t input_since = kAxesInputSince) {
  const Reduction r = reduction_of(n, input_since);
  n.set(0, after(n.emit.reduce(combiner, before(n.in(0)), r.axes, r.keep)));
}

ValueId same(ValueId x) { return x; }

}  // namespace

void import_reduce_sum(Node& n) { reduce_of<OpKind::add_>(n, same, same, 13); }
void import_reduce_prod(Node& n) { reduce_of<OpKind::multiply_>(n, same, same); }

void import_reduce_max(Node& n) { reduce_of<OpKind::maximum_>(n, same, same); }
void import_reduce_min(Node& n) { reduce_of<OpKind::minimum_>(n, same, same); }

void import_reduce_mean(Node& n) {
  const Reduction r = reduction_of(n, kAxesInputSince);
  n.set(0, n.emit.mean(n.in(0), r.axes, r.keep));
}

void import_reduce_l1(Node& n) {
  reduce_of<OpKind::add_>(
      n, [&](ValueId x) { return n.emit.unary(OpKind::abs_, x); }, same);
}

void import_reduce_l2(Node& n) {
  reduce_of<OpKind::add_>(
      n, [&](ValueId x) { return n.emit.mul(x, x); },
      [&](ValueId x) {
        if (graph::is_float(n.emit.element(x))) return n.emit.sqrt(x);
        return n.emit.in(ElementType::kF64, x, [&](ValueId w) { return n.emit.sqrt(w); });
      });
}

void import_reduce_sum_square(Node& n) {
  reduce_of<OpKind::add_>(
      n, [&](ValueId x) { return n.emit.mul(x, x); }, same);
}

void import_reduce_log_sum(Node& n) {
  reduce_of<OpKind::add_>(n, same, [&](ValueId x) {
    if (graph::is_float(n.emit.element(x))) return n.emit.log(x);
    return n.emit.in(ElementType::kF64, x, [&](ValueId w) { return n.emit.log(w); });
  });
}

// log(sum(exp(x - max))) + max, with max = 0 where it is infinite.
void import_reduce_log_sum_exp(Node& n) {
  const Emit& e = n.emit;
  const Reduction r = reduction_of(n, kAxesInputSince);
  const ElementType given = n.element(0);
  const ValueId x = graph::is_float(given) ? n.in(0) : e.cast(n.in(0), ElementType::kF64);
  const ValueId top = e.reduce(OpKind::maximum_, x, r.axes, true);
  const ValueId shift = e.select(e.unary(OpKind::is_finite_, top), top, e.like(top, 0));
  const ValueId total = e.sum(e.exp(e.sub(x, shift)), r.axes, true);
  const ValueId result = e.cast(e.add(e.log(total), shift), given);
  if (r.keep) return n.set(0, result);
  Dims kept;
  for (int64_t i = 0; i < n.rank(0); ++i)
    if (std::find(r.axes.begin(), r.axes.end(), i) == r.axes.end()) kept.push_back(e.dim(x, i));
  n.set(0, e.reshape(result, kept));
}

namespace {

void arg(Node& n, bool largest) {
  const Emit& e = n.emit;
  const int64_t axis = n.axis(n.integer("axis", 0), n.rank(0));
  const ValueId index = e.arg_extreme(n.in(0), axis, largest, n.flag("select_last_index", false));
  n.set(0, n.flag("keepdims", true) ? index : e.squeeze(index, axis));
}

}  // namespace

void import_arg_max(Node& n) { arg(n, true); }
void import_arg_min(Node& n) { arg(n, false); }

namespace {

// A window as long as the dimension that ends at each element.
void cumulative(Node& n, OpKind combiner) {
  const Emit& e = n.emit;
  ValueId x = n.in(0);
  const int64_t axis = n.axis(n.integer(1), n.rank(0));
  const bool reverse = n.flag("reverse", false);
  const int64_t size = e.dim(x, axis);
  std::vector<WindowDim> windows(static_cast<size_t>(n.rank(0)));
  WindowDim& w = windows[static_cast<size_t>(axis)];
  w.size = size;
  (reverse ? w.pad_high : w.pad_low) = size - 1;
  if (n.flag("exclusive", false)) {
    Dims low(windows.size(), 0);
    Dims high(windows.size(), 0);
    low[static_cast<size_t>(axis)] = reverse ? -1 : 1;
    high[static_cast<size_t>(axis)] = reverse ? 1 : -1;
    x = e.pad(x, e.scalar(e.element(x), combiner == OpKind::add_ ? 0 : 1), low, high);
  }
  n.set(0, size == 0 ? x : e.reduce_window(combiner, x, windows));
}

}  // namespace

void import_cum_sum(Node& n) { cumulative(n, OpKind::add_); }
void import_cum_prod(Node& n) { cumulative(n, OpKind::multiply_); }

namespace {

// A stable sort of values with their indices, of which the first k stay.
std::pair<ValueId, ValueId> extremes(const Emit& e, ValueId x, int64_t axis, int64_t k, bool is_largest) {
  const Dims dims = e.dims(x);
  const ValueId index = e.iota(ElementType::kI64, dims, axis);
  const Type value = Type::scalar(e.element(x));
  const Type position = Type::scalar(ElementType::kI64);
  const graph::RegionBody comparator{
      {value, value, position, position}, [&](Builder& inner, std::span<const ValueId> a) {
        return Values{
            inner.compare(is_largest ? ComparisonDirection::kGt : ComparisonDirection::kLt, a[0], a[1])};
      }};
  const graph::OpId id = e.builder().add_with_regions(
      OpKind::sort_, {x, index}, {{Attr::dimension, axis}, {Attr::is_stable, true}},
      {e.type(x), Type::tensor(ElementType::kI64, dims)}, {comparator});
  const Values sorted = e.builder().function().op(id).results;
  return {e.slice(sorted[0], axis, 0, k), e.slice(sorted[1], axis, 0, k)};
}

}  // namespace

std::pair<ValueId, ValueId> largest(const Emit& e, ValueId x, int64_t k) {
  return extremes(e, x, 1, k, true);
}

void import_top_k(Node& n) {
  const Emit& e = n.emit;
  const int64_t axis = n.axis(n.integer("axis", -1), n.rank(0));
  const int64_t k = n.opset() < 10 ? n.integer("k", 0) : n.integer(1);
  n.check(0 <= k && k <= e.dim(n.in(0), axis), "k is {} of {} elements", k, e.dim(n.in(0), axis));
  const auto [value, place] = extremes(e, n.in(0), axis, k, n.flag("largest", true));
  n.set(0, value);
  n.set(1, place);
}

}  // namespace opentrn::import::onnx
