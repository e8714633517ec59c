// Writing by computed indices.
#include <algorithm>

#include <fmt/format.h>

#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

// torch's name of a reduction as the StableHLO op of two numbers; nothing where updates replace.
std::string_view combiner_of(const Arg& reduce) {
  if (reduce.is_none()) return {};
  const std::string& name = reduce.text();
  if (name == "add" || name == "sum" || name == "mean") return "add";
  if (name == "multiply" || name == "prod") return "multiply";
  return name == "amax" ? "maximum" : "minimum";
}

Value scatter(Call& call) {
  return scattered(call.body, call.value(0), call.at(1).integer(), call.value(2), call.value(3),
                   combiner_of(call.named("reduce")));
}

Value scatter_value(Call& call) {
  const Value& index = call.value(2);
  const Value number = call.body.splat(call.at(3).number(), call.value(0).dtype, index.shape);
  return scattered(call.body, call.value(0), call.at(1).integer(), index, number,
                   combiner_of(call.named("reduce")));
}

// Summed in fp32 for narrower floats.
Value scatter_add(Call& call) {
  Body& body = call.body;
  const ElementType wide = math_dtype(call.out().dtype);
  const Value value = body.convert(call.value(0), wide);
  const Value source = body.convert(call.value(3), wide);
  const Value made = scattered(body, value, call.at(1).integer(), call.value(2), source, "add");
  return body.convert(made, call.out().dtype);
}

// Without the value itself, elements that are written to start from the combiner's neutral number.
Number neutral_of(std::string_view combiner, ElementType dtype) {
  if (combiner == "add") return int64_t{0};
  if (combiner == "multiply") return int64_t{1};
  return combiner == "maximum" ? Body::lowest(dtype) : Body::highest(dtype);
}

Value divided(Body& body, const Value& sum, Value counts, bool include_self) {
  const Value one = body.like(1, counts);
  counts = include_self ? body.add(counts, one) : body.binary("maximum", counts, one);
  const Value divisor = body.convert(counts, sum.dtype);
  return graph::is_float(sum.dtype) ? body.divide(sum, divisor) : floored(body, sum, divisor);
}

Value scatter_reduce(Call& call) {
  Body& body = call.body;
  const Value& index = call.value(2);
  const int64_t axis = call.at(1).integer();
  const bool is_mean = call.at(4).text() == "mean";
  const bool include_self = call.named("include_self").flag();
  const std::string_view combiner = combiner_of(call.at(4));
  ElementType wide = math_dtype(call.out().dtype);
  if (wide == ElementType::kI1) wide = ElementType::kI32;
  Value start = body.convert(call.value(0), wide);
  const Value updates = body.convert(call.value(3), wide);
  Value counts;
  if (is_mean || !include_self) {
    const Value ones = body.splat(1, ElementType::kI32, index.shape);
    const Value none = body.splat(0, ElementType::kI32, call.value(0).shape);
    counts = scattered(body, none, axis, index, ones, "add");
  }
  if (!include_self) {
    const Value written = body.compare("GT", counts, body.like(0, counts));
    start = body.select(written, body.like(neutral_of(combiner, wide), start), start);
  }
  Value made = scattered(body, start, axis, index, updates, combiner);
  if (is_mean) made = divided(body, made, counts, include_self);
  return body.convert(made, call.out().dtype);
}

// One number for all that is chosen, or one row after the other.
Value put_by_mask(Call& call, const Value& mask, bool accumulate) {
  Body& body = call.body;
  const Value& value = call.value(0);
  Value updates = call.value(2);
  const Value spread = body.broadcast_in_dim(mask, value.shape, counted_up(mask.rank()));
  const Shape rest(value.shape.begin() + mask.rank(), value.shape.end());
  const bool is_row = updates.shape.size() <= rest.size();
  Value made;
  if (is_row || updates.shape[0] == 1) {
    if (!is_row) updates = body.reshape(updates, Shape(updates.shape.begin() + 1, updates.shape.end()));
    made = body.broadcast(body.tensor(updates, value.dtype, rest), value.shape);
  } else {
    Shape rows = rest;
    rows.insert(rows.begin(), updates.shape[0]);
    body.check_chosen(
        mask, "EQ", rows[0],
        fmt::format("shape mismatch: value tensor of shape {} cannot be broadcast to as many rows as the "
                    "mask chooses",
                    list_text(updates.shape)));
    made = packed_by_mask(body, spread, body.tensor(updates, value.dtype, rows));
  }
  return body.select(spread, accumulate ? body.add(value, made) : made, value);
}

// A mask that covers whole dimensions chooses between the value and one number.
Value index_put(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const std::vector<Arg>& indices = call.at(1).list();
  const bool accumulate = !call.at(3).is_none() && call.at(3).flag();
  const auto is_given = [](const Arg& each) { return !each.is_none(); };
  if (indices.size() == 1 && is_given(indices[0]) && indices[0].value().dtype == ElementType::kI1)
    return put_by_mask(call, indices[0].value(), accumulate);
  if (std::none_of(indices.begin(), indices.end(), is_given)) {
    const Value made = body.tensor(call.at(2), value.dtype, value.shape);
    return accumulate ? body.add(value, made) : made;
  }
  const JointPlaces joint = joint_places(body, value, indices);
  Shape full;
  for (int axis = 0; axis < value.rank(); ++axis)
    if (!has(joint.axes, axis)) full.push_back(value.shape[axis]);
  full.insert(full.begin() + joint.at, joint.shape.begin(), joint.shape.end());
  const auto end = joint.at + static_cast<int64_t>(joint.shape.size());
  Shape windows;
  for (int64_t axis = 0; axis < static_cast<int64_t>(full.size()); ++axis)
    if (axis < joint.at || axis >= end) windows.push_back(axis);
  const ElementType wide = accumulate ? math_dtype(call.out().dtype) : call.out().dtype;
  const Value start = body.convert(value, wide);
  const Value updates = body.tensor(call.at(2), wide, full);
  const Value made =
      scatter_op(body, start, joint.places, updates, joint.axes, windows, accumulate ? "add" : "");
  return body.convert(made, call.out().dtype);
}

// By places in the flat value.
Value put_flat(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const bool accumulate = !call.at(3).is_none() && call.at(3).flag();
  const ElementType wide = accumulate ? math_dtype(value.dtype) : value.dtype;
  const int64_t count = size_of(value.shape);
  const int64_t places = size_of(call.value(1).shape);
  if (count == 0 || places == 0) return value;
  const Value flat = body.reshape(body.convert(value, wide), {count});
  const Value index = body.reshape(counted(body, call.value(1), count), {places, 1});
  const Value updates = body.reshape(body.convert(call.value(2), wide), {places});
  const Value made = scatter_op(body, flat, index, updates, {0}, {}, accumulate ? "add" : "");
  return body.convert(body.reshape(made, value.shape), value.dtype);
}

Shape other_axes(int64_t axis, int rank) {
  Shape axes;
  for (int each = 0; each < rank; ++each)
    if (each != axis) axes.push_back(each);
  return axes;
}

Value index_add(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const Arg& alpha = call.named("alpha");
  if (value.rank() == 0) {
    const Value source = body.reshape(call.value(3), {});
    const Value factor = body.like(alpha.number(), value);
    return body.add(value, body.multiply(source, factor));
  }
  const int64_t axis = axis_of(call.at(1).integer(), value.rank());
  const ElementType wide = math_dtype(call.out().dtype);
  Value updates = body.convert(call.value(3), wide);
  if (!equals(alpha.number(), 1)) updates = body.multiply(updates, body.like(alpha.number(), updates));
  const Value index = counted(body, call.value(2), value.shape.at(axis));
  const Value places = body.reshape(index, {updates.shape.at(axis), 1});
  const Value start = body.convert(value, wide);
  const Value made = scatter_op(body, start, places, updates, {axis}, other_axes(axis, value.rank()), "add");
  return body.convert(made, call.out().dtype);
}

Value index_copy(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  Value source = call.value(3);
  if (value.rank() == 0) return body.reshape(source, {});
  const int64_t axis = axis_of(call.at(1).integer(), value.rank());
  if (source.rank() == 0) source = body.reshape(source, {1});  // one number, for a vector
  const Value index = counted(body, call.value(2), value.shape.at(axis));
  const Value places = body.reshape(index, {source.shape.at(axis), 1});
  return scatter_op(body, value, places, source, {axis}, other_axes(axis, value.rank()));
}

// Rows of the gradient summed by index; those of the padding index are dropped.
Value embedding_backward(Call& call) {
  Body& body = call.body;
  require(!call.at(4).flag(), "with scale_grad_by_freq is not written");
  const auto& [shape, dtype, _] = call.out();
  const int64_t padding = call.at(3).integer();
  const int64_t rows = size_of(call.value(1).shape);
  const ElementType wide = math_dtype(dtype);
  const Value flat = body.reshape(body.convert(call.value(1), ElementType::kI32), {rows});
  Value updates = body.reshape(body.convert(call.value(0), wide), {rows, shape.at(1)});
  if (padding >= 0) {
    const Value kept = body.compare("NE", flat, body.like(padding, flat));
    const Value spread = body.broadcast_in_dim(kept, updates.shape, {0});
    updates = body.select(spread, updates, body.like(0, updates));
  }
  const Value places = body.reshape(flat, {rows, 1});
  const Value made = scatter_op(body, body.splat(0, wide, shape), places, updates, {0}, {1}, "add");
  return body.convert(made, dtype);
}

// First and end, by dimension, of the box of elements that are not -1; nothing where others are in it, or out
// of order.
std::optional<std::pair<Shape, Shape>> box_of(const Shape& sources, const Shape& shape) {
  Shape low = shape;
  Shape high(shape.size(), 0);
  const auto each = [&](const auto& visit) {
    Shape at(shape.size(), 0);
    for (const int64_t source : sources) {
      visit(at, source);
      for (size_t axis = shape.size(); axis-- > 0;) {
        if (++at[axis] < shape[axis]) break;
        at[axis] = 0;
      }
    }
  };
  each([&](const Shape& at, int64_t source) {
    for (size_t axis = 0; source >= 0 && axis < at.size(); ++axis) {
      low[axis] = std::min(low[axis], at[axis]);
      high[axis] = std::max(high[axis], at[axis] + 1);
    }
  });
  int64_t next = 0;
  bool is_plain = true;
  each([&](const Shape& at, int64_t source) {
    for (size_t axis = 0; axis < at.size(); ++axis)
      if (at[axis] < low[axis] || at[axis] >= high[axis]) return;
    is_plain = is_plain && source == next++;
  });
  return is_plain ? std::optional(std::pair(low, high)) : std::nullopt;
}

// Of each element of the value: which of the part's it becomes, or -1.
Shape sources_of(const Shape& held, const Shape& written) {
  const int64_t count = std::max(*std::max_element(held.begin(), held.end()),
                                 *std::max_element(written.begin(), written.end())) +
                        1;
  Shape at(count, -1);
  for (size_t i = 0; i < written.size(); ++i) at[written[i]] = static_cast<int64_t>(i);
  Shape sources;
  for (const int64_t place : held) sources.push_back(at[place]);
  return sources;
}

// The value with its elements at these places in memory replaced by the part's.
Value as_strided_scatter(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const Value& part = call.value(1);
  if (is_empty(part.shape) || is_empty(value.shape)) return value;
  const int64_t offset = call.at(4).is_none() ? 0 : call.at(4).integer();
  const Shape written = stored_places(call.at(2).integers(), call.at(3).integers(), offset);
  const Shape sources = sources_of(stored_places(value.shape, call.out().stride, 0), written);
  const auto count = static_cast<size_t>(
      std::count_if(sources.begin(), sources.end(), [](int64_t source) { return source >= 0; }));
  require(count == written.size(), "writes one element twice, or elements that the tensor does not show");
  if (value.rank() == 0) return body.reshape(part, {});
  if (const auto box = box_of(sources, value.shape)) {
    Shape sizes;
    for (size_t i = 0; i < box->first.size(); ++i) sizes.push_back(box->second[i] - box->first[i]);
    std::vector<Value> operands = {value, body.reshape(part, sizes)};
    for (const int64_t place : box->first) operands.push_back(body.splat(place, ElementType::kI32));
    return body.op("dynamic_update_slice", operands, value.shape, value.dtype);
  }
  const Value flat = body.reshape(part, {static_cast<int64_t>(written.size())});
  std::vector<int32_t> places;
  std::vector<bool> is_written;
  for (const int64_t source : sources) {
    places.push_back(static_cast<int32_t>(std::max<int64_t>(source, 0)));
    is_written.push_back(source >= 0);
  }
  const Value index = body.constant({static_cast<int64_t>(places.size())}, places);
  const Value made = body.reshape(take(body, flat, index, 0), value.shape);
  if (count == sources.size()) return made;
  return body.select(body.constant(value.shape, is_written), made, value);
}

// Chosen elements take the source's one after the other.
Value masked_scatter(Call& call) {
  Body& body = call.body;
  const auto& [shape, dtype, _] = call.out();
  if (is_empty(shape) || is_empty(call.value(2).shape)) return body.tensor(call.at(0), dtype, shape);
  const Value chosen = body.tensor(call.at(1), ElementType::kI1, shape);
  body.check_chosen(chosen, "LE", size_of(call.value(2).shape),
                    "Number of elements of source < number of ones in mask");
  const Value packed = packed_by_mask(body, chosen, call.value(2));
  return body.select(chosen, packed, body.tensor(call.at(0), dtype, shape));
}

// Gradients of the chosen elements one after the other, then zeros.
Value masked_scatter_backward(Call& call) {
  Body& body = call.body;
  const Value& gradient = call.value(0);
  const auto& [shape, dtype, _] = call.out();
  if (is_empty(shape) || is_empty(gradient.shape)) return body.splat(0, dtype, shape);
  const int64_t count = size_of(gradient.shape);
  const Value chosen = body.reshape(body.tensor(call.at(1), ElementType::kI1, gradient.shape), {count});
  const Value given = body.reshape(gradient, {count});
  const Value updates = body.select(chosen, given, body.like(0, given));
  const Value places = body.reshape(places_of_chosen(body, chosen), {count, 1});
  const Value start = body.splat(0, dtype, {size_of(shape)});
  return body.reshape(scatter_op(body, start, places, updates, {0}, {}, "add"), shape);
}

}  // namespace

Value scatter_op(Body& body, const Value& value, const Value& places, const Value& updates, const Shape& axes,
                 const Shape& windows, std::string_view combiner) {
  if (is_empty(updates.shape) || is_empty(value.shape)) return value;
  const std::string text = fmt::format(
      "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {}, inserted_window_dims = {}, "
      "scatter_dims_to_operand_dims = {}, index_vector_dim = {}>, indices_are_sorted = false, "
      "unique_indices = false",
      list_text(windows), list_text(axes), list_text(axes), places.rank() - 1);
  const std::string region =
      body.region({value.dtype, value.dtype}, [combiner](Body& inner, const std::vector<Value>& given) {
        if (combiner.empty()) return std::vector{given[1]};
        return std::vector{combiner == "add" ? inner.add(given[0], given[1])
                                             : inner.binary(combiner, given[0], given[1])};
      });
  return body.op("scatter", {value, places, updates}, value.shape, value.dtype, text, region);
}

Value packed_by_mask(Body& body, const Value& mask, const Value& source) {
  const Value flat = body.reshape(source, {size_of(source.shape)});
  const Value places = places_of_chosen(body, body.reshape(mask, {size_of(mask.shape)}));
  if (is_empty(source.shape) || is_empty(mask.shape)) return body.splat(0, source.dtype, mask.shape);
  return body.reshape(take(body, flat, places, 0), mask.shape);
}

Value places_of_chosen(Body& body, const Value& mask) {
  const int64_t count = mask.shape.at(0);
  const Value ones = body.convert(mask, ElementType::kI32);
  const Value before = count ? body.reduce_window("add", ones, 0, {count}, {1}, {{count - 1, 0}}) : ones;
  const Value one = body.like(1, before);
  const Value number = body.subtract(before, one);
  return body.binary("maximum", number, body.like(0, before));
}

// torch.scatter: each element of the updates has a place along one axis, and its own in the others.
Value scattered(Body& body, Value value, int64_t dimension, Value index, Value updates,
                std::string_view combiner) {
  if (is_empty(index.shape)) return value;
  const Shape shape = value.shape;
  if (value.rank() == 0) {
    value = body.reshape(value, {1});
    index = body.reshape(index, {1});
    updates = body.reshape(updates, {1});
  }
  if (index.rank() == 0) {
    index = body.reshape(index, {1});
    updates = body.reshape(updates, {1});
  }
  const int64_t axis = axis_of(dimension, value.rank());
  const Value places = coordinates(body, counted(body, index, value.shape.at(axis)), axis);
  const Value cut = body.slice(updates, Shape(updates.shape.size(), 0), index.shape);
  return body.reshape(scatter_op(body, value, places, cut, counted_up(value.rank()), {}, combiner), shape);
}

Table scatters() {
  return {
      {{"scatter.src", "scatter.reduce"}, scatter},
      {{"scatter.value", "scatter.value_reduce"}, scatter_value},
      {{"scatter_add.default"}, scatter_add},
      {{"scatter_reduce.two"}, scatter_reduce},
      {{"put.default"}, put_flat},
      {{"index_put.default", "_unsafe_index_put.default", "_index_put_impl.default"}, index_put},
      {{"index_add.default"}, index_add},
      {{"index_copy.default"}, index_copy},
      {{"embedding_dense_backward.default"}, embedding_backward},
      {{"as_strided_scatter.default", "prims.as_strided_scatter"}, as_strided_scatter},
      {{"masked_scatter.default"}, masked_scatter},
      {{"masked_scatter_backward.default"}, masked_scatter_backward},
  };
}

}  // namespace opentrn::import::aten
