// Pooling over windows, and its gradients.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

// The windows of one op: `space` is of the elements, `out` of the windows; `lead` dimensions stand before
// both.
struct Windows {
  Shape kernel, strides, padding, dilation;
  Shape space, out;
  size_t lead = 0;

  // Padding before and after; negative after where the last elements are not read.
  std::pair<int64_t, int64_t> edge(size_t axis) const {
    const int64_t reach = (out[axis] - 1) * strides[axis] + dilation[axis] * (kernel[axis] - 1) + 1;
    return {padding[axis], reach - space[axis] - padding[axis]};
  }

  // Zeros for the leading dimensions, then one number for each of space.
  template <typename Number>
  Shape padded(const Number& number, int64_t before = 0) const {
    Shape values(lead, before);
    for (size_t axis = 0; axis < space.size(); ++axis) values.push_back(number(axis));
    return values;
  }

  Shape ones_then(const Shape& values) const {
    Shape all(lead, 1);
    all.insert(all.end(), values.begin(), values.end());
    return all;
  }

  // The offset in its window of each element, the last dimension fastest.
  std::vector<Shape> offsets() const {
    std::vector<Shape> places = {{}};
    for (size_t axis = 0; axis < kernel.size(); ++axis) {
      std::vector<Shape> further;
      for (const Shape& place : places)
        for (int64_t i = 0; i < kernel[axis]; ++i) {
          further.push_back(place);
          further.back().push_back(i * dilation[axis]);
        }
      places = std::move(further);
    }
    return places;
  }
};

Shape tail(const Shape& shape, size_t count) {
  return {shape.end() - static_cast<int64_t>(count), shape.end()};
}

Windows windows_of(const Value& value, const Shape& out, size_t count, const Arg& kernel, const Arg& strides,
                   const Arg& padding, const Arg& dilation = {}) {
  Windows made;
  made.kernel = many(kernel, count);
  made.strides = many(strides, count, made.kernel);
  made.padding = many(padding, count);
  made.dilation = dilation.is_none() ? Shape(count, 1) : many(dilation, count);
  made.space = tail(value.shape, count);
  made.out = tail(out, count);
  made.lead = value.shape.size() - count;
  return made;
}

// A padded plane by what its places leave when they are divided by the strides: [strides, leading dimensions,
// quotients]. What windows have at one offset is then a box of neighbours, which is read as runs of memory
// and not element by element.
class Phases {
 public:
  Phases(Body& body, const Windows& windows) : body_(body), windows_(windows) {}

  size_t count() const { return windows_.space.size(); }
  // Of the padded plane, so that the strides divide it.
  int64_t length(size_t axis) const {
    const int64_t stride = windows_.strides[axis];
    return (covered(axis) + stride - 1) / stride * stride;
  }
  // What comes behind a plane of space.
  int64_t behind(size_t axis) const { return windows_.edge(axis).second + length(axis) - covered(axis); }

  // Of [leading dimensions, lengths].
  Value arranged(const Value& padded) {
    const auto lead = static_cast<int64_t>(padded.shape.size() - count());
    Shape split(padded.shape.begin(), padded.shape.begin() + lead), order;
    for (size_t axis = 0; axis < count(); ++axis) {
      split.push_back(length(axis) / windows_.strides[axis]);
      split.push_back(windows_.strides[axis]);
      order.push_back(lead + 2 * static_cast<int64_t>(axis) + 1);
    }
    for (int64_t d = 0; d < lead; ++d) order.push_back(d);
    for (size_t axis = 0; axis < count(); ++axis) order.push_back(lead + 2 * static_cast<int64_t>(axis));
    return body_.transpose(body_.reshape(padded, split), order);
  }

  // Of what is arranged, [leading dimensions, windows].
  Value part(const Value& all, const Shape& offset) {
    Shape start(all.shape.size(), 0),
        limit = all.shape, shape(all.shape.begin() + static_cast<int64_t>(count()), all.shape.end());
    for (size_t axis = 0; axis < count(); ++axis) {
      const size_t last = all.shape.size() - count() + axis;
      start[axis] = offset[axis] % windows_.strides[axis];
      limit[axis] = start[axis] + 1;
      start[last] = offset[axis] / windows_.strides[axis];
      limit[last] = start[last] + windows_.out[axis];
      shape[shape.size() - count() + axis] = windows_.out[axis];
    }
    return body_.reshape(body_.slice(all, start, limit), shape);
  }

  // The sum, in each place of space, of what the windows give it: by offset, [leading dimensions, windows].
  Value summed(const std::function<Value(const Shape& offset)>& given) {
    std::map<Shape, Value> sums;  // by what offsets leave, the last dimension fastest
    for (const Shape& offset : windows_.offsets()) {
      Shape left;
      for (size_t axis = 0; axis < count(); ++axis) left.push_back(offset[axis] % windows_.strides[axis]);
      const Value moved = moved_to(given(offset), offset);
      const auto found = sums.find(left);
      if (found == sums.end())
        sums.emplace(left, moved);
      else
        found->second = body_.add(found->second, moved);
    }
    return joined(sums);
  }

 private:
  int64_t covered(size_t axis) const {
    return (windows_.out[axis] - 1) * windows_.strides[axis] +
           (windows_.kernel[axis] - 1) * windows_.dilation[axis] + 1;
  }

  Value moved_to(const Value& windows, const Shape& offset) {
    const auto before = [&](size_t axis) { return offset[axis] / windows_.strides[axis]; };
    const auto after = [&](size_t axis) {
      return length(axis) / windows_.strides[axis] - windows_.out[axis] - before(axis);
    };
    return body_.pad(windows, windows_.padded(before), windows_.padded(after));
  }

  Value joined(const std::map<Shape, Value>& sums) {
    const Value& like = sums.begin()->second;
    const auto lead = static_cast<int64_t>(like.shape.size() - count());
    std::vector<Value> parts;
    Shape one = like.shape, split(windows_.strides), whole(like.shape.begin(), like.shape.begin() + lead);
    one.insert(one.begin(), 1);
    split.insert(split.end(), like.shape.begin(), like.shape.end());
    Shape order;
    const auto axes = static_cast<int64_t>(count());
    for (int64_t d = 0; d < lead; ++d) order.push_back(axes + d);
    for (int64_t axis = 0; axis < axes; ++axis) {
      order.push_back(axes + lead + axis);
      order.push_back(axis);
      whole.push_back(length(static_cast<size_t>(axis)));
    }
    for_residues([&](const Shape& left) {
      const auto found = sums.find(left);
      parts.push_back(body_.reshape(found == sums.end() ? body_.like(0, like) : found->second, one));
    });
    const Value all = parts.size() == 1 ? parts[0] : body_.concatenate(parts, 0);
    const Value plane = body_.reshape(body_.transpose(body_.reshape(all, split), order), whole);
    const auto low = [&](size_t axis) { return -windows_.edge(axis).first; };
    const auto high = [&](size_t axis) {
      return windows_.space[axis] + windows_.edge(axis).first - length(axis);
    };
    return body_.pad(plane, windows_.padded(low), windows_.padded(high));
  }

  void for_residues(const std::function<void(const Shape&)>& visit) const {
    Shape left(count(), 0);
    for (int64_t number = 0; number < size_of(windows_.strides); ++number) {
      int64_t rest = number;
      for (size_t axis = count(); axis-- > 0; rest /= windows_.strides[axis])
        left[axis] = rest % windows_.strides[axis];
      visit(left);
    }
  }

  Body& body_;
  const Windows& windows_;
};

// Numbers of a plane's elements, with its padding, which has -1.
Value padded_numbers(Body& body, const Windows& windows, Phases& phases) {
  const Value numbers = body.iota({size_of(windows.space)}, 0, ElementType::kI32);
  const Value plane = body.reshape(numbers, windows.space);
  Shape low;
  Shape high;
  for (size_t axis = 0; axis < windows.space.size(); ++axis) {
    low.push_back(windows.edge(axis).first);
    high.push_back(phases.behind(axis));
  }
  return phases.arranged(body.pad(plane, low, high, {}, int64_t{-1}));
}

// Maxima alone are a reduction.
Value maxima(Body& body, const Value& value, const Windows& windows) {
  const Shape cut =
      windows.padded([&](size_t axis) { return std::min<int64_t>(windows.edge(axis).second, 0); });
  const Value inside = body.pad(value, Shape(value.shape.size(), 0), cut);
  Pairs padding(windows.lead);
  for (size_t axis = 0; axis < windows.space.size(); ++axis)
    padding.emplace_back(windows.edge(axis).first, std::max<int64_t>(windows.edge(axis).second, 0));
  return body.reduce_window("maximum", inside, Body::lowest(value.dtype), windows.ones_then(windows.kernel),
                            windows.ones_then(windows.strides), padding, windows.ones_then(windows.dilation));
}

// Maxima and their places in a plane, by one pass over the offsets of a window.
Results max_pool(Call& call, size_t count) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const Spec& out = call.outs.at(0);
  const Windows windows = windows_of(value, out.shape, count, call.at(1), call.at(2), call.at(3), call.at(4));
  if (is_empty(out.shape)) {
    const Value none = body.splat(0, out.dtype, out.shape);
    return {none, body.splat(0, ElementType::kI64, call.outs.at(1).shape)};
  }
  if (!body.is_read(1)) return {maxima(body, value, windows), std::nullopt};
  Phases phases(body, windows);
  const Value padded = phases.arranged(body.pad(
      value, windows.padded([&](size_t axis) { return windows.edge(axis).first; }),
      windows.padded([&](size_t axis) { return phases.behind(axis); }), {}, Body::lowest(value.dtype)));
  const Value padded_places = padded_numbers(body, windows, phases);
  std::optional<std::pair<Value, Value>> best;
  for (const Shape& offset : windows.offsets()) {
    const Value here = phases.part(padded, offset);
    const Value number = body.broadcast(phases.part(padded_places, offset), here.shape);
    if (!best) {
      best = {here, number};
      continue;
    }
    const auto& [most, place] = *best;
    Value above = body.compare("GT", here, most);
    if (graph::is_float(here.dtype)) above = body.binary("or", above, body.is_nan(here));
    // The padding wins nothing, not even where all is as low as it.
    const Value outside = body.compare("LT", place, body.like(0, place));
    above = body.binary("or", above, outside);
    const Value made = body.select(above, here, most);
    best = {made, body.select(above, number, place)};
  }
  return {best->first, body.convert(best->second, ElementType::kI64)};
}

// Each offset of a window sends back the gradients whose maximum it was.
Value max_pool_backward(Call& call, size_t count) {
  Body& body = call.body;
  const Value& gradient = call.value(0);
  const Value& value = call.value(1);
  const auto& [shape, dtype, _] = call.out();
  const Windows windows =
      windows_of(value, gradient.shape, count, call.at(2), call.at(3), call.at(4), call.at(5));
  if (is_empty(shape) || is_empty(gradient.shape)) return body.splat(0, dtype, shape);
  const Value given = body.convert(gradient, math_dtype(dtype));
  const Value where = body.convert(call.value(7), ElementType::kI32);
  const Value zero = body.like(0, given);
  Phases phases(body, windows);
  const Value padded_places = padded_numbers(body, windows, phases);
  const Value total = phases.summed([&](const Shape& offset) {
    const Value number = body.broadcast(phases.part(padded_places, offset), given.shape);
    return body.select(body.compare("EQ", where, number), given, zero);
  });
  return body.convert(total, dtype);
}

// By how much the sum of each window is divided.
std::vector<float> divisors(const Windows& windows, bool count_padding, const Arg& divisor) {
  if (!divisor.is_none()) return std::vector<float>(size_of(windows.out), static_cast<float>(divisor.real()));
  std::vector<float> made = {1};
  for (size_t axis = 0; axis < windows.space.size(); ++axis) {
    std::vector<float> further;
    for (const float before : made)
      for (int64_t i = 0; i < windows.out[axis]; ++i) {
        int64_t start = i * windows.strides[axis] - windows.padding[axis];
        int64_t end = std::min(start + windows.kernel[axis], windows.space[axis] + windows.padding[axis]);
        if (!count_padding) {
          start = std::max<int64_t>(start, 0);
          end = std::min(end, windows.space[axis]);
        }
        further.push_back(before * static_cast<float>(end - start));
      }
    made = std::move(further);
  }
  return made;
}

Value averaged(Body& body, const Value& value, const Shape& out, const std::vector<float>& divisors) {
  if (std::all_of(divisors.begin(), divisors.end(), [&](float each) { return each == divisors[0]; }))
    return body.divide(value, body.like(static_cast<double>(divisors[0]), value));
  const Value by = body.convert(body.constant(out, divisors), value.dtype);
  return body.divide(value, body.broadcast(by, value.shape));
}

// The arguments behind the padding: ceil_mode, count_include_pad, divisor_override.
struct Averaging {
  bool count_padding;
  const Arg& divisor;
};

Averaging averaging_of(Call& call) {
  const Arg& counts = call.named("count_include_pad");
  return {counts.is_none() || counts.flag(), call.named("divisor_override")};
}

Value avg_pool(Call& call, size_t count) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const auto& [shape, dtype, _] = call.out();
  const Windows windows = windows_of(value, shape, count, call.at(1), call.at(2), call.at(3));
  if (is_empty(shape)) return body.splat(0, dtype, shape);
  const ElementType wide = graph::is_float(value.dtype) ? math_dtype(value.dtype) : ElementType::kF32;
  // A negative edge leaves elements out, which a window's padding cannot.
  const Shape cut =
      windows.padded([&](size_t axis) { return std::min<int64_t>(windows.edge(axis).second, 0); });
  const Value inside = body.pad(body.convert(value, wide), Shape(value.shape.size(), 0), cut);
  Pairs padding(windows.lead);
  for (size_t axis = 0; axis < count; ++axis)
    padding.emplace_back(windows.edge(axis).first, std::max<int64_t>(windows.edge(axis).second, 0));
  const Value sums = body.reduce_window("add", inside, 0, windows.ones_then(windows.kernel),
                                        windows.ones_then(windows.strides), padding);
  const auto [count_padding, divisor] = averaging_of(call);
  return body.convert(averaged(body, sums, windows.out, divisors(windows, count_padding, divisor)), dtype);
}

Value avg_pool_backward(Call& call, size_t count) {
  Body& body = call.body;
  const Value& gradient = call.value(0);
  const Value& value = call.value(1);
  const auto& [shape, dtype, _] = call.out();
  const Windows windows = windows_of(value, gradient.shape, count, call.at(2), call.at(3), call.at(4));
  if (is_empty(shape) || is_empty(gradient.shape)) return body.splat(0, dtype, shape);
  const Value wide = body.convert(gradient, math_dtype(gradient.dtype));
  const auto [count_padding, divisor] = averaging_of(call);
  const Value shares = averaged(body, wide, windows.out, divisors(windows, count_padding, divisor));
  // Every element sums the windows that hold it.
  const Value made = Phases(body, windows).summed([&](const Shape&) { return shares; });
  return body.convert(made, dtype);
}

// Elements [first, end) of an axis.
struct Span {
  int64_t first, end;
  int64_t length() const { return end - first; }
};
using Spans = std::vector<Span>;

// What each window of an adaptive pooling covers. Windows differ in length by one at most.
Spans adaptive_windows(int64_t size, int64_t windows) {
  Spans made;
  for (int64_t i = 0; i < windows; ++i)
    made.push_back({i * size / windows, ((i + 1) * size + windows - 1) / windows});
  return made;
}

// The windows that cover each element of an axis of `size`.
Spans covering(const Spans& windows, int64_t size) {
  Spans made;
  for (int64_t at = 0; at < size; ++at) {
    const auto first =
        std::find_if(windows.begin(), windows.end(), [&](const Span& each) { return each.end > at; });
    const auto end = std::find_if(first, windows.end(), [&](const Span& each) { return each.first > at; });
    made.push_back({first - windows.begin(), end - windows.begin()});
  }
  return made;
}

int64_t longest_of(const Spans& spans) {
  int64_t longest = 0;
  for (const Span& each : spans) longest = std::max(longest, each.length());
  return longest;
}

// Where the elements of each span lie, [spans, longest]; shorter ones repeat their last element.
std::vector<int32_t> places_of(const Spans& spans) {
  std::vector<int32_t> places;
  for (const Span& each : spans)
    for (int64_t j = 0; j < longest_of(spans); ++j)
      places.push_back(static_cast<int32_t>(std::min(each.first + j, each.end - 1)));
  return places;
}

// How often each element comes in a row where spans repeat the elements so, one each; 0 where they do not.
int64_t repeats_of(const Spans& spans, int64_t size) {
  const auto count = static_cast<int64_t>(spans.size());
  if (count % size != 0 || longest_of(spans) != 1) return 0;
  for (int64_t i = 0; i < count; ++i)
    if (spans[i].first != i / (count / size)) return 0;
  return count / size;
}

constexpr int64_t kSlicesMax = 16;

// Sums of an axis over spans. What lies outside of a span is not touched: it may be NaN or an infinity, which
// a product with a matrix of zeros and ones would spread.
Value sums_over(Body& body, const Value& value, const Spans& spans, int64_t axis) {
  const int64_t size = value.shape.at(axis), longest = longest_of(spans);
  const auto count = static_cast<int64_t>(spans.size());
  Shape shape = value.shape, split = value.shape;
  shape[axis] = count;
  split.insert(split.begin() + axis + 1, 1);
  if (const int64_t repeats = repeats_of(spans, size); repeats > 0) {
    if (repeats == 1) return value;
    split[axis + 1] = repeats;
    Shape kept = counted_up(value.rank() + 1);
    kept.erase(kept.begin() + axis + 1);
    return body.reshape(body.broadcast_in_dim(value, split, kept), shape);
  }
  const bool is_even = std::all_of(spans.begin(), spans.end(), [&](const Span& each) {
    return each.length() == longest && each.first % longest == 0;
  });
  if (is_even && count * longest == size) {
    split[axis] = count;
    split[axis + 1] = longest;
    return body.reduce("add", body.reshape(value, split), {axis + 1}, 0);
  }
  if (count <= kSlicesMax) {  // runs of memory, where a gather goes element by element
    std::vector<Value> sums;
    for (const Span& each : spans) {
      const Value sum = body.reduce("add", body.slice_axis(value, axis, each.first, each.end), {axis}, 0);
      Shape one = value.shape;
      one[axis] = 1;
      sums.push_back(body.reshape(sum, one));
    }
    return body.concatenate(sums, axis);
  }
  Value taken = take(body, value, body.constant({count, longest}, places_of(spans)), axis);
  std::vector<bool> inside;
  for (const Span& each : spans)
    for (int64_t j = 0; j < longest; ++j) inside.push_back(j < each.length());
  if (!std::all_of(inside.begin(), inside.end(), [](bool each) { return each; })) {
    const Value mask =
        body.broadcast_in_dim(body.constant({count, longest}, inside), taken.shape, {axis, axis + 1});
    taken = body.select(mask, taken, body.like(0, taken));
  }
  return body.reduce("add", taken, {axis + 1}, 0);
}

// Divided by the lengths of the spans.
Value averaged_over(Body& body, const Value& value, const Spans& spans, int64_t axis) {
  std::vector<float> lengths;
  for (const Span& each : spans) lengths.push_back(static_cast<float>(each.length()));
  if (std::all_of(spans.begin(), spans.end(),
                  [&](const Span& each) { return each.length() == spans[0].length(); }))
    return spans[0].length() == 1 ? value : body.divide(value, body.like(spans[0].length(), value));
  const Value by = body.convert(body.constant({static_cast<int64_t>(spans.size())}, lengths), value.dtype);
  return body.divide(value, body.broadcast_in_dim(by, value.shape, {axis}));
}

// Each axis by itself. The gradient of an element is the sum over the windows that cover it.
Value adaptive(Call& call, size_t count, bool back) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const auto& [shape, dtype, _] = call.out();
  if (is_empty(shape) || is_empty(value.shape)) return body.splat(0, dtype, shape);
  Value made = body.convert(value, math_dtype(dtype));
  for (auto axis = static_cast<int64_t>(value.shape.size() - count); axis < value.rank(); ++axis) {
    const int64_t size = value.shape[axis], target = shape.at(axis);
    if (back) {
      const Spans windows = adaptive_windows(target, size);
      made = sums_over(body, averaged_over(body, made, windows, axis), covering(windows, target), axis);
    } else {
      const Spans windows = adaptive_windows(size, target);
      made = averaged_over(body, sums_over(body, made, windows, axis), windows, axis);
    }
  }
  return body.convert(made, dtype);
}

// Every window written out by a gather at places that are known, then one maximum.
Results adaptive_max_pool(Call& call, size_t count) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const auto& [shape, dtype, _] = call.outs.at(0);
  if (is_empty(value.shape) || is_empty(shape)) {
    const Value none = body.splat(0, dtype, shape);
    return {none, body.splat(0, ElementType::kI64, shape)};
  }
  const Shape lead(value.shape.begin(), value.shape.end() - static_cast<int64_t>(count));
  const Shape space = tail(value.shape, count);
  const Shape out = tail(shape, count);
  Value windows = value;
  Shape order = counted_up(static_cast<int64_t>(lead.size()));
  Shape longest(count);
  std::vector<std::vector<int32_t>> places;
  for (size_t axis = 0; axis < count; ++axis) {  // (..., out, longest, ...) at each axis in turn
    const Spans spans = adaptive_windows(space[axis], out[axis]);
    places.push_back(places_of(spans));
    longest[axis] = longest_of(spans);
    const auto at = static_cast<int64_t>(lead.size() + 2 * axis);
    const Value index = body.constant({out[axis], longest[axis]}, places.back());
    windows = take(body, windows, index, at);
    order.insert(order.begin() + static_cast<int64_t>(lead.size() + axis), at);
    order.push_back(at + 1);
  }
  Shape flat = shape;
  flat.push_back(size_of(longest));
  windows = body.reshape(body.transpose(windows, order), flat);
  // The number in its plane of each element of each window.
  std::vector<int32_t> plane;
  for (int64_t window = 0; window < size_of(out); ++window)
    for (int64_t place = 0; place < size_of(longest); ++place) {
      int64_t number = 0, rest_of_window = window, rest_of_place = place, step = 1;
      for (size_t axis = count; axis-- > 0;) {
        const int64_t row = (rest_of_window % out[axis]) * longest[axis] + rest_of_place % longest[axis];
        number += places[axis][row] * step;
        step *= space[axis];
        rest_of_window /= out[axis];
        rest_of_place /= longest[axis];
      }
      plane.push_back(static_cast<int32_t>(number));
    }
  const int64_t last = windows.rank() - 1;
  const auto [best, where] = place_of_extreme(body, windows, last, true);
  Shape each = out;
  each.push_back(size_of(longest));
  const Value numbers = body.broadcast(body.constant(each, plane), flat);
  Shape one = shape;
  one.push_back(1);
  const Value found = gathered(body, numbers, last, body.reshape(where, one));
  return {body.convert(best, dtype), body.convert(body.reshape(found, shape), ElementType::kI64)};
}

Value adaptive_max_pool_backward(Call& call, size_t count) {
  Body& body = call.body;
  const Value& gradient = call.value(0);
  const auto& [shape, dtype, _] = call.out();
  if (is_empty(shape) || is_empty(gradient.shape)) return body.splat(0, dtype, shape);
  const auto lead = static_cast<int64_t>(shape.size() - count);
  const auto flattened = [&](const Shape& sizes) {
    Shape made(sizes.begin(), sizes.begin() + lead);
    made.push_back(size_of(tail(sizes, count)));
    return made;
  };
  const ElementType wide = math_dtype(dtype);
  const Value given = body.convert(body.reshape(gradient, flattened(gradient.shape)), wide);
  const Value index = body.reshape(call.value(2), flattened(gradient.shape));
  const Value start = body.splat(0, wide, flattened(shape));
  return body.convert(body.reshape(scattered(body, start, lead, index, given, "add"), shape), dtype);
}

}  // namespace

Shape many(const Arg& given, size_t count, const Shape& otherwise) {
  if (given.is_number()) return Shape(count, given.integer());
  const Shape values = given.is_none() || given.list().empty() ? otherwise : given.integers();
  return values.size() == 1 ? Shape(count, values[0]) : values;
}

Table pooling() {
  Table table;
  for (const size_t count : {2, 3}) {
    const bool flat = count == 2;
    const Table rows = {
        {{flat ? "max_pool2d_with_indices.default" : "max_pool3d_with_indices.default"},
         [count](Call& call) { return max_pool(call, count); }},
        {{flat ? "max_pool2d_with_indices_backward.default" : "max_pool3d_with_indices_backward.default"},
         [count](Call& call) { return max_pool_backward(call, count); }},
        {{flat ? "avg_pool2d.default" : "avg_pool3d.default"},
         [count](Call& call) { return avg_pool(call, count); }},
        {{flat ? "avg_pool2d_backward.default" : "avg_pool3d_backward.default"},
         [count](Call& call) { return avg_pool_backward(call, count); }},
        {{flat ? "_adaptive_avg_pool2d.default" : "_adaptive_avg_pool3d.default"},
         [count](Call& call) { return adaptive(call, count, false); }},
        {{flat ? "_adaptive_avg_pool2d_backward.default" : "_adaptive_avg_pool3d_backward.default"},
         [count](Call& call) { return adaptive(call, count, true); }},
        {{flat ? "adaptive_max_pool2d.default" : "adaptive_max_pool3d.default"},
         [count](Call& call) { return adaptive_max_pool(call, count); }},
        {{flat ? "adaptive_max_pool2d_backward.default" : "adaptive_max_pool3d_backward.default"},
         [count](Call& call) { return adaptive_max_pool_backward(call, count); }},
    };
    table.insert(table.end(), rows.begin(), rows.end());
  }
  return table;
}

}  // namespace opentrn::import::aten
