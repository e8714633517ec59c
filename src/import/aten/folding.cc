// Unfold and fold: windows of an image as columns, and the sum of such columns at their places.
//
// Torch takes both apart into gathers and scatters at computed places, of single elements: on the device each
// is a descriptor of DMA of its own. The places are known, so windows are slices with steps, one of each
// element of a window, and sums of windows are shifted adds.
#include <algorithm>
#include <array>
#include <map>

#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

using Pair = std::array<int64_t, 2>;

// The windows of one op over an image of `space`; `count` of them along each axis.
struct ImageWindows {
  Pair space, kernel, dilation, padding, stride, count{};

  // kernel, dilation, padding and stride are arguments of the op from `first` on.
  ImageWindows(Call& call, Pair image, size_t first) : space(image) {
    const std::array<Pair*, 4> given = {&kernel, &dilation, &padding, &stride};
    for (size_t number = 0; number < given.size(); ++number) {
      const Shape both = many(call.at(first + number), 2);
      *given[number] = {both[0], both[1]};
    }
    for (size_t axis = 0; axis < 2; ++axis)
      count[axis] =
          (space[axis] + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1) / stride[axis] + 1;
  }

  // Whether they lie side by side and are the whole image.
  bool tile() const {
    for (size_t axis = 0; axis < 2; ++axis)
      if (kernel[axis] != stride[axis] || (dilation[axis] != 1 && kernel[axis] != 1) || padding[axis] != 0 ||
          space[axis] % kernel[axis] != 0)
        return false;
    return true;
  }
};

Shape shape_of(Shape lead, std::initializer_list<int64_t> rest) {
  lead.insert(lead.end(), rest);
  return lead;
}

// All dimensions of `shape` but the last two.
Shape before_image(const Shape& shape) { return {shape.begin(), shape.end() - 2}; }

// The order of `rank` leading dimensions and then of those, counted from there.
Shape order_behind(int64_t rank, std::initializer_list<int64_t> rest) {
  Shape order = counted_up(rank);
  for (const int64_t at : rest) order.push_back(rank + at);
  return order;
}

// [batch, channels * window, windows] of [batch, channels, rows, columns], or both without batch; of any
// dtype.
Value im2col(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const Shape lead = before_image(value.shape);
  const int64_t rank = static_cast<int64_t>(lead.size());
  const ImageWindows w(call, {value.shape[lead.size()], value.shape[lead.size() + 1]}, 1);
  if (w.tile()) {
    const Value parts =
        body.reshape(value, shape_of(lead, {w.count[0], w.kernel[0], w.count[1], w.kernel[1]}));
    return body.reshape(body.transpose(parts, order_behind(rank, {1, 3, 0, 2})), call.out().shape);
  }
  const Shape zeros(lead.size(), 0), ones(lead.size(), 1);
  const Shape edges = shape_of(zeros, {w.padding[0], w.padding[1]});
  const Value padded = w.padding == Pair{0, 0} ? value : body.pad(value, edges, edges);
  std::vector<Value> taps;
  for (int64_t row = 0; row < w.kernel[0]; ++row)
    for (int64_t column = 0; column < w.kernel[1]; ++column) {
      const Pair start = {row * w.dilation[0], column * w.dilation[1]};
      const Pair limit = {start[0] + (w.count[0] - 1) * w.stride[0] + 1,
                          start[1] + (w.count[1] - 1) * w.stride[1] + 1};
      const Value tap =
          body.slice(padded, shape_of(zeros, {start[0], start[1]}), shape_of(lead, {limit[0], limit[1]}),
                     shape_of(ones, {w.stride[0], w.stride[1]}));
      taps.push_back(body.reshape(tap, shape_of(lead, {1, w.count[0], w.count[1]})));
    }
  return body.reshape(body.concatenate(taps, rank), call.out().shape);
}

// Their elements in turn along that axis.
Value in_turn(Body& body, const std::vector<Value>& parts, int64_t axis) {
  if (parts.size() == 1) return parts[0];
  Shape shape = parts[0].shape;
  Shape apart = shape;
  apart.insert(apart.begin() + axis + 1, 1);
  std::vector<Value> columns;
  for (const Value& part : parts) columns.push_back(body.reshape(part, apart));
  shape[axis] *= static_cast<int64_t>(parts.size());
  return body.reshape(body.concatenate(columns, axis + 1), shape);
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// The inverse of unfold where windows do not overlap; elements of several windows are their sum. Rows and
// columns are summed by their remainder of the stride, so that sums are shifted, not spread.
Value fold(Call& call) {
  Body& body = call.body;
  const Spec& out = call.out();
  const Shape lead = before_image(out.shape);
  const int64_t rank = static_cast<int64_t>(lead.size());
  const Shape image = many(call.at(1), 2);
  const ImageWindows w(call, {image[0], image[1]}, 2);
  const Value parts =
      body.reshape(call.value(0), shape_of(lead, {w.kernel[0], w.kernel[1], w.count[0], w.count[1]}));
  if (w.tile()) return body.reshape(body.transpose(parts, order_behind(rank, {2, 0, 3, 1})), out.shape);
  Pair size;
  for (size_t axis = 0; axis < 2; ++axis) size[axis] = (w.space[axis] + w.stride[axis] - 1) / w.stride[axis];
  const Shape zeros(lead.size(), 0);
  std::map<Pair, Value> sums;  // by remainder
  for (int64_t row = 0; row < w.kernel[0]; ++row)
    for (int64_t column = 0; column < w.kernel[1]; ++column) {
      Value part = body.slice_axis(body.slice_axis(parts, rank, row, row + 1), rank + 1, column, column + 1);
      part = body.reshape(part, shape_of(lead, {w.count[0], w.count[1]}));
      // Window n's element is at remainder + stride * (shift + n) of the image.
      const Pair at = {row * w.dilation[0] - w.padding[0], column * w.dilation[1] - w.padding[1]};
      const Pair shift = {floor_div(at[0], w.stride[0]), floor_div(at[1], w.stride[1])};
      const Pair remainder = {at[0] - shift[0] * w.stride[0], at[1] - shift[1] * w.stride[1]};
      const Value moved =
          body.pad(part, shape_of(zeros, {shift[0], shift[1]}),
                   shape_of(zeros, {size[0] - shift[0] - w.count[0], size[1] - shift[1] - w.count[1]}));
      const auto [sum, is_first] = sums.emplace(remainder, moved);
      if (!is_first) sum->second = body.add(sum->second, moved);
    }
  std::vector<Value> rows;
  for (int64_t row = 0; row < w.stride[0]; ++row) {
    std::vector<Value> columns;
    for (int64_t column = 0; column < w.stride[1]; ++column) {
      const auto sum = sums.find({row, column});
      columns.push_back(sum != sums.end()
                            ? sum->second
                            : body.splat(int64_t{0}, out.dtype, shape_of(lead, {size[0], size[1]})));
    }
    rows.push_back(in_turn(body, columns, rank + 1));
  }
  return body.slice(in_turn(body, rows, rank), shape_of(zeros, {0, 0}),
                    shape_of(lead, {w.space[0], w.space[1]}));
}

}  // namespace

Table folding() {
  return {
      {{"im2col.default"}, im2col},
      {{"col2im.default"}, fold},
  };
}

}  // namespace opentrn::import::aten
