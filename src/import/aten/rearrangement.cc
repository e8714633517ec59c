// Views and what else moves elements without computing: reshapes, slices, concatenations, padding.
#include <algorithm>

#include <fmt/format.h>

#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

Value reshaped(Call& call) { return call.body.reshape(call.value(0), call.out().shape); }

int64_t axis_in(const Arg& axis, const Value& value) { return axis_of(axis.integer(), value.rank()); }

Shape axes_in(const Arg& axes, const Value& value) {
  Shape found;
  for (const int64_t axis : axes.integers()) found.push_back(axis_of(axis, value.rank()));
  return found;
}

int64_t whole_or(const Arg& number, int64_t otherwise) {
  return number.is_none() ? otherwise : number.integer();
}

Shape with_size(Shape shape, int64_t axis, int64_t size) {
  shape.at(axis) = size;
  return shape;
}

Shape without(Shape shape, int64_t axis) {
  shape.erase(shape.begin() + axis);
  return shape;
}

Shape joined(Shape first, const Shape& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// The same bits; StableHLO adds or removes a last dimension where widths differ.
Value view_dtype(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const auto& [shape, dtype, _] = call.out();
  if (value.dtype == dtype) return value;
  const int wide = graph::storage_bytes(value.dtype);
  const int narrow = graph::storage_bytes(dtype);
  const auto has_bits = [](ElementType each) { return !graph::is_complex(each) && each != ElementType::kI1; };
  require(std::max(wide, narrow) < 8 && has_bits(value.dtype) && has_bits(dtype),
          fmt::format("from {} to {} is not written: their bits differ on the device",
                      graph::name(value.dtype), graph::name(dtype)));
  if (wide == narrow) return body.op("bitcast_convert", {value}, shape, dtype);
  if (wide > narrow)
    return body.reshape(body.op("bitcast_convert", {value}, joined(value.shape, {wide / narrow}), dtype),
                        shape);
  return body.op("bitcast_convert", {body.reshape(value, joined(shape, {narrow / wide}))}, shape, dtype);
}

Value permute(Call& call) { return call.body.transpose(call.value(0), axes_in(call.at(1), call.value(0))); }

Value turned(Call& call) {
  Shape order = counted_up(call.value(0).rank());
  std::reverse(order.begin(), order.end());
  return call.body.transpose(call.value(0), order);
}

Value transpose(Call& call) {
  const Value& value = call.value(0);
  Shape order = counted_up(value.rank());
  if (!order.empty()) std::swap(order.at(axis_in(call.at(1), value)), order.at(axis_in(call.at(2), value)));
  return call.body.transpose(value, order);
}

// First and end of a slice as Python counts them.
std::pair<int64_t, int64_t> bounds(int64_t size, const Arg& start, const Arg& end) {
  int64_t first = whole_or(start, 0);
  int64_t last = whole_or(end, size);
  first = std::min(std::max<int64_t>(first < 0 ? first + size : first, 0), size);
  last = std::min(std::max(last < 0 ? last + size : last, first), size);
  return {first, last};
}

Value slice(Call& call) {
  const Value& value = call.value(0);
  const int64_t axis = axis_of(whole_or(call.at(1), 0), value.rank());
  const auto [start, end] = bounds(value.shape.at(axis), call.at(2), call.at(3));
  return call.body.slice_axis(value, axis, start, end, whole_or(call.at(4), 1));
}

Value narrow(Call& call) {
  const Value& value = call.value(0);
  const int64_t axis = axis_in(call.at(1), value);
  const int64_t start = axis_of(call.at(2).integer(), value.shape.at(axis));
  return call.body.slice_axis(value, axis, start, start + call.at(3).integer());
}

Value selected(Body& body, const Shape& shape, const Value& value, int64_t axis, int64_t place) {
  const int64_t number = axis_of(place, value.shape.at(axis));
  return body.reshape(body.slice_axis(value, axis, number, number + 1), shape);
}

Value select(Call& call) {
  const Value& value = call.value(0);
  return selected(call.body, call.out().shape, value, axis_in(call.at(1), value), call.at(2).integer());
}

Value slice_scatter(Call& call) {
  const Value& value = call.value(0);
  const int64_t axis = axis_of(whole_or(call.at(2), 0), value.rank());
  const int64_t step = whole_or(call.at(5), 1);
  const auto [start, end] = bounds(value.shape.at(axis), call.at(3), call.at(4));
  if (start == end) return value;
  const Shape shape = with_size(value.shape, axis, (end - start + step - 1) / step);
  const Value part = call.body.tensor(call.at(1), call.out().dtype, shape);
  return put_slice(call.body, value, part, axis, start, end, step);
}

Value select_scatter(Call& call) {
  const Value& value = call.value(0);
  const int64_t axis = axis_in(call.at(2), value);
  const int64_t number = axis_of(call.at(3).integer(), value.shape.at(axis));
  const Value part = call.body.tensor(call.at(1), call.out().dtype, without(value.shape, axis));
  const Value piece = call.body.reshape(part, with_size(value.shape, axis, 1));
  return put_slice(call.body, value, piece, axis, number, number + 1, 1);
}

Results parts(Call& call, const Shape& sizes, int64_t axis) {
  Results made;
  int64_t end = 0;
  for (const int64_t size : sizes) {
    made.emplace_back(call.body.slice_axis(call.value(0), axis, end, end + size));
    end += size;
  }
  return made;
}

Results split_with_sizes(Call& call) {
  return parts(call, call.at(1).integers(), axis_of(whole_or(call.at(2), 0), call.value(0).rank()));
}

Results split(Call& call) {
  const int64_t axis = axis_of(whole_or(call.at(2), 0), call.value(0).rank());
  Shape sizes;
  for (const Spec& each : call.outs) sizes.push_back(each.shape.at(axis));
  return parts(call, sizes, axis);
}

Results unbind(Call& call) {
  const int64_t axis = axis_of(whole_or(call.at(1), 0), call.value(0).rank());
  Results made;
  for (const Spec& each : call.outs)
    made.emplace_back(
        selected(call.body, each.shape, call.value(0), axis, static_cast<int64_t>(made.size())));
  return made;
}

// Empty tensors of one dimension join anything.
Value cat(Call& call) {
  const auto rank = static_cast<int64_t>(call.out().shape.size());
  const int64_t axis = axis_of(whole_or(call.at(1), 0), rank);
  std::vector<Value> kept;
  for (const Value& value : call.at(0).values())
    if (value.shape != Shape{0}) kept.push_back(value);
  if (kept.empty()) kept.push_back(call.at(0).list().at(0).value());
  for (Value& value : kept) value = call.body.convert(value, call.out().dtype);
  return call.body.concatenate(kept, axis);
}

Value stack(Call& call) {
  const auto& [shape, dtype, _] = call.out();
  const int64_t axis = axis_of(whole_or(call.at(1), 0), static_cast<int64_t>(shape.size()));
  const Shape one = with_size(shape, axis, 1);
  std::vector<Value> rows = call.at(0).values();
  for (Value& value : rows) value = call.body.reshape(call.body.convert(value, dtype), one);
  return call.body.concatenate(rows, axis);
}

Value flip(Call& call) {
  const Value& value = call.value(0);
  if (value.rank() == 0) return value;
  Shape axes = axes_in(call.at(1), value);
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return call.body.reverse(value, axes);
}

Value repeat(Call& call) {
  const Value& value = call.value(0);
  const Shape counts = call.at(1).integers();
  const Shape sizes = joined(Shape(counts.size() - value.shape.size(), 1), value.shape);
  Shape spread;
  Shape places;
  for (size_t i = 0; i < counts.size(); ++i) {
    spread.insert(spread.end(), {counts[i], sizes[i]});
    places.push_back(static_cast<int64_t>(2 * i + 1));
  }
  const Value made = call.body.broadcast_in_dim(call.body.reshape(value, sizes), spread, places);
  return call.body.reshape(made, call.out().shape);
}

Value constant_pad(Call& call) {
  const Value& value = call.value(0);
  const Shape amounts = call.at(1).integers();
  Shape low(value.shape.size(), 0);
  Shape high = low;
  for (size_t i = 0; i < amounts.size() / 2; ++i) {
    low.at(low.size() - 1 - i) = amounts[2 * i];
    high.at(high.size() - 1 - i) = amounts[2 * i + 1];
  }
  const Number fill = call.at(2).is_none() ? Number(int64_t{0}) : call.at(2).number();
  return call.body.pad(value, low, high, {}, fill);
}

// Dimensions with those of a diagonal last.
Shape diagonal_last(const Value& value, const Arg& first, const Arg& second) {
  const Shape pair = {axis_of(whole_or(first, 0), value.rank()), axis_of(whole_or(second, 1), value.rank())};
  Shape order;
  for (int axis = 0; axis < value.rank(); ++axis)
    if (!has(pair, axis)) order.push_back(axis);
  return joined(order, pair);
}

// The plane's flattened rows, every (columns + 1)-th element.
Value diagonal(Call& call) {
  Body& body = call.body;
  const auto& [shape, dtype, _] = call.out();
  const Value plane = body.transpose(call.value(0), diagonal_last(call.value(0), call.at(2), call.at(3)));
  if (is_empty(shape)) return body.splat(0, dtype, shape);
  const int64_t offset = whole_or(call.at(1), 0);
  const int64_t count = shape.back();
  const size_t rank = plane.shape.size();
  Shape start(rank, 0);
  Shape limit = plane.shape;
  start[rank - 2] = std::max<int64_t>(-offset, 0);
  start[rank - 1] = std::max<int64_t>(offset, 0);
  limit[rank - 2] = start[rank - 2] + count;
  limit[rank - 1] = start[rank - 1] + count;
  const Value square = body.slice(plane, start, limit);
  // One more column makes a step along the diagonal a step of whole rows.
  Shape more(rank, 0);
  more.back() = 1;
  const Value wide = body.pad(square, Shape(rank, 0), more);
  Shape lead(square.shape.begin(), square.shape.end() - 2);
  lead.push_back(count * (count + 1));
  const Value flat = body.reshape(wide, lead);
  return body.reshape(body.slice_axis(flat, flat.rank() - 1, 0, flat.shape.back(), count + 2), shape);
}

Value diagonal_scatter(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const Value& part = call.value(1);
  const int64_t offset = whole_or(call.at(2), 0);
  const Shape order = diagonal_last(value, call.at(3), call.at(4));
  const Value plane = body.transpose(value, order);
  const int rank = plane.rank();
  const Value i = body.iota(plane.shape, rank - 2, ElementType::kI32);
  const Value j = body.iota(plane.shape, rank - 1, ElementType::kI32);
  const Value distance = body.subtract(j, i);
  const Value on = body.compare("EQ", distance, body.splat(offset, ElementType::kI32, plane.shape));
  const int64_t count = part.shape.back();
  if (count == 0) return value;
  // Along the rows where the diagonal starts at the top, else along the columns.
  Shape low(rank - 1, 0);
  Shape high = low;
  low.back() = std::max<int64_t>(-offset, 0);
  high.back() = plane.shape[rank - 2] - low.back() - count;
  const Value line = body.pad(body.convert(part, call.out().dtype), low, high);
  const Value spread = body.broadcast_in_dim(line, plane.shape, counted_up(rank - 1));
  const Value made = body.select(on, spread, plane);
  Shape back(order.size());
  for (size_t place = 0; place < order.size(); ++place) back[order[place]] = static_cast<int64_t>(place);
  return body.transpose(made, back);
}

// Windows of `size` along an axis; the place in the window is a new last dimension.
Value unfold(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  if (value.rank() == 0) return body.reshape(value, call.out().shape);
  const int64_t axis = axis_in(call.at(1), value);
  const int64_t size = call.at(2).integer();
  const int64_t step = call.at(3).integer();
  const int64_t count = call.out().shape.at(axis);
  std::vector<Value> windows;
  for (int64_t place = 0; place < size; ++place)
    windows.push_back(body.slice_axis(value, axis, place, place + (count - 1) * step + 1, step));
  if (windows.empty()) return body.splat(0, call.out().dtype, call.out().shape);
  for (Value& part : windows) part = body.reshape(part, joined(part.shape, {1}));
  return body.concatenate(windows, value.rank());
}

// Of a tensor whose elements lie one after the other, as those of a program do.
Value as_strided(Call& call) {
  Body& body = call.body;
  const auto& [shape, dtype, _] = call.out();
  const Shape places = stored_places(call.at(1).integers(), call.at(2).integers(), whole_or(call.at(3), 0));
  if (is_empty(shape)) return body.splat(0, dtype, shape);
  const Value flat = body.reshape(call.value(0), {size_of(call.value(0).shape)});
  if (places == counted_up(flat.shape[0])) return body.reshape(flat, shape);
  const std::vector<int32_t> numbers(places.begin(), places.end());
  const Value index = body.constant({static_cast<int64_t>(numbers.size())}, numbers);
  return body.reshape(take(body, flat, index, 0), shape);
}

}  // namespace

Value put_slice(Body& body, const Value& value, const Value& part, int64_t axis, int64_t start, int64_t limit,
                int64_t step) {
  const int64_t size = value.shape.at(axis);
  if (step == 1) {
    const Value before = body.slice_axis(value, axis, 0, start);
    const Value after = body.slice_axis(value, axis, limit, size);
    return body.concatenate({before, part, after}, axis);
  }
  const int64_t count = part.shape[axis];
  if (count == 0) return value;
  Shape low(value.shape.size(), 0);
  Shape high = low;
  Shape gaps = low;
  low[axis] = start;
  gaps[axis] = step - 1;
  high[axis] = size - start - (count - 1) * step - 1;
  const Value placed = body.pad(part, low, high, gaps);
  std::vector<bool> chosen(size, false);
  for (int64_t i = start; i < limit; i += step) chosen[i] = true;
  const Value mask = body.broadcast_in_dim(body.constant(Shape{size}, chosen), value.shape, {axis});
  return body.select(mask, placed, value);
}

Shape stored_places(const Shape& sizes, const Shape& strides, int64_t offset) {
  Shape places = {offset};
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    Shape further;
    for (const int64_t place : places)
      for (int64_t i = 0; i < sizes[axis]; ++i) further.push_back(place + i * strides[axis]);
    places = std::move(further);
  }
  return places;
}

Table rearrangement() {
  return {
      {{"view.default", "_unsafe_view.default", "reshape.default", "view_copy.default",
        "_reshape_alias.default", "_reshape_copy.default", "squeeze.default", "squeeze.dim", "squeeze.dims",
        "unsqueeze.default", "squeeze_copy", "unsqueeze_copy", "flatten.using_ints", "prims.reshape",
        "prims.squeeze", "prims.collapse_view", "prims.collapse", "prims.split_dim"},
       reshaped},
      {{"view.dtype", "view_copy.dtype"}, view_dtype},
      {{"permute.default", "permute_copy.default", "prims.transpose"}, permute},
      {{"t.default", "t_copy.default", "numpy_T.default"}, turned},
      {{"transpose.int", "transpose_copy.int"}, transpose},
      {{"expand.default", "expand_copy.default"},
       [](Call& call) { return call.body.broadcast(call.value(0), call.out().shape); }},
      {{"prims.broadcast_in_dim"},
       [](Call& call) {
         return call.body.broadcast_in_dim(call.value(0), call.out().shape, call.at(2).integers());
       }},
      {{"slice.Tensor", "slice_copy.Tensor"}, slice},
      {{"narrow_copy.default"}, narrow},
      {{"select.int", "select_copy.int"}, select},
      {{"slice_scatter.default"}, slice_scatter},
      {{"select_scatter.default"}, select_scatter},
      {{"split_with_sizes.default", "split_with_sizes_copy.default", "unsafe_split_with_sizes.default"},
       split_with_sizes},
      {{"split.Tensor", "split_copy.Tensor", "unsafe_split.Tensor"}, split},
      {{"unbind.int", "unbind_copy.int"}, unbind},
      {{"cat.default", "prims.cat"}, cat},
      {{"stack.default"}, stack},
      {{"flip.default", "prims.rev"}, flip},
      {{"repeat.default"}, repeat},
      {{"constant_pad_nd.default"}, constant_pad},
      {{"diagonal.default", "diagonal_copy.default"}, diagonal},
      {{"diagonal_scatter.default"}, diagonal_scatter},
      {{"unfold.default", "unfold_copy.default"}, unfold},
      {{"as_strided.default", "as_strided_copy.default", "prims.as_strided"}, as_strided},
  };
}

}  // namespace opentrn::import::aten
