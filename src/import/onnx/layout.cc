// Operators that make, move, cut and join data.
#include <algorithm>
#include <cmath>

#include "graph/element_value.h"
#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

void import_constant(Node& n) {
  const Emit& e = n.emit;
  if (const AttributeValue* a = n.attribute("value")) {
    n.check(a->t != nullptr, "attribute value is not a tensor");
    return n.set(0, e.constant(n.surroundings().literal(*a->t)));
  }
  if (n.attribute("value_float")) return n.set(0, e.scalar(ElementType::kF32, n.real("value_float", 0)));
  if (n.attribute("value_int")) return n.set(0, e.reshape(e.integers({n.place("value_int", 0)}), {}));
  if (n.attribute("value_ints")) return n.set(0, e.integers(n.places("value_ints")));
  if (const auto values = n.reals("value_floats"))
    return n.set(0, e.reals({values->begin(), values->end()}, ElementType::kF32,
                            {static_cast<int64_t>(values->size())}));
  n.refuse("a constant of strings or a sparse one");
}

void import_constant_of_shape(Node& n) {
  Literal value = graph::splat_literal(Type::tensor(ElementType::kF32, {1}), 0);
  if (const AttributeValue* a = n.attribute("value")) {
    n.check(a->t != nullptr, "attribute value is not a tensor");
    value = n.surroundings().literal(*a->t);
    n.check(value.type().element_count() == 1, "the value has {} elements", value.type().element_count());
  }
  const Dims dims = n.integers(0);
  n.check(std::all_of(dims.begin(), dims.end(), [](int64_t d) { return d >= 0; }), "a size is negative");
  const Type type = Type::tensor(value.type().element(), dims);
  std::vector<std::byte> bytes(value.bytes().begin(), value.bytes().end());
  if (type.element_count() == 0) bytes.clear();
  n.set(0, n.emit.constant(Literal(type, std::move(bytes))));
}

void import_shape(Node& n) {
  const Dims dims = n.dims(0);
  const auto rank = static_cast<int64_t>(dims.size());
  const auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = place(n.place("start", 0));
  const int64_t end = std::max(start, place(n.place("end", rank)));
  n.set(0, n.emit.integers({dims.begin() + start, dims.begin() + end}));
}

void import_size(Node& n) {
  n.set(0, n.emit.reshape(n.emit.integers({n.emit.type(n.in(0)).element_count()}), {}));
}

void import_reshape(Node& n) {
  Dims to = n.opset() < 5 ? n.integers("shape", {}) : n.integers(1);
  const Dims from = n.dims(0);
  const bool zeros = n.flag("allowzero", false);
  int64_t known = 1;
  int64_t* open = nullptr;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && !zeros) {
      n.check(i < from.size(), "dimension {} copies one that the input does not have", i);
      to[i] = from[i];
    }
    if (to[i] == -1) {
      n.check(open == nullptr, "two dimensions are -1");
      open = &to[i];
      continue;
    }
    n.check(to[i] >= 0, "dimension {} is {}", i, to[i]);
    n.check(!__builtin_mul_overflow(known, to[i], &known), "the shape has too many elements");
  }
  const int64_t count = product(from);
  if (open) {
    n.check(known != 0 && count % known == 0, "{} elements do not fill the shape", count);
    *open = count / known;
  }
  n.set(0, n.emit.reshape(n.in(0), to));
}

void import_flatten(Node& n) {
  const Dims dims = n.dims(0);
  const int64_t given = n.integer("axis", 1);
  const int64_t axis = given < 0 ? given + n.rank(0) : given;
  n.check(0 <= axis && axis <= n.rank(0), "axis is {}", given);
  n.set(0, n.emit.reshape(n.in(0), {product({dims.begin(), dims.begin() + axis}),
                                    product({dims.begin() + axis, dims.end()})}));
}

void import_transpose(Node& n) {
  Dims permutation = range(0, n.rank(0));
  std::reverse(permutation.begin(), permutation.end());
  n.set(0, n.emit.transpose(n.in(0), n.integers("perm", permutation)));
}

namespace {

std::optional<Dims> axes_of(Node& n) {
  if (n.opset() < 13) return n.integers("axes");
  return n.has(1) ? std::optional(n.integers(1)) : std::nullopt;
}

}  // namespace

void import_squeeze(Node& n) {
  const Dims from = n.dims(0);
  Dims axes;
  if (const auto given = axes_of(n)) {
    axes = n.axes(*given, n.rank(0));
  } else {
    for (int64_t i = 0; i < n.rank(0); ++i)
      if (from[static_cast<size_t>(i)] == 1) axes.push_back(i);
  }
  Dims to;
  for (int64_t i = 0; i < n.rank(0); ++i) {
    const bool gone = std::find(axes.begin(), axes.end(), i) != axes.end();
    n.check(!gone || from[static_cast<size_t>(i)] == 1, "dimension {} has size {}", i,
            from[static_cast<size_t>(i)]);
    if (!gone) to.push_back(from[static_cast<size_t>(i)]);
  }
  n.set(0, n.emit.reshape(n.in(0), to));
}

void import_unsqueeze(Node& n) {
  const auto given = axes_of(n);
  n.check(given.has_value(), "axes are missing");
  Dims axes = n.axes(*given, n.rank(0) + static_cast<int64_t>(given->size()));
  std::sort(axes.begin(), axes.end());
  Dims to = n.dims(0);
  for (const int64_t axis : axes) to.insert(to.begin() + axis, 1);
  n.set(0, n.emit.reshape(n.in(0), to));
}

void import_expand(Node& n) {
  n.set(0, n.emit.broadcast_to(n.in(0), broadcast_shapes(n.dims(0), n.integers(1))));
}

// [a, b] tiled (r, s): broadcast to [r, a, s, b], then joined.
void import_tile(Node& n) {
  const Emit& e = n.emit;
  const Dims repeats = n.integers(1);
  const Dims dims = n.dims(0);
  n.check(repeats.size() == dims.size(), "{} repeats for rank {}", repeats.size(), dims.size());
  Dims wide, places, to;
  for (size_t i = 0; i < dims.size(); ++i) {
    n.check(repeats[i] >= 0, "a repeat is {}", repeats[i]);
    wide.insert(wide.end(), {repeats[i], dims[i]});
    places.push_back(static_cast<int64_t>(2 * i + 1));
    int64_t size = 0;
    n.check(!__builtin_mul_overflow(repeats[i], dims[i], &size), "the result is too large");
    to.push_back(size);
  }
  n.set(0, e.reshape(e.builder().broadcast_in_dim(n.in(0), wide, places), to));
}

void import_concat(Node& n) {
  Values values;
  for (size_t i = 0; i < n.input_count(); ++i) values.push_back(n.in(i));
  n.check(!values.empty(), "no inputs");
  n.set(0, n.emit.concat(values, n.axis(n.integer("axis", 1), n.rank(0))));
}

void import_split(Node& n) {
  const Emit& e = n.emit;
  const int64_t axis = n.axis(n.integer("axis", 0), n.rank(0));
  const int64_t size = e.dim(n.in(0), axis);
  Dims sizes;
  if (n.opset() < 13 && n.attribute("split")) {
    sizes = n.integers("split", {});
  } else if (n.opset() >= 13 && n.has(1)) {
    sizes = n.integers(1);
  } else {
    const auto parts = n.integer("num_outputs", static_cast<int64_t>(n.output_count()));
    n.check(parts > 0, "num_outputs is {}", parts);
    const int64_t each = (size + parts - 1) / parts;
    for (int64_t left = size; static_cast<int64_t>(sizes.size()) < parts; left -= each)
      sizes.push_back(std::clamp<int64_t>(left, 0, each));
  }
  n.check(sizes.size() >= n.output_count(), "{} parts for {} outputs", sizes.size(), n.output_count());
  int64_t at = 0;
  for (size_t i = 0; i < n.output_count(); ++i) {
    n.check(sizes[i] >= 0 && at + sizes[i] <= size, "part {} of {} passes dimension {}", i, sizes[i], size);
    n.set(i, e.slice(n.in(0), axis, at, at + sizes[i]));
    at += sizes[i];
  }
}

void import_slice(Node& n) {
  const Emit& e = n.emit;
  const bool by_attribute = n.opset() < 10;
  const Dims starts = by_attribute ? n.places("starts") : n.places(1);
  const Dims ends = by_attribute ? n.places("ends") : n.places(2);
  Dims axes = range(0, static_cast<int64_t>(starts.size()));
  if (by_attribute)
    axes = n.integers("axes", axes);
  else if (n.has(3))
    axes = n.integers(3);
  Dims steps(starts.size(), 1);
  if (!by_attribute && n.has(4)) steps = n.places(4);
  n.check(starts.size() == ends.size() && starts.size() == axes.size() && starts.size() == steps.size(),
          "starts, ends, axes and steps have {}, {}, {} and {} entries", starts.size(), ends.size(),
          axes.size(), steps.size());
  axes = n.axes(axes, n.rank(0));
  ValueId x = n.in(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t size = e.dim(x, axes[i]);
    const int64_t step = steps[i];
    n.check(step != 0 && step != INT64_MIN, "step {} is {}", i, step);
    // A negative end below -size means: down to the first element.
    const auto from_end = [&](int64_t at) { return at < 0 && at >= -size ? at + size : at; };
    if (step > 0) {
      const int64_t start = std::clamp<int64_t>(from_end(starts[i]), 0, size);
      const int64_t end = std::max(start, std::clamp<int64_t>(from_end(ends[i]), 0, size));
      x = e.slice(x, axes[i], start, end, std::min(step, std::max<int64_t>(size, 1)));
      continue;
    }
    // ONNX moves a start in front of the first element onto it.
    const int64_t start = std::max<int64_t>(std::min(from_end(starts[i]), size - 1), size == 0 ? -1 : 0);
    const int64_t end = std::clamp<int64_t>(from_end(ends[i]), -1, start);
    // Elements start, start + step, .. above end: of the reversed dimension, from size - 1 - start on.
    x = e.slice(e.reverse(x, {axes[i]}), axes[i], size - 1 - start, size - 1 - end,
                std::min(-step, std::max<int64_t>(size, 1)));
  }
  n.set(0, x);
}

namespace {

// Index of the source element for each place of a padded dimension.
Dims padded_indices(int64_t size, int64_t low, int64_t high, const std::string& mode) {
  Dims indices;
  for (int64_t i = -low; i < size + high; ++i) {
    int64_t at = i;
    if (mode == "edge") {
      at = std::clamp<int64_t>(i, 0, size - 1);
    } else if (mode == "wrap") {
      at = ((i % size) + size) % size;
    } else {  // reflect
      const int64_t period = std::max<int64_t>(2 * (size - 1), 1);
      at = ((i % period) + period) % period;
      if (at >= size) at = period - at;
    }
    indices.push_back(at);
  }
  return indices;
}

// Padding by copied elements makes a table of indices as long as the dimension.
constexpr int64_t kPaddedMax = 1 << 24;

}  // namespace

void import_pad(Node& n) {
  const Emit& e = n.emit;
  ValueId x = n.in(0);
  const std::string mode = n.string("mode", "constant");
  const Dims pads = n.opset() < 11 ? n.integers("pads", {}) : n.integers(1);
  Dims axes = range(0, n.rank(0));
  if (n.opset() >= 18 && n.has(3)) axes = n.axes(n.integers(3), n.rank(0));
  n.check(pads.size() == 2 * axes.size(), "{} pads for {} axes", pads.size(), axes.size());
  Dims low(static_cast<size_t>(n.rank(0)), 0);
  Dims high = low;
  for (size_t i = 0; i < axes.size(); ++i) {
    low[static_cast<size_t>(axes[i])] = pads[i];
    high[static_cast<size_t>(axes[i])] = pads[axes.size() + i];
  }
  if (mode == "constant") {
    const ValueId value = n.opset() >= 11 && n.has(2)
                              ? e.cast(e.reshape(n.in(2), {}), e.element(x))
                              : e.scalar(e.element(x), n.opset() < 11 ? n.real("value", 0) : 0);
    return n.set(0, e.pad(x, value, low, high));
  }
  n.check(mode == "edge" || mode == "reflect" || mode == "wrap", "mode is '{}'", mode);
  for (int64_t axis = 0; axis < n.rank(0); ++axis) {
    const auto at = static_cast<size_t>(axis);
    if (low[at] == 0 && high[at] == 0) continue;
    const int64_t size = e.dim(x, axis);
    n.check(
        size > 0 && std::abs(low[at]) < kPaddedMax && std::abs(high[at]) < kPaddedMax && size < kPaddedMax,
        "dimension {} of size {} is padded by {} and {}", axis, size, low[at], high[at]);
    x = e.take_along(x, e.integers(padded_indices(size, low[at], high[at], mode)), axis);
  }
  n.set(0, x);
}

void import_range(Node& n) {
  const Emit& e = n.emit;
  const auto first = n.reals(0);
  const auto limit = n.reals(1);
  const auto step = n.reals(2);
  n.check(first.size() == 1 && limit.size() == 1 && step.size() == 1 && step[0] != 0,
          "start, limit and delta must be scalars, and delta not 0");
  const double count = std::max(0.0, std::ceil((limit[0] - first[0]) / step[0]));
  n.check(std::isfinite(count) && count < 1e15, "{} elements", count);
  const ElementType element = n.element(0);
  const ValueId index = e.iota(element, {static_cast<int64_t>(count)}, 0);
  n.set(0, e.add(e.mul(index, e.reshape(n.in(2), {})), e.reshape(n.in(0), {})));
}

void import_eye_like(Node& n) {
  const Emit& e = n.emit;
  const Dims dims = n.dims(0);
  n.check(dims.size() == 2, "the input has rank {}", dims.size());
  const ValueId row = e.iota(ElementType::kI64, dims, 0);
  const ValueId column = e.iota(ElementType::kI64, dims, 1);
  const ValueId diagonal = e.add(row, static_cast<double>(n.integer("k", 0)));
  n.set(0, e.cast(e.compare(ComparisonDirection::kEq, diagonal, column),
                  n.data_type("dtype").value_or(n.element(0))));
}

void import_trilu(Node& n) {
  const Emit& e = n.emit;
  const ValueId x = n.in(0);
  const int64_t k = n.has(1) ? n.integer(1) : 0;
  n.check(n.rank(0) >= 2, "rank {}", n.rank(0));
  const ValueId row = e.iota(ElementType::kI64, n.dims(0), n.rank(0) - 2);
  const ValueId column = e.iota(ElementType::kI64, n.dims(0), n.rank(0) - 1);
  const ValueId diagonal = e.add(row, static_cast<double>(k));
  const bool upper = n.flag("upper", true);
  const ValueId kept =
      e.compare(upper ? ComparisonDirection::kGe : ComparisonDirection::kLe, column, diagonal);
  n.set(0, e.select(kept, x, e.like(x, 0)));
}

void import_depth_to_space(Node& n) {
  const Emit& e = n.emit;
  const Dims d = n.dims(0);
  const int64_t b = n.integer("blocksize", 0);
  n.check(d.size() == 4 && b > 0 && d[1] % (b * b) == 0, "blocksize {} for rank {}", b, d.size());
  const int64_t c = d[1] / (b * b);
  const bool crd = n.string("mode", "DCR") == "CRD";
  const ValueId split =
      e.reshape(n.in(0), crd ? Dims{d[0], c, b, b, d[2], d[3]} : Dims{d[0], b, b, c, d[2], d[3]});
  const ValueId moved = e.transpose(split, crd ? Dims{0, 1, 4, 2, 5, 3} : Dims{0, 3, 4, 1, 5, 2});
  n.set(0, e.reshape(moved, {d[0], c, d[2] * b, d[3] * b}));
}

void import_space_to_depth(Node& n) {
  const Emit& e = n.emit;
  const Dims d = n.dims(0);
  const int64_t b = n.integer("blocksize", 0);
  n.check(d.size() == 4 && b > 0 && d[2] % b == 0 && d[3] % b == 0, "blocksize {} for rank {}", b, d.size());
  const ValueId split = e.reshape(n.in(0), {d[0], d[1], d[2] / b, b, d[3] / b, b});
  const bool crd = n.string("mode", "DCR") == "CRD";
  const ValueId moved = e.transpose(split, crd ? Dims{0, 1, 3, 5, 2, 4} : Dims{0, 3, 5, 1, 2, 4});
  n.set(0, e.reshape(moved, {d[0], d[1] * b * b, d[2] / b, d[3] / b}));
}

void import_center_crop_pad(Node& n) {
  const Emit& e = n.emit;
  ValueId x = n.in(0);
  const Dims to = n.integers(1);
  const Dims axes = n.axes(n.integers("axes", range(0, n.rank(0))), n.rank(0));
  n.check(to.size() == axes.size(), "{} sizes for {} axes", to.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t size = e.dim(x, axes[i]);
    n.check(to[i] >= 0, "size {} is {}", i, to[i]);
    if (to[i] < size) {
      const int64_t start = (size - to[i]) / 2;
      x = e.slice(x, axes[i], start, start + to[i]);
    } else if (to[i] > size) {
      Dims low(static_cast<size_t>(n.rank(0)), 0);
      Dims high = low;
      low[static_cast<size_t>(axes[i])] = (to[i] - size) / 2;
      high[static_cast<size_t>(axes[i])] = to[i] - size - (to[i] - size) / 2;
      x = e.pad(x, e.scalar(e.element(x), 0), low, high);
    }
  }
  n.set(0, x);
}

void import_one_hot(Node& n) {
  const Emit& e = n.emit;
  const double depth = n.real(1);
  n.check(depth >= 0 && depth < 1e12, "depth is {}", depth);
  const ValueId indices = e.cast(n.in(0), ElementType::kI64);
  const int64_t axis = n.axis(n.integer("axis", -1), n.rank(0) + 1);
  const ValueId wrapped = e.unsqueeze(e.wrap_indices(indices, static_cast<int64_t>(depth)), axis);
  Dims dims = e.dims(wrapped);
  dims[static_cast<size_t>(axis)] = static_cast<int64_t>(depth);
  const ValueId place = e.iota(ElementType::kI64, dims, axis);
  const ValueId hot = e.compare(ComparisonDirection::kEq, place, wrapped);
  const ValueId values = n.in(2);
  n.check(n.rank(2) == 1 && e.dim(values, 0) == 2, "values must be [off, on]");
  n.set(0, e.select(hot, e.take(values, 0, 1), e.take(values, 0, 0)));
}

// Within each sequence index i becomes length - 1 - i; behind its end i stays.
void import_reverse_sequence(Node& n) {
  const Emit& e = n.emit;
  const ValueId x = n.in(0);
  const int64_t batch = n.integer("batch_axis", 1);
  const int64_t time = n.integer("time_axis", 0);
  n.check(n.rank(0) >= 2 && (batch == 0 || batch == 1) && time == 1 - batch, "batch_axis {}, time_axis {}",
          batch, time);
  const Dims d = n.dims(0);
  const ValueId step = e.iota(ElementType::kI64, {d[0], d[1]}, time);
  const ValueId lengths = e.cast(n.in(1), ElementType::kI64);
  const ValueId length = e.broadcast_to(e.unsqueeze(lengths, time), {d[0], d[1]});
  const ValueId mirrored = e.sub(e.sub(length, 1), step);
  const ValueId inside = e.compare(ComparisonDirection::kLt, step, length);
  const ValueId from = e.select(inside, mirrored, step);
  const ValueId pairs = e.element_indices(from, time);
  n.set(0, e.gather_nd(x, pairs, 0));
}

// Blocks of columns are added where they came from: a dilated window of scatters, as one padded sum per
// kernel element.
void import_col2im(Node& n) {
  const Emit& e = n.emit;
  const Dims image = n.integers(1);
  const Dims block = n.integers(2);
  const size_t spatial = image.size();
  const Dims dilations = n.integers("dilations", Dims(spatial, 1));
  const Dims strides = n.integers("strides", Dims(spatial, 1));
  const Dims pads = n.integers("pads", Dims(2 * spatial, 0));
  n.check(block.size() == spatial && dilations.size() == spatial && strides.size() == spatial &&
              pads.size() == 2 * spatial && n.rank(0) == 3,
          "image of rank {}, block of rank {}", spatial, block.size());
  Dims counts;
  for (size_t i = 0; i < spatial; ++i) {
    n.check(strides[i] > 0 && dilations[i] > 0 && block[i] > 0, "strides, dilations and block are positive");
    const int64_t reach = (block[i] - 1) * dilations[i] + 1;
    counts.push_back((image[i] + pads[i] + pads[spatial + i] - reach) / strides[i] + 1);
  }
  const int64_t taps = product(block);
  const Dims d = n.dims(0);
  n.check(taps > 0 && taps < 1 << 16 && d[1] % taps == 0 && d[2] == product(counts),
          "{} columns of {} blocks do not fit", d[1], d[2]);
  Dims split{d[0], d[1] / taps, taps};
  split.insert(split.end(), counts.begin(), counts.end());
  const ValueId columns = e.reshape(n.in(0), split);
  std::optional<ValueId> sum;
  for (int64_t tap = 0; tap < taps; ++tap) {
    const ValueId part = e.take(columns, 2, tap);
    Dims low{0, 0}, high{0, 0}, interior{0, 0};
    int64_t rest = tap;
    Dims offset(spatial);
    for (size_t i = spatial; i-- > 0;) {
      offset[i] = (rest % block[i]) * dilations[i];
      rest /= block[i];
    }
    for (size_t i = 0; i < spatial; ++i) {
      low.push_back(offset[i] - pads[i]);
      interior.push_back(strides[i] - 1);
      const int64_t end = low.back() + (counts[i] - 1) * strides[i] + 1;
      high.push_back(image[i] - end);
    }
    const ValueId placed = e.pad(part, e.scalar(e.element(part), 0), low, high, interior);
    sum = sum ? e.add(*sum, placed) : placed;
  }
  n.set(0, *sum);
}

void import_array_feature_extractor(Node& n) {
  const Emit& e = n.emit;
  const ValueId indices = e.reshape(n.in(1), {product(n.dims(1))});
  ValueId taken = e.take_along(n.in(0), indices, n.rank(0) - 1);
  if (n.rank(0) == 1) taken = e.unsqueeze(taken, 0);
  n.set(0, taken);
}

}  // namespace opentrn::import::onnx
