// Operators whose result's shape depends on data: how many elements are not zero, are kept, or differ. Each
// makes its rows, padded to as many as there can be, and counts them; the next stage has the exact number.
#include <algorithm>

#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

// Places of the true elements of mask [n] in order, then n; and their number.
CountedRows places_of(const Emit& e, ValueId mask) {
  const int64_t size = e.dim(mask, 0);
  const ValueId place = e.iota(ElementType::kI64, {size}, 0);
  const ValueId key = e.select(mask, place, e.like(place, static_cast<double>(size)));
  const Type scalar = Type::scalar(ElementType::kI64);
  const graph::RegionBody smaller{{scalar, scalar}, [](Builder& inner, std::span<const ValueId> a) {
                                    return Values{inner.compare(ComparisonDirection::kLt, a[0], a[1])};
                                  }};
  const graph::OpId sorted = e.builder().add_with_regions(
      OpKind::sort_, {key}, {{Attr::dimension, int64_t{0}}, {Attr::is_stable, false}}, {e.type(key)},
      {smaller});
  return {{e.builder().function().op(sorted).results[0]}, e.sum(e.cast(mask, ElementType::kI64), {0}, false)};
}

ValueId is_not_zero(const Emit& e, ValueId x) {
  return graph::is_bool(e.element(x)) ? x : e.compare(ComparisonDirection::kNe, x, 0);
}

// Keys sorted along their last dimension and `carried` with them; what is equal stays in order. NaNs are the
// last, whichever way.
Values sorted_by(const Emit& e, ValueId keys, ValueId carried, bool descending = false) {
  const Type key = Type::scalar(e.element(keys)), value = Type::scalar(e.element(carried));
  const graph::RegionBody before{
      {key, key, value, value}, [&](Builder& inner, std::span<const ValueId> a) {
        const Emit i(inner);
        const auto wanted = descending ? ComparisonDirection::kGt : ComparisonDirection::kLt;
        ValueId first = i.compare(wanted, a[0], a[1]);
        if (graph::is_float(key.element())) {
          const ValueId nan = i.compare(ComparisonDirection::kNe, a[1], a[1]);
          const ValueId number = i.compare(ComparisonDirection::kEq, a[0], a[0]);
          first = i.binary(OpKind::or_, first, i.binary(OpKind::and_, nan, number));
        }
        return Values{first};
      }};
  const graph::OpId id = e.builder().add_with_regions(
      OpKind::sort_, {keys, carried}, {{Attr::dimension, e.rank(keys) - 1}, {Attr::is_stable, true}},
      {e.type(keys), e.type(carried)}, {before});
  return e.builder().function().op(id).results;
}

// Sums of x [n] up to each element. By doubling: a window as long as the dimension takes the evaluator n^2.
ValueId running_sum(const Emit& e, ValueId x) {
  const int64_t size = e.dim(x, 0);
  for (int64_t step = 1; step < size; step *= 2)
    x = e.add(x, e.pad(e.slice(x, 0, 0, size - step), e.scalar(e.element(x), 0), {step}, {0}));
  return x;
}

// Whether rows of x [n, k] differ from the row before; the first one does.
ValueId differs_from_before(const Emit& e, ValueId x) {
  const int64_t size = e.dim(x, 0);
  const ValueId now = e.slice(x, 0, 1, size), before = e.slice(x, 0, 0, size - 1);
  ValueId differs = e.compare(ComparisonDirection::kNe, now, before);
  if (graph::is_float(e.element(x))) {  // NaN is equal to NaN here, as in numpy.unique
    const ValueId numbers = e.binary(OpKind::or_, e.compare(ComparisonDirection::kEq, now, now),
                                     e.compare(ComparisonDirection::kEq, before, before));
    differs = e.binary(OpKind::and_, differs, numbers);
  }
  return e.concat({e.full(ElementType::kI1, {1}, 1), e.reduce(OpKind::or_, differs, {1}, false)}, 0);
}

// The order of the rows of x [n, k] by their first column, then the second...: sorted by the last column
// first.
ValueId order_of_rows(const Emit& e, ValueId x) {
  const int64_t size = e.dim(x, 0), columns = e.dim(x, 1);
  const ValueId start = e.iota(ElementType::kI64, {size}, 0);
  if (columns == 0) return start;
  const auto by_column = [size](const Emit& i, ValueId column, ValueId order) {
    return sorted_by(i, i.take_along(i.reshape(column, {size}), order, 0), order)[1];
  };
  if (columns == 1) return by_column(e, x, start);
  const std::vector<Type> types{Type::scalar(ElementType::kI64), e.type(start)};
  const graph::RegionBody more{types, [&](Builder& b, std::span<const ValueId> a) {
                                 return Values{Emit(b).compare(ComparisonDirection::kGe, a[0], 0)};
                               }};
  const graph::RegionBody step{types, [&](Builder& b, std::span<const ValueId> a) {
                                 const Emit i(b);
                                 const ValueId zero = i.scalar(ElementType::kI64, 0);
                                 const ValueId column = i.dynamic_slice(x, {zero, a[0]}, {size, 1});
                                 return Values{i.sub(a[0], 1), by_column(i, column, a[1])};
                               }};
  const ValueId last = e.scalar(ElementType::kI64, static_cast<double>(columns - 1));
  const graph::OpId id = e.builder().add_with_regions(OpKind::while_, {last, start}, {}, types, {more, step});
  return e.builder().function().op(id).results[1];
}

// Of the n rows of x: where each different one is first, how often it is there, and which one each row is.
// `by_value`: in the order of their values, else of their first places.
CountedRows different_rows(const Emit& e, ValueId x, bool by_value) {
  const int64_t size = e.dim(x, 0);
  const ValueId order = order_of_rows(e, x);
  const ValueId fresh = differs_from_before(e, e.take_along(x, order, 0));
  const ValueId group = e.sub(running_sum(e, e.cast(fresh, ElementType::kI64)), 1);
  ValueId which = sorted_by(e, order, group)[1];
  const CountedRows starts = places_of(e, fresh);
  const ValueId start = starts.rows[0];  // behind the last one: n
  const ValueId next =
      e.concat({e.slice(start, 0, 1, size), e.full(ElementType::kI64, {1}, static_cast<double>(size))}, 0);
  ValueId count = e.sub(next, start);
  const ValueId there = e.compare(ComparisonDirection::kLt, start, static_cast<double>(size));
  const ValueId place = e.select(there, e.take_along(order, e.min(start, static_cast<double>(size - 1)), 0),
                                 e.like(start, static_cast<double>(size)));
  if (by_value) return {{place, count}, starts.count, {which}};
  const ValueId numbers = e.iota(ElementType::kI64, {size}, 0);
  const Values by_place = sorted_by(e, place, numbers);
  const ValueId rank = sorted_by(e, by_place[1], numbers)[1];
  return {{by_place[0], e.take_along(count, by_place[1], 0)}, starts.count, {e.take_along(rank, which, 0)}};
}

}  // namespace

// [rank, count]: the indices of elements that are not zero, in row-major order.
void import_non_zero(Node& n) {
  const Emit& e = n.emit;
  const ValueId x = n.in(0);
  const Dims dims = n.dims(0);
  const ValueId places =
      n.cut([&] { return places_of(e, e.reshape(is_not_zero(e, x), {product(dims)})); })[0];
  const int64_t count = e.dim(places, 0);
  if (dims.empty()) return n.set(0, e.full(ElementType::kI64, {0, count}, 0));
  Values rows;
  int64_t stride = product(dims);
  for (const int64_t size : dims) {
    stride /= std::max<int64_t>(size, 1);
    const ValueId index = e.div(places, static_cast<double>(stride));
    rows.push_back(
        e.unsqueeze(e.binary(OpKind::remainder_, index, e.like(index, static_cast<double>(size))), 0));
  }
  n.set(0, e.concat(rows, 0));
}

// The slices of `axis` that the condition keeps; those beyond its end go.
void import_compress(Node& n) {
  const Emit& e = n.emit;
  ValueId x = n.in(0);
  int64_t axis = 0;
  if (n.attribute("axis"))
    axis = n.axis(n.integer("axis", 0), n.rank(0));
  else
    x = e.reshape(x, {product(n.dims(0))});
  n.check(n.rank(1) == 1, "the condition has rank {}", n.rank(1));
  const int64_t length = std::min(e.dim(n.in(1), 0), e.dim(x, axis));
  const ValueId places =
      n.cut([&] { return places_of(e, is_not_zero(e, e.slice(n.in(1), 0, 0, length))); })[0];
  n.set(0, e.take_along(x, places, axis));
}

void import_unique(Node& n) {
  const Emit& e = n.emit;
  ValueId x = n.in(0);
  int64_t axis = 0;
  if (n.attribute("axis")) {
    axis = n.axis(n.integer("axis", 0), n.rank(0));
  } else {
    x = e.reshape(x, {product(n.dims(0))});
  }
  const int64_t size = e.dim(x, axis);
  if (size == 0) {
    n.set(0, x);
    for (size_t i = 1; i < 4; ++i) n.set(i, e.full(ElementType::kI64, {0}, 0));
    return;
  }
  const Values found = n.cut([&] {
    Dims front{axis};
    for (int64_t i = 0; i < e.rank(x); ++i)
      if (i != axis) front.push_back(i);
    const ValueId moved = e.transpose(x, front);
    const Dims dims = e.dims(moved);
    ValueId rows = e.reshape(moved, {size, product({dims.begin() + 1, dims.end()})});
    if (graph::is_bool(e.element(rows))) rows = e.cast(rows, ElementType::kUI8);
    return different_rows(e, rows, n.flag("sorted", true));
  });
  n.set(0, e.take_along(x, found[0], axis));
  n.set(1, found[0]);
  n.set(2, found[2]);
  n.set(3, found[1]);
}

namespace {

// The edges of boxes [..., n, 4]: low and high of the two directions, [..., n] each.
struct Edges {
  ValueId low[2], high[2];
};

Edges edges_of(const Emit& e, ValueId boxes, bool by_centre) {
  const int64_t last = e.rank(boxes) - 1;
  Edges edges{};
  for (int64_t i = 0; i < 2; ++i) {
    const ValueId a = e.take(boxes, last, i), b = e.take(boxes, last, i + 2);
    const ValueId half = e.div(b, 2);
    edges.low[i] = by_centre ? e.sub(a, half) : e.min(a, b);
    edges.high[i] = by_centre ? e.add(a, half) : e.max(a, b);
  }
  return edges;
}

// Whether boxes overlap with `one` by more than the threshold: of the area of both together. Boxes without
// area do with none.
ValueId overlaps(const Emit& e, const Edges& boxes, const Edges& one, ValueId threshold) {
  std::optional<ValueId> common, area, one_area;
  for (int i = 0; i < 2; ++i) {
    const ValueId side = e.max(e.sub(e.min(boxes.high[i], one.high[i]), e.max(boxes.low[i], one.low[i])), 0);
    const ValueId own = e.sub(boxes.high[i], boxes.low[i]), others = e.sub(one.high[i], one.low[i]);
    common = common ? e.mul(*common, side) : side;
    area = area ? e.mul(*area, own) : own;
    one_area = one_area ? e.mul(*one_area, others) : others;
  }
  const ValueId both = e.sub(e.add(*area, *one_area), *common);
  const auto positive = [&](ValueId x) { return e.compare(ComparisonDirection::kGt, x, 0); };
  const ValueId real = e.binary(OpKind::and_, e.binary(OpKind::and_, positive(*common), positive(both)),
                                e.binary(OpKind::and_, positive(*area), positive(*one_area)));
  const ValueId share = e.div(*common, e.select(real, both, e.like(both, 1)));
  return e.binary(OpKind::and_, real, e.compare(ComparisonDirection::kGt, share, threshold));
}

// Which of boxes [b, c, n], the best first, are kept: the first one, then the first one that overlaps with
// none kept so far.
ValueId kept_boxes(const Emit& e, const Edges& edges, ValueId allowed, ValueId threshold, ValueId most) {
  const Dims dims = e.dims(allowed);
  const int64_t size = dims[2];
  const ValueId none = e.full(ElementType::kI1, dims, 0);
  const std::vector<Type> types{Type::scalar(ElementType::kI64), e.type(allowed), e.type(none)};
  const graph::RegionBody more{types, [&](Builder& b, std::span<const ValueId> a) {
                                 const Emit i(b);
                                 const ValueId room = i.compare(ComparisonDirection::kLt, a[0], most);
                                 const ValueId left = i.reduce(OpKind::or_, a[1], {0, 1, 2}, false);
                                 return Values{i.binary(OpKind::and_, room, left)};
                               }};
  const graph::RegionBody step{
      types, [&](Builder& b, std::span<const ValueId> a) {
        const Emit i(b);
        const ValueId place = i.iota(ElementType::kI32, dims, 2);
        const ValueId candidates = i.select(a[1], place, i.like(place, static_cast<double>(size)));
        const ValueId first = i.reduce(OpKind::minimum_, candidates, {2}, true);
        const ValueId chosen = i.compare(ComparisonDirection::kEq, candidates, i.broadcast_to(first, dims));
        const ValueId taken = i.binary(OpKind::and_, chosen, a[1]);
        Edges one{};
        for (int k = 0; k < 2; ++k) {
          const auto of_one = [&](ValueId x) {
            return i.broadcast_to(i.sum(i.select(taken, x, i.like(x, 0)), {2}, true), dims);
          };
          one.low[k] = of_one(edges.low[k]);
          one.high[k] = of_one(edges.high[k]);
        }
        const ValueId gone = i.binary(OpKind::or_, taken, overlaps(i, edges, one, threshold));
        return Values{i.add(a[0], 1), i.binary(OpKind::and_, a[1], i.logical_not(gone)),
                      i.binary(OpKind::or_, a[2], taken)};
      }};
  const graph::OpId id = e.builder().add_with_regions(
      OpKind::while_, {e.scalar(ElementType::kI64, 0), allowed, none}, {}, types, {more, step});
  return e.builder().function().op(id).results[2];
}

}  // namespace

// [count, 3]: batch, class and box of what is kept, the best first within a class.
void import_non_max_suppression(Node& n) {
  const Emit& e = n.emit;
  const Dims box_dims = n.dims(0), score_dims = n.dims(1);
  n.check(box_dims.size() == 3 && box_dims[2] == 4 && score_dims.size() == 3 &&
              score_dims[0] == box_dims[0] && score_dims[2] == box_dims[1],
          "boxes {} and scores {}", e.type(n.in(0)).to_string(), e.type(n.in(1)).to_string());
  const int64_t size = box_dims[1];
  // A number that only a run knows limits the loop, and all boxes the result.
  const bool known = !n.has(2) || n.maybe_constant(2);
  const Dims limits = n.has(2) && known ? n.places(2) : Dims{known ? 0 : size};
  n.check(limits.size() == 1, "max_output_boxes_per_class has {} entries", limits.size());
  const int64_t most = std::min(limits[0], size);
  if (most <= 0 || product(score_dims) == 0) return n.set(0, e.full(ElementType::kI64, {0, 3}, 0));
  const bool by_centre = n.integer("center_point_box", 0) != 0;
  n.set(0, n.cut([&] {
    const ValueId scores = n.in(1);
    const Values best = sorted_by(e, scores, e.iota(ElementType::kI64, score_dims, 2), true);
    const ValueId boxes = e.gather_nd(n.in(0), e.unsqueeze(best[1], 3), 1);
    const auto limit = [&](size_t i) {
      return e.broadcast_to(e.cast(e.reshape(n.in(i), {}), e.element(scores)), score_dims);
    };
    const ValueId threshold = n.has(3) ? limit(3) : e.like(scores, 0);
    const ValueId allowed = n.has(4) ? e.compare(ComparisonDirection::kGt, best[0], limit(4))
                                     : e.full(ElementType::kI1, score_dims, 1);
    const ValueId limit_of_class = known ? e.scalar(ElementType::kI64, static_cast<double>(most))
                                         : e.cast(e.reshape(n.in(2), {}), ElementType::kI64);
    const ValueId kept = kept_boxes(e, edges_of(e, boxes, by_centre), allowed, threshold, limit_of_class);
    const int64_t all = product(score_dims);
    const CountedRows found = places_of(e, e.reshape(kept, {all}));
    const int64_t bound = score_dims[0] * score_dims[1] * most;
    const ValueId place = e.min(e.slice(found.rows[0], 0, 0, bound), static_cast<double>(all - 1));
    const auto part = [&](int64_t stride, int64_t count) {
      const ValueId whole = e.div(place, static_cast<double>(stride));
      return e.binary(OpKind::remainder_, whole, e.like(whole, static_cast<double>(count)));
    };
    const ValueId box = e.take_along(e.reshape(best[1], {all}), place, 0);
    const ValueId rows = e.concat({e.unsqueeze(part(size * score_dims[1], score_dims[0]), 1),
                                   e.unsqueeze(part(size, score_dims[1]), 1), e.unsqueeze(box, 1)},
                                  1);
    return CountedRows{{rows}, found.count};
  })[0]);
}

}  // namespace opentrn::import::onnx
